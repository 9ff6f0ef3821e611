"""`edgefl control RUN COMMAND` gives a command to the server of a run, and shows the commands that were carried out.

The command goes through the directory of the run (server/command_folder.py). Whoever may write there is the operator.
"""

from __future__ import annotations

import argparse
import json
import secrets
import time
from datetime import datetime
from pathlib import Path

from edgefl.cli.devices import check_served
from edgefl.errors import RequestError
from edgefl.server import command_folder, run_history
from edgefl.server.live_file import is_alive, read_live
from edgefl.server.member_records import AnswerOperator, CommandGiven, OperatorCommand
from edgefl.server.operator_command import checked

LOOK_S = 0.1  # seconds between looks for the answer
COMMANDS = """command and its value: pause, resume, stop, drain, remove CLIENT, readmit CLIENT, set deadline=S, set
    rounds=N, or set select=CHOICE (default: list the commands that were carried out)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, the command and the patience."""
    parser.add_argument("run", type=Path, metavar="RUN", help="directory of a served run")
    parser.add_argument("words", nargs="*", metavar="COMMAND", help=" ".join(COMMANDS.split()))
    parser.add_argument(
        "--timeout",
        type=float,
        default=30.0,
        metavar="S",
        help="time in seconds that the command waits for the answer of the server (default: %(default)g)",
    )


def run(options: argparse.Namespace) -> int:
    """Give the command and print the answer, or list earlier commands. Return 1 if the server refuses the command."""
    check_served(options.run)
    if not options.words:
        carried_out = run_history.progress(options.run).commands
        print(json.dumps([_as_json(each) for each in carried_out]) if options.json else _listed(carried_out))
        return 0
    try:
        words = checked(options.words)
    except ValueError as error:
        raise RequestError(str(error)) from error
    now = time.time()
    command = CommandGiven(f"{time.time_ns()}-{secrets.token_hex(4)}", now, words)
    command_folder.give(options.run, command)
    answer = _answer(options.run, command.name, options.timeout)
    if options.json:
        found = {"command": words, "done": answer and answer.is_done, "answer": answer and answer.line}
        print(json.dumps(found))
    else:
        print(_waiting(options.run, options.timeout) if answer is None else answer.line)
    return 0 if answer is None or answer.is_done else 1


def _answer(run: Path, name: str, timeout_s: float) -> AnswerOperator | None:
    """Wait for the server's answer. Return None if no server runs, or if it does not answer in time."""
    until = time.monotonic() + timeout_s
    while is_alive(read_live(run), time.time()):
        answer = command_folder.take_answer(run, name)
        if answer is not None or time.monotonic() > until:
            return answer
        time.sleep(LOOK_S)
    return command_folder.take_answer(run, name)


def _waiting(run: Path, timeout_s: float) -> str:
    """Return the line about a command without an answer."""
    if is_alive(read_live(run), time.time()):
        return f"the server has not answered within {timeout_s:g} s; it carries the command out when it can"
    return f"no server serves {run}; the command waits for `edgefl serve --resume {run}`"


def _as_json(command: OperatorCommand) -> dict[str, object]:
    return {"given": command.given, "round": command.round, "words": list(command.words)}


def _listed(commands: tuple[OperatorCommand, ...]) -> str:
    """Return the commands as text, one a line."""
    if not commands:
        return "no commands yet"
    return "\n".join(
        f"{datetime.fromtimestamp(each.given):%Y-%m-%d %H:%M:%S}  after round {each.round}: {' '.join(each.words)}"
        for each in commands
    )
