"""The folder RUN/commands, through which `edgefl control` gives commands to the server of a run.

    RUN/commands/NAME.json    a command: its words, and the time at which it was given
    RUN/commands/NAME.answer  what became of it, which the server writes once that is durable

A command that is given while no server runs waits for the next server. A server that is killed before its answer takes
the command again, and run.db has each command once, by its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from edgefl.errors import RunError
from edgefl.server.member_records import AnswerOperator, CommandGiven
from edgefl.system.durable_files import write_atomically

FOLDER = "commands"
COMMAND, ANSWER = ".json", ".answer"
LARGEST = 1 << 16  # bytes of a command
MOST_WORDS = 16


class CommandFolder:
    """The server's side of the folder of one run."""

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._taken: set[str] = set()
        for left in self._folder.glob(f"*{ANSWER}"):  # nobody waits for the answers of an earlier server
            left.unlink(missing_ok=True)

    def look(self) -> Iterator[CommandGiven]:
        """Yield the commands that have come since the last look, in the order of their names."""
        with suppress(OSError):
            if not self._folder.is_dir():
                return
            for file in sorted(self._folder.glob(f"*{COMMAND}")):
                if file.stem not in self._taken:
                    self._taken.add(file.stem)
                    yield _read(file)

    def answer(self, answer: AnswerOperator) -> None:
        """Write the answer to a command, and remove the command. A disk that refuses leaves the command there."""
        file = self._folder / f"{answer.name}{COMMAND}"
        if not file.exists():
            return
        with suppress(OSError):
            content = json.dumps({"done": answer.is_done, "line": answer.line})
            write_atomically(file.with_suffix(ANSWER), content.encode())
            file.unlink()


def give(run: Path, command: CommandGiven) -> None:
    """Write a command for the server of the run. Raises RunError if the disk refuses."""
    folder = run / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        content = json.dumps({"words": command.words, "given": command.given})
        write_atomically(folder / f"{command.name}{COMMAND}", content.encode())
    except OSError as error:
        raise RunError(f"{folder} cannot be written ({error})") from None


def take_answer(run: Path, name: str) -> AnswerOperator | None:
    """Return the answer to a command and remove it, or return None before the server has answered."""
    file = run / FOLDER / f"{name}{ANSWER}"
    try:
        found = json.loads(file.read_bytes())
        file.unlink(missing_ok=True)
        return AnswerOperator(name, str(found["line"]), bool(found["done"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{file} is not an answer of a server ({error}); look at the run with `edgefl status`") from None


def _read(file: Path) -> CommandGiven:
    """Return the command in the file. A file without a command becomes a command without words, which is refused."""
    try:
        with file.open("rb") as opened:
            content = json.loads(opened.read(LARGEST))
        words = tuple(str(word) for word in content["words"][:MOST_WORDS])
        return CommandGiven(file.stem, float(content["given"]), words)
    except (OSError, ValueError, KeyError, TypeError):
        return CommandGiven(file.stem, 0.0, ())
