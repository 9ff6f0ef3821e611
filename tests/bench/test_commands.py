"""The table of `python -m bench`: every command has a module with a main, and a module is imported only when called."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from bench.__main__ import WHATS, main
from bench.commands import COMMANDS
from bench.processes import ROOT


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_module_with_a_main(name: str) -> None:
    source = (ROOT / "bench" / f"{COMMANDS[name].module.replace('.', '/')}.py").read_text("utf-8")
    mains = [each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef) and each.name == "main"]
    assert len(mains) == 1 and len(mains[0].args.args) == 1
    assert name not in WHATS


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    shown = capsys.readouterr().out
    assert [
        name for name, command in COMMANDS.items() if f"{name} " not in shown or command.sentence not in shown
    ] == []


def test_a_command_imports_no_other_command() -> None:
    """One process for all: what `python -m bench` imports before it knows the command."""
    code = "import sys, bench.__main__; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    modules = set(found.stdout.split())
    assert [name for name, command in COMMANDS.items() if f"bench.{command.module}" in modules] == []


def test_a_command_is_given_the_rest_of_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["calls", "--help"])
    assert "python -m bench calls" in capsys.readouterr().out
