"""The two helps of a parser: the common options, or every option. No line break splits a name."""

from __future__ import annotations

import pytest

from edgefl.cli.option_parser import OptionParser


def parser(**more: object) -> OptionParser:
    made = OptionParser(prog="edgefl try", description="Tries.", examples=["edgefl try a --rounds 3"], **more)
    made.add_argument("what", metavar="WHAT", help="thing to try")
    training = made.add_argument_group("training")
    training.add_argument("--rounds", type=int, metavar="N", help="number of rounds (default: 5)")
    training.add_argument("--rate", type=float, required=True, metavar="R", help="learning rate")
    rare = made.add_argument_group("rare", "Seldom of use.")
    rare.add_argument("--seldom", action="store_true", help="something-that-is-seldom " * 4)
    return made


SHORT = """\
usage: edgefl try [options] --rate R WHAT

Tries.

positional arguments:
  WHAT        thing to try

training:
  --rounds N  number of rounds (default: 5)
  --rate R    learning rate

help:
  -h, --help  show the common options and examples
  --help-all  show every option, and examples

1 more option: edgefl try --help-all

examples:
  edgefl try a --rounds 3
"""


def test_help_shows_the_common_and_the_required_options() -> None:
    assert parser(common=["--rounds"]).format_help() == SHORT


@pytest.mark.parametrize("common", [(), ("--rounds",)])
def test_help_all_shows_every_option(common: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    made = parser(common=common)
    if common:
        with pytest.raises(SystemExit) as ended:
            made.parse_args(["--help-all"])
        assert ended.value.code == 0
        text = capsys.readouterr().out
    else:
        text = made.format_help()
    assert "rare:\n  Seldom of use.\n\n  --seldom    something-that-is-seldom something-that-is-seldom\n" in text
    assert "more option" not in text


def test_a_command_whose_options_are_all_common_has_one_help() -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["a", "--rate", "1", "--help-all"])
    assert ended.value.code == 2


def test_usage_names_what_is_needed_and_keeps_an_option_with_its_value() -> None:
    made = OptionParser(prog="edgefl try")
    either = made.add_mutually_exclusive_group(required=True)
    either.add_argument("--server", metavar="HOST:PORT")
    either.add_argument("--flower", metavar="URL")
    made.add_argument("--state", required=True, metavar="DIR")
    made.add_argument("-o", "--output", required=True, metavar="FILE-OF-SOME-LENGTH")
    made.add_argument("shell", choices=("bash", "zsh"))
    made.add_argument("runs", nargs="+", metavar="RUN")
    assert made.format_help().startswith(
        "usage: edgefl try [options] (--server HOST:PORT | --flower URL) --state DIR\n"
        "       --output FILE-OF-SOME-LENGTH {bash,zsh} RUN...\n"
    )


def test_a_long_example_is_parted_as_the_shell_does_it() -> None:
    made = OptionParser(prog="edgefl try", examples=[f"edgefl try {'a' * 40} {'b' * 40}"])
    assert made.format_help().endswith(f"examples:\n  edgefl try {'a' * 40} \\\n      {'b' * 40}\n")
