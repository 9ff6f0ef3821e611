"""OptionParser is argparse's parser with two helps, and with refusals of one sentence that name the nearest option.

`--help` shows the common options of a command, and `--help-all` shows every option. Both helps end with examples.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NoReturn

from edgefl.errors import expected_name, nearest
from edgefl.protocol.wire.printable import printable

COLUMNS = 78  # widest line of a help, as argparse keeps two of 80 columns free
BLANK = "\0"  # stands for a blank at which no line ends
HELP_COLUMN = 26  # where the text of an option begins at the latest


class OptionParser(argparse.ArgumentParser):
    """A parser that exits with 2, and one line on stderr, for words that it does not understand.

    common    options that `--help` shows, by their names, as "--rounds"; empty for every option
    examples  command lines that both helps end with
    """

    def __init__(self, common: Collection[str] = (), examples: Iterable[str] = (), **more: Any) -> None:
        super().__init__(add_help=False, **{"formatter_class": _Formatter, **more})
        self.common, self.examples = frozenset(common), tuple(examples)
        self.help_options = self.add_argument_group("help")
        shown = "show the common options and examples" if self.common else "show every option, and examples"
        self.help_options.add_argument("-h", "--help", action="help", help=shown)
        if self.common:
            self.help_options.add_argument("--help-all", action=_HelpAll, help="show every option, and examples")

    def parse_args(  # type: ignore[override]  # argparse declares three forms of it
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Return the options. For words that are left over, exit with 2 and name the options near to the first word."""
        found, left = self.parse_known_args(args, namespace)
        if left:
            self.error(self._unknown(left))
        return found

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Return the value of the text. Raises ArgumentError that says which kind of number was expected."""
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            if action.type not in (int, float):
                raise
        expected = "a whole number" if action.type is int else "a number"
        raise argparse.ArgumentError(action, f"{arg_string!r}; expected {expected}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise ArgumentError that names the nearest choice, or all choices, for a value that is not a choice."""
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"{value!r}; {expected_name(str(value), map(str, action.choices))}")

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where the options are listed, and exit with 2."""
        print(printable(f"{self.prog}: {message}; `{self.prog} --help` lists the options"), file=sys.stderr)
        raise SystemExit(2)

    def format_help(self) -> str:
        """Return the help of the common options: usage, description, the options by groups, examples."""
        return self._help(self.common)

    def format_full_help(self) -> str:
        """Return the help of every option, which `--help-all` prints."""
        return self._help(frozenset())

    def _help(self, common: Collection[str]) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.usage or self._usage(), [], [])
        formatter.add_text(self.description)
        hidden = 0
        for group in sorted(self._action_groups, key=lambda each: each is self.help_options):
            listed = [each for each in group._group_actions if each.help != argparse.SUPPRESS]
            shown = [each for each in listed if _is_shown(each, common) or group is self.help_options]
            hidden += len(listed) - len(shown)
            formatter.start_section(group.title)
            formatter.add_text(group.description if shown else None)
            formatter.add_arguments(shown)
            formatter.end_section()
        if hidden:
            formatter.add_text(f"{hidden} more option{'s' * (hidden > 1)}: {self.prog} --help-all")
        formatter.add_text(self.epilog)
        text = formatter.format_help()
        return text + "".join(["\nexamples:\n", *map(_example, self.examples)] if self.examples else [])

    def _usage(self) -> str:
        """Return the command with its required options and its positional arguments."""
        groups = [each._group_actions for each in self._mutually_exclusive_groups if each.required]
        in_groups = [each for group in groups for each in group]
        needed = [each for each in self._actions if each.required and each not in in_groups and each.option_strings]
        words = [self.prog, "[options]", *(f"({' | '.join(map(_written, group))})" for group in groups)]
        words += [*map(_written, needed), *(_written(each) for each in self._actions if not each.option_strings)]
        lines = textwrap.wrap(" ".join(each.replace(" ", BLANK) for each in words), COLUMNS - 7, break_on_hyphens=False)
        return "\n       ".join(lines).replace(BLANK, " ")

    def _unknown(self, left: list[str]) -> str:
        first = next((word for word in left if word.startswith("-")), left[0])
        name = first.partition("=")[0]
        options = [text for action in self._actions for text in action.option_strings if text.startswith("--")]
        near = nearest(name, options) if name.startswith("--") else []
        if not name.startswith("-"):
            return f"{' '.join(left)} is one word too many; an option begins with --"
        return f"there is no option {name}" + (f"; the nearest are {', '.join(near)}" if near else "")


def _is_shown(action: argparse.Action, common: Collection[str]) -> bool:
    is_needed = not action.option_strings or action.required
    return not common or is_needed or any(name in common for name in action.option_strings)


def _written(action: argparse.Action) -> str:
    """Return an option or an argument with its value, as a user writes it."""
    value = action.metavar or f"{{{','.join(action.choices)}}}" if action.choices else action.metavar or action.dest
    if action.option_strings:
        return f"{action.option_strings[-1]} {value}"
    return {"?": f"[{value}]", "+": f"{value}..."}.get(str(action.nargs), str(value))


def _example(line: str) -> str:
    """Return a command line in lines of the shell of up to 78 columns."""
    lines = textwrap.wrap(line, COLUMNS - 4, break_on_hyphens=False, subsequent_indent="    ")
    return "  " + " \\\n  ".join(lines) + "\n"


class _HelpAll(argparse.Action):
    """An action that prints the help of every option and ends the program."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=more.get("help"))

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        assert isinstance(parser, OptionParser)
        print(parser.format_full_help(), end="")
        parser.exit()


class _Formatter(argparse.HelpFormatter):
    """The layout of argparse within 80 columns, where no name is split at its hyphens."""

    def __init__(self, prog: str, **more: Any) -> None:
        super().__init__(prog, **{"max_help_position": HELP_COLUMN, **more})
        self._width = min(self._width, COLUMNS)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)
