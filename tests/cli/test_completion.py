"""`edgefl completion`: the scripts name every command and option, bash takes them, and what to install is said."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgefl.cli import completion
from edgefl.cli.cli import main
from edgefl.cli.commands import COMMANDS
from edgefl.errors import RequestError


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_a_script_names_every_command_and_their_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab", reason="the extra completion is not installed")
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in text] == []
    names = ("per-round", "tls-client-ca", "help-all", "until-input-ends", "deal-test")
    assert [name in text for name in names] == [True, True, True, False, False]  # the last two are not for people


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("edgefl sim", {"simulate"}),
        ("edgefl simulate --per", {"--per-round"}),
        ("edgefl completion z", {"zsh"}),
        ("edgefl methods fedav", {"fedavg", "fedavg-ft"}),
        ("edgefl serve --method fedb", {"fedbabu"}),
        ("edgefl simulate --data edgefl.b", {"edgefl.bash"}),
        ("edgefl simulate --data spoken", {"spoken-digits"}),
    ],
)
def test_bash_completes(words: str, expected: set[str], tmp_path: Path) -> None:
    pytest.importorskip("shtab", reason="the extra completion is not installed")
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    (tmp_path / "edgefl.bash").write_text(completion.script("bash"))
    parts = words.split()
    function = "$(complete -p edgefl | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
    ask = f'source edgefl.bash; COMP_WORDS=({words}); COMP_CWORD={len(parts) - 1}; {function} edgefl "{parts[-1]}"'
    ask += f' "{parts[-2]}"; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run([bash, "-c", ask], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert {line.strip() for line in done.stdout.splitlines()} == expected, done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("edgefl sim", {"simulate"}),
        ("edgefl simulate --per", {"--per-round"}),
        ("edgefl methods fedav", {"fedavg", "fedavg-ft"}),
        ("edgefl simulate --method fedb", {"fedbabu"}),
        ("edgefl simulate --data edgefl.f", {"edgefl.fish"}),
        ("edgefl simulate --data spoken", {"spoken-digits"}),
        ("edgefl report edgefl.fish edg", set()),  # a run is a folder
    ],
)
def test_fish_completes(words: str, expected: set[str], tmp_path: Path) -> None:
    pytest.importorskip("shtab", reason="the extra completion is not installed")
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    (tmp_path / "edgefl.fish").write_text(completion.script("fish"))
    ask = f"source edgefl.fish; complete -C '{words}'"
    done = subprocess.run([fish, "--no-config", "-c", ask], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert {line.partition("\t")[0] for line in done.stdout.splitlines()} == expected, done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_shell_takes_the_script(shell: str, tmp_path: Path) -> None:
    pytest.importorskip("shtab", reason="the extra completion is not installed")
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(completion.script(shell))
    done = subprocess.run([program, "-n", "script"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_zsh_completes_names_and_several_runs() -> None:
    pytest.importorskip("shtab", reason="the extra completion is not installed")
    text = completion.script("zsh")
    assert '"*--method[name of a method]:NAME:(fedspu ' in text
    assert '"*:directory of a run' in text
    assert "_alternative 'names:name:(digits " in text


def test_a_description_is_one_phrase() -> None:
    assert completion._brief("number of rounds. The last one counts. (default: 3)") == "number of rounds"
    assert completion._brief("shape of one example (for example: 3,32,32)") == "shape of one example"
    assert completion._brief(f"way: {'a' * 80}") == "way"


def test_without_shtab_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(RequestError, match=r"pip install 'edgefl\[completion\]'"):
        completion.script("bash")
