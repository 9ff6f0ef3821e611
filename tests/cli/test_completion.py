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
    [("edgefl sim", {"simulate"}), ("edgefl simulate --per", {"--per-round"}), ("edgefl completion z", {"zsh"})],
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


def test_without_shtab_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(RequestError, match=r"pip install 'edgefl\[completion\]'"):
        completion.script("bash")
