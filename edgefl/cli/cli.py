"""The command line: picks the command, turns a user's mistake into one sentence. The commands are in edgefl/cli/.

Exit codes: 0 done, 1 the work failed, 2 the request was wrong, 130 interrupted. Results go to stdout, progress and
errors to stderr. Only the chosen command's module is imported, so that a device loads nothing it does not use.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from edgefl import __version__
from edgefl.cli.backend_option import use_backend
from edgefl.cli.former_option import command_of
from edgefl.errors import EdgeflError, RequestError
from edgefl.protocol.wire.printable import printable

COMMANDS = {  # name -> what it does; the module of that name in edgefl/cli/
    "simulate": "run federated methods without a network",
    "demo": "train a federation of real processes on this machine and show what it gains",
    "serve": "run the server of one method, for devices to connect to",
    "status": "show how far a served run has got",
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. A mistake of the user ends as one sentence on stderr, never as a traceback."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    arguments[:1] = map(command_of, arguments[:1])
    chosen = _top().parse_args(arguments[:1]).command
    command = importlib.import_module(f"edgefl.cli.{chosen}")
    parser = argparse.ArgumentParser(prog=f"edgefl {chosen}", description=COMMANDS[chosen])
    command.add_arguments(parser)
    options = parser.parse_args(arguments[1:])
    try:
        use_backend(options)
        return int(command.run(options))
    except RequestError as error:
        return _fail(chosen, error, 2)
    except (EdgeflError, OSError) as error:
        return _fail(chosen, error, 1)
    except KeyboardInterrupt:
        return _fail(chosen, getattr(command, "INTERRUPTED", "interrupted"), 130)


def _top() -> argparse.ArgumentParser:
    """The parser of the first word, which also answers --help and --version."""
    listed = "\n".join(f"  {name:<10}{what}" for name, what in COMMANDS.items())
    top = argparse.ArgumentParser(
        prog="edgefl",
        description="Personalised federated learning on devices.",
        usage="edgefl COMMAND [options]",
        epilog=f"commands:\n{listed}\n\nedgefl COMMAND --help lists the options of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"edgefl {__version__}")
    top.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="what to do")
    return top


def _fail(command: str, why: object, code: int) -> int:
    print(printable(f"edgefl {command}: {why}"), file=sys.stderr)  # a peer may have written of it
    return code
