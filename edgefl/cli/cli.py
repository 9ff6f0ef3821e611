"""The command line: picks the command, turns a user's mistake into one sentence. The commands are in edgefl/cli/.

Exit codes: 0 done, 1 the work failed, 2 the request was wrong, 130 interrupted. Results go to stdout, progress and
errors to stderr; what cannot be written to stderr is lost and ends nothing. Only the chosen command's module is
imported, so that a device loads nothing it does not use.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from edgefl.cli import log_writer
from edgefl.cli.access_error import is_of_request, sentence
from edgefl.cli.backend_option import use_backend
from edgefl.cli.former_option import command_of
from edgefl.cli.option_parser import OptionParser
from edgefl.errors import EdgeflError, RequestError, expected_name
from edgefl.protocol.wire.printable import printable
from edgefl.system.build_id import build
from edgefl.system.standard_streams import abandon_output, flush_output, lossy_error_stream

COMMANDS = {  # name -> what it does; the module of that name in edgefl/cli/
    "simulate": "run federated methods without a network",
    "methods": "list the methods with a line and the settings of each",
    "check": "say what data of your own are: classes, groups, units, what would be trained, and what to mind",
    "demo": "train a federation of real processes on this machine and show what it gains",
    "serve": "run the server of one method, for devices to connect to",
    "report": "write runs beside each other into one HTML file: curves, tables, clients, costs, settings",
    "status": "show how far a served run has got",
    "devices": "show every device of a served run: where it is, what it does, its rounds",
    "page": "show a served run as a page in a browser, while it runs or after it",
    "client": "take part in a run as one device",
    "agent": "keep a device in service: it joins runs one after another while its conditions hold",
    "partition": "write every client's samples to a file of its own",
    "keys": "make device keys, and certificates",
    "convert": "write a torch module of your own, with its weights, as a file that --model takes",
    "export": "take a trained model out of a run, or out of a device's directory",
    "predict": "run a model on inputs",
    "inspect": "show what edgefl sees in a model file: operations, neurons, memory, time of a step here",
    "memory": "show how much memory training takes, by several accounts, or what fits",
    "bench": "time a torch model of your own, whole and with frozen neurons, beside eager torch",
    "doctor": "show backend, instruction set, threads, versions and data directories",
}
LOGGED = ("serve", "page", "client", "agent")  # commands whose lines have a time and a level
WITHOUT_RICH = (
    "the package rich is missing, which its tables and its progress need: pip install 'rich>=13'; the commands of a "
    "device, client and agent, do without it"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. A mistake of the user ends as one sentence on stderr, never as a traceback."""
    with lossy_error_stream():
        try:
            return _run(sys.argv[1:] if arguments is None else list(arguments))
        finally:
            abandon_output()


def _run(arguments: list[str]) -> int:
    arguments[:1] = map(command_of, arguments[:1])
    chosen = _top().parse_args(arguments[:1]).command
    try:
        return _run_command(chosen, arguments[1:])
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "rich":
            raise
        return _fail(chosen, WITHOUT_RICH, 2)


def _run_command(chosen: str, arguments: list[str]) -> int:
    """Runs the command of that name."""
    command = importlib.import_module(f"edgefl.cli.{chosen}")
    parser = OptionParser(prog=f"edgefl {chosen}", description=COMMANDS[chosen])
    command.add_arguments(parser)
    if chosen in LOGGED:
        log_writer.add_arguments(parser)
    options = parser.parse_args(arguments)
    if chosen in LOGGED:
        log_writer.use(options)
    try:
        use_backend(options)
        code = int(command.run(options))
        flush_output()
        return code
    except RequestError as error:
        return _fail(chosen, error, 2)
    except EdgeflError as error:
        return _fail(chosen, error, 1)
    except OSError as error:
        return _fail(chosen, sentence(error), 2 if is_of_request(error) else 1)
    except KeyboardInterrupt:
        return _fail(chosen, getattr(command, "INTERRUPTED", "interrupted"), 130)


def _top() -> argparse.ArgumentParser:
    """The parser of the first word, which also answers --help and --version."""
    listed = "\n".join(f"  {name:<10}{what}" for name, what in COMMANDS.items())
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
    top.add_argument("command", type=_command, metavar="COMMAND", help="what to do")
    return top


def _command(word: str) -> str:
    if word not in COMMANDS:
        raise argparse.ArgumentTypeError(f"{word!r} is no command; {expected_name(word, COMMANDS)}")
    return word


def _fail(command: str, why: object, code: int) -> int:
    """Says how the command ended. The log of a service has the time of it, unless the request was wrong."""
    if command in LOGGED and code != 2:
        log_writer.write(f"edgefl {command}: {why}", "ERROR" if code == 1 else "INFO")
    else:
        print(printable(f"edgefl {command}: {why}"), file=sys.stderr)  # a peer may have written of it
    return code
