"""`edgefl control`, and the folder through which it reaches a server: answers, refusals, and no server at all."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edgefl.cli import control
from edgefl.cli.cli import main
from edgefl.server import command_folder
from edgefl.server.command_folder import CommandFolder, give, take_answer
from edgefl.server.live_file import write_live
from edgefl.server.live_state import LiveState
from edgefl.server.member_records import AnswerOperator, CommandGiven, OperatorCommand
from tests.server.made_run import made_run
from tests.server.served import open_store


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made_run(tmp_path / "run", clients=2, rounds=2, done=False)
    return tmp_path / "run"


def alive(run: Path) -> None:
    """Let the run look as if its server ran."""
    write_live(run, LiveState(time.time(), 1, "training", 3, None, None, "", {}))


def answering(run: Path, answer: Callable[[CommandGiven], AnswerOperator]) -> threading.Thread:
    """Start a server of commands, which ends with its first answer."""

    def serve() -> None:
        folder = CommandFolder(run)
        for _ in range(200):
            for command in folder.look():
                folder.answer(answer(command))
                return
            time.sleep(0.02)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def echo(command: CommandGiven) -> AnswerOperator:
    """Repeat the words of a command, as done if it sets a deadline."""
    words = " ".join(command.words)
    return AnswerOperator(command.name, words, "deadline" in words)


def test_the_answer_is_printed_and_says_whether_it_was_done(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alive(run)
    for words, code in (("set deadline=5", 0), ("set rounds=1", 1)):
        thread = answering(
            run, lambda given: AnswerOperator(given.name, " ".join(given.words), given.words[1][0] == "d")
        )
        assert main(["control", str(run), *words.split()]) == code
        thread.join()
        assert capsys.readouterr().out == f"{words}\n"
    assert list((run / command_folder.FOLDER).iterdir()) == []


def test_a_command_waits_for_the_next_server(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["control", str(run), "pause", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"command": ["pause"], "done": None, "answer": None}
    (command,) = CommandFolder(run).look()
    assert command.words == ("pause",)
    assert main(["control", str(run), "resume"]) == 0
    assert f"the command waits for `edgefl serve --resume {run}`" in capsys.readouterr().out


def test_a_server_that_does_not_answer_is_named(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "LOOK_S", 0.01)
    alive(run)
    assert main(["control", str(run), "stop", "--timeout", "0.05"]) == 0
    assert "the server has not answered within 0.05 s" in capsys.readouterr().out


def test_what_is_no_command_is_refused_before_anything_is_written(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["control", str(run), "fly"]) == 2
    assert "command 'fly'; expected pause, resume, stop" in capsys.readouterr().err
    assert not (run / command_folder.FOLDER).exists()
    assert main(["control", str(run / "other"), "pause"]) == 2
    assert "holds no served run" in capsys.readouterr().err


def test_the_commands_of_a_run_are_listed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["control", str(run)]) == 0
    assert capsys.readouterr().out == "no commands yet\n"
    store = open_store(run)
    store.save([OperatorCommand("a", 86400.0, 1, ("remove", "1")), OperatorCommand("b", 1e9, 2, ("stop",))])
    store.save([OperatorCommand("b", 1e9, 2, ("stop",))])  # a repeated command counts once
    store.close()
    assert main(["control", str(run)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("after round 1: remove 1")
    assert second.endswith("after round 2: stop")
    assert main(["control", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {"given": 86400.0, "round": 1, "words": ["remove", "1"]}


def test_files_that_are_no_commands_are_commands_without_words(tmp_path: Path) -> None:
    give(tmp_path, CommandGiven("b", 1.0, ("pause",)))
    folder = tmp_path / command_folder.FOLDER
    for name, content in (("a", b"{"), ("c", b'{"words": 3}'), ("d", b"\xff\x00")):
        (folder / f"{name}.json").write_bytes(content)
    found = CommandFolder(tmp_path)
    assert [(each.name, each.words) for each in found.look()] == [("a", ()), ("b", ("pause",)), ("c", ()), ("d", ())]
    assert list(found.look()) == []  # each command is taken once
    found.answer(AnswerOperator("a", "no", False))
    found.answer(AnswerOperator("unknown", "no", False))
    assert take_answer(tmp_path, "a") == AnswerOperator("a", "no", False)
    assert take_answer(tmp_path, "a") is None
    assert sorted(file.name for file in folder.iterdir()) == ["b.json", "c.json", "d.json"]
    assert next(CommandFolder(tmp_path).look()).name == "b"  # another process takes it again
