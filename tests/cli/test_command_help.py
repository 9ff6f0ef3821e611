"""The help of every command: 80 columns, a text for every option, common options that exist, examples that parse."""

from __future__ import annotations

import argparse
import re
import shlex

import pytest

from edgefl.cli.cli import main
from edgefl.cli.command_help import HELP
from edgefl.cli.commands import COMMANDS, parser_of

UNSAID = (None, False, "", (), [], argparse.SUPPRESS)  # defaults of an option that does nothing unless it is given
POINTERS = (" no inputs", "the same", " none of", "the one that", "of those", "so many", "so much")


def test_every_command_has_a_help() -> None:
    assert list(HELP) == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
class TestHelpOfCommand:
    def test_lines_have_at_most_80_columns(self, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "200")
        parser = parser_of(command, prog=f"edgefl {command}")
        assert max(map(len, (parser.format_help() + parser.format_full_help()).splitlines())) <= 80

    def test_every_option_has_a_text_that_stands_alone(self, command: str) -> None:
        for action in parser_of(command, prog="edgefl")._actions:
            assert action.help, action.option_strings
            if action.help != argparse.SUPPRESS:
                assert not [each for each in POINTERS if each in action.help], action.option_strings
                assert len(action.help.split()) >= 3 or not action.option_strings, action.option_strings

    def test_a_default_stands_at_the_end_in_one_form(self, command: str) -> None:
        for action in parser_of(command, prog="edgefl")._actions:
            text = action.help or ""
            if "default" in text:
                assert re.fullmatch(r"[^;]*[^ ;] \(default: [^;]+\)", text), (action.option_strings, text)
                assert text.count("default") == 1 + text.count("%(default)"), (action.option_strings, text)
            elif text != argparse.SUPPRESS:
                assert action.default in UNSAID, (action.option_strings, text)

    def test_common_options_exist_and_are_not_all(self, command: str) -> None:
        shown = [each for each in parser_of(command, prog="edgefl")._actions if each.help != argparse.SUPPRESS]
        names = {name for each in shown for name in each.option_strings}
        assert set(HELP[command].common) <= names
        assert not HELP[command].common or len(HELP[command].common) < len(names) - 3

    def test_examples_are_understood(self, command: str) -> None:
        examples = [each for each in HELP[command].examples if each.startswith(f"edgefl {command}")]
        assert 1 <= len(examples) <= 3
        for each in examples:
            words = shlex.split(each.partition(" > ")[0])
            parser_of(command, prog="edgefl").parse_args(words[2:])


def test_edgefl_alone_says_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.partition(":")[0] for line in said.err.splitlines()] == ["try it", "your data", "help"]
    assert max(map(len, said.err.splitlines())) <= 80
