"""The command line picks the command and turns a user's mistake into one sentence. commands.py lists the commands.

The exit codes are 0 for done, 1 for work that failed, 2 for a wrong request, and 130 for interrupted. Results go to
stdout, progress and errors go to stderr. A line that cannot be written to stderr is lost, and the command goes on.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
import textwrap
import traceback
from collections.abc import Sequence

from edgefl.cli import log_writer
from edgefl.cli.access_error import is_of_request, sentence
from edgefl.cli.backend_option import use_backend
from edgefl.cli.commands import COMMANDS, LOGGED, parser_of
from edgefl.cli.former_option import command_of
from edgefl.cli.option_parser import OptionParser
from edgefl.cli.output_options import use_output
from edgefl.cli.warning_lines import warning_lines
from edgefl.cli.working import is_verbose, note
from edgefl.errors import EdgeflError, RequestError, expected_name
from edgefl.protocol.wire.printable import printable
from edgefl.system.build_id import build
from edgefl.system.standard_streams import abandon_output, flush_output, lossy_error_stream

NEXT = """\
try it:     edgefl demo          trains a federation on this machine in a minute
your data:  edgefl check FILE    describes your data; edgefl simulate trains
help:       edgefl --help        lists the commands"""
WITHOUT_RICH = (
    "the package rich is missing, which its tables and its progress need: pip install 'rich>=13'; the commands of a "
    "device, client and agent, do without it"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. A mistake of the user ends as one sentence on stderr, never as a
    traceback.
    """
    with lossy_error_stream():
        try:
            return _run(sys.argv[1:] if arguments is None else list(arguments))
        finally:
            abandon_output()


def _run(arguments: list[str]) -> int:
    if not arguments:
        print(NEXT, file=sys.stderr)
        return 2
    arguments[:1] = map(command_of, arguments[:1])
    chosen = _top().parse_args(arguments[:1]).command
    try:
        return _run_command(chosen, arguments[1:])
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "rich":
            raise
        return _fail(chosen, WITHOUT_RICH, 2)


def _run_command(chosen: str, arguments: list[str]) -> int:
    """Run the command of that name and return its exit code."""
    command = importlib.import_module(f"edgefl.cli.{chosen}")
    options = parser_of(chosen, prog=f"edgefl {chosen}").parse_args(arguments)
    use_output(options)
    if is_verbose() and chosen not in LOGGED:
        note(f"edgefl {build()}, Python {platform.python_version()}, {platform.platform()}")
    try:
        use_backend(options)
        with warning_lines(chosen):
            code = int(command.run(options))
        flush_output()
        return code
    except RequestError as error:
        return _fail(chosen, error, 2)
    except EdgeflError as error:
        return _fail(chosen, error, 1)
    except OSError as error:
        return _fail(chosen, error, 2 if is_of_request(error) else 1)
    except KeyboardInterrupt:
        return _fail(chosen, getattr(command, "INTERRUPTED", "interrupted"), 130)


def _top() -> argparse.ArgumentParser:
    """Return the parser of the first word, which also answers --help and --version."""
    listed = "\n".join(_line(name, what) for name, what in COMMANDS.items())
    top = OptionParser(
        prog="edgefl",
        description="Personalised federated learning on devices.",
        usage="edgefl COMMAND [options]",
        epilog=f"commands:\n{listed}\n\nedgefl COMMAND --help lists the options of a command.\n"
        "exit codes: 0 done, 1 the work failed, 2 the request was wrong, 130 interrupted",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument(
        "--version", action="version", version=f"edgefl {build()}", help="print the version and the commit"
    )
    top.add_argument("command", type=_command, metavar="COMMAND", help="name of a command, as listed below")
    return top


def _line(name: str, what: str) -> str:
    """Return a command and its description, in lines of up to 78 columns."""
    return textwrap.fill(what, 78, initial_indent=f"  {name:<12}", subsequent_indent=" " * 14)


def _command(word: str) -> str:
    if word not in COMMANDS:
        raise argparse.ArgumentTypeError(f"{word!r} is not a command; {expected_name(word, COMMANDS)}")
    return word


def _fail(command: str, why: object, code: int) -> int:
    """Say how the command ended and return the exit code. The log of a service has a time, unless the request was
    wrong.
    """
    if is_verbose() and isinstance(why, Exception) and not log_writer.LogFormat.is_json:
        traceback.print_exception(why)
    if command in LOGGED and code != 2:
        log_writer.write(f"edgefl {command}: {_words(why)}", "ERROR" if code == 1 else "INFO")
    else:
        print(printable(f"edgefl {command}: {_words(why)}"), file=sys.stderr)  # a peer may have written a part of it
    return code


def _words(why: object) -> str:
    return sentence(why) if isinstance(why, OSError) else str(why)
