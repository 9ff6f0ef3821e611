"""`edgefl devices RUN` shows every device of a served run, during the run or after it, from the run's directory."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from edgefl.cli.device_table import age, device_table
from edgefl.errors import RequestError
from edgefl.server import run_history
from edgefl.server.device_rows import DeviceRow
from edgefl.server.run_view import RunView

EVERY_S = 2.0
WIDTH = 200  # columns of a table that goes to a file
LEGEND = "* the open round, or evaluation, waits for it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, and the options of the output."""
    parser.add_argument("run", type=Path, metavar="RUN", help="directory of a served run, running or over")
    add_how(parser)


def add_how(parser: argparse.ArgumentParser) -> None:
    """Add --watch, which says how often the output is shown."""
    parser.add_argument(
        "--watch",
        nargs="?",
        type=float,
        const=EVERY_S,
        metavar="S",
        help="show the table every S seconds, until the run is over or Ctrl-C is pressed. Without S it is shown every "
        f"{EVERY_S:g} seconds. (default: once)",
    )


def run(options: argparse.Namespace) -> int:
    """Print the devices."""
    check_served(options.run)
    view = RunView(options.run)
    return follow(options, view, lambda: devices_json(view), lambda: devices_text(view, time.time()))


def check_served(run: Path) -> None:
    """Raise RequestError for a folder that is not the directory of a served run."""
    if not run_history.is_served(run):
        raise RequestError(f"{run} holds no served run (run.db is missing); expected the directory of `edgefl serve`")


def devices_json(view: RunView) -> dict[str, Any]:
    """Return the devices and the facts about the run as JSON values."""
    return {**view.facts(), "devices": [row.to_json() for row in view.rows]}


def devices_text(view: RunView, now: float) -> RenderableType:
    """Return the devices for a terminal. `now` is the present time in seconds since 1970."""
    facts = view.facts()
    lines = [f"{facts['enrolled']} of {facts['clients']} devices enrolled, {facts['connected']} connected"]
    if facts["waiting"]:
        lines.append(facts["waiting"])
    if not facts["running"]:
        seen = facts["seen"]
        ago = "" if seen is None else f"; the server was last there {age(now - seen)} ago"
        lines.append(("the run is over" if facts["done"] else "the run's server does not run") + ago)
    if any(row.waited_for for row in view.rows):
        lines.append(LEGEND)
    return Group(Text("\n".join(lines)), device_table(view.rows))


def follow(
    options: argparse.Namespace,
    view: RunView,
    to_json: Callable[[], dict[str, Any]],
    to_text: Callable[[], RenderableType],
) -> int:
    """Look at the run and show it: once, or with --watch until the run is over. Return the exit code."""
    if options.watch is not None and not 0 < options.watch < float("inf"):
        raise RequestError(f"--watch {options.watch}; expected a number of seconds > 0")
    looks = _looks(view, options.watch)
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    try:
        if options.json:
            for _ in looks:
                print(json.dumps(to_json()), flush=True)
        elif options.watch is None or not console.is_terminal:
            for _ in looks:
                console.print(to_text(), soft_wrap=False)
        else:
            with Live(console=console, auto_refresh=False, screen=False, vertical_overflow="visible") as live:
                for _ in looks:
                    live.update(to_text(), refresh=True)
    except KeyboardInterrupt:
        if options.watch is None:
            raise
    return 0


def _looks(view: RunView, every_s: float | None) -> Iterator[list[DeviceRow]]:
    """Yield the rows of the run, now and every `every_s` seconds until the run is over. With None they are yielded
    once.
    """
    while True:
        view.look(time.time())
        yield view.rows
        if every_s is None or (view.history.done and not view.is_running):
            return
        time.sleep(every_s)
