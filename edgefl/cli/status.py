"""`edgefl status RUN` shows the progress of a served run, during the run or after it."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from edgefl.cli.devices import add_how, check_served, devices_text, follow
from edgefl.experiment.settings import Experiment
from edgefl.protocol.wire.printable import printable
from edgefl.server import run_history
from edgefl.server.array_files import frozen_bytes
from edgefl.server.endpoint import read_endpoint
from edgefl.server.run_control import commanded_rounds
from edgefl.server.run_view import RunView
from edgefl.study import progress_display
from edgefl.study.energy_totals import measured, words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, and the options of the output."""
    parser.add_argument("run", type=Path, metavar="RUN", help="directory of a served run")
    parser.add_argument("--devices", action="store_true", help="show every device as well, like `edgefl devices`")
    add_how(parser)


def run(options: argparse.Namespace) -> int:
    """Print what the run's database says. The database is only read. Raises RequestError if it is not there."""
    check_served(options.run)
    if options.devices or options.watch is not None:
        return _follow(options)
    found = examine(options.run)
    print(json.dumps(found) if options.json else describe(found))
    return 0


def _follow(options: argparse.Namespace) -> int:
    """Show the run, with its devices if they are asked for, once or again and again."""
    view = RunView(options.run)

    def to_json() -> dict[str, Any]:
        found = examine(options.run)
        return {**found, "devices": [row.to_json() for row in view.rows]} if options.devices else found

    def to_text() -> RenderableType:
        text = Text(describe(examine(options.run)))
        return Group(text, devices_text(view, time.time())) if options.devices else text

    return follow(options, view, to_json, to_text)


def examine(path: Path) -> dict[str, Any]:
    """Return the findings as JSON values. Raises RunError if there is no served run."""
    reached, log_records, traffic = run_history.progress(path), run_history.metrics(path), run_history.traffic(path)
    experiment = Experiment.of_run(path)
    rulings = reached.rulings
    evaluated = [log_record for log_record in log_records if "evaluation" in log_record]
    return {
        "run": str(path),
        "method": experiment.methods[0],
        "listening": read_endpoint(path),
        "clients": experiment.clients,
        "enrolled": len(reached.capacities),
        "rounds": commanded_rounds(reached.commands, experiment.rounds),
        "closed": reached.round,
        "done": reached.done,
        "open": None if reached.opened is None else {"round": reached.round + 1, "clients": list(reached.opened)},
        "answered": [judged.client for judged in reached.answers],
        "outcomes": dict(Counter("absent" if each is None else each.outcome for each in rulings.values())),
        **not_aggregated(log_records),
        "losses": [{"client": k, "after": after, "kept": kept} for (k, after), kept in reached.losses.items()],
        "refusals": [{"client": client, "reason": reason} for client, reason in reached.refusals.items()],
        "removed": sorted(reached.removed),
        "payload_bytes": sum(
            sum(log_record["down"].values()) + sum(log_record["up"].values()) for log_record in log_records
        ),
        "limited_values": sum(log_record.get("limited_values", 0) for log_record in log_records),
        "measured_joules": measured(log_records),
        "socket_bytes": traffic[-1].sent + traffic[-1].received if traffic else 0,
        "frozen_bytes": frozen_bytes(path),
        "last_evaluation": evaluated[-1] if evaluated else None,
    }


def not_aggregated(log_records: list[dict[str, Any]]) -> dict[str, int]:
    """Return the numbers of accepted replies that were left out or shortened when their rounds closed. Only rounds
    whose clients are kept are counted.
    """
    clients = [each for log_record in log_records for each in log_record.get("clients", ())]
    return {
        "excluded": sum(each["status"] == "excluded" for each in clients),
        "clipped": sum("clipped" in each for each in clients),
    }


def describe(found: dict[str, Any]) -> str:
    """Return the findings as text, one per line."""
    state = "over" if found["done"] else "listening on " + found["listening"] if found["listening"] else "not running"
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(found["outcomes"].items())) or "none"
    payload, wire = found["payload_bytes"] / 1e6, found["socket_bytes"] / 1e6
    lines = [
        f"run           {found['run']} ({found['method']}), {state}",
        f"clients       {found['enrolled']} of {found['clients']} enrolled",
        f"rounds        {found['closed']} of {found['rounds']} closed",
        f"replies       {outcomes}",
        f"payload       {payload:.2f} MB; through the sockets, evaluations and models included, {wire:.2f} MB",
    ]
    if found["frozen_bytes"]:
        lines.append(f"frozen part   {found['frozen_bytes'] / 1e6:.3g} MB, which each device fetches once")
    if found["measured_joules"]:
        lines.append(f"energy        {words(found['measured_joules'])}, measured by the devices while they trained")
    if found["excluded"] or found["clipped"]:
        lines.append(
            f"of accepted   {found['excluded']} excluded and {found['clipped']} clipped when their round closed"
        )
    if found["limited_values"]:
        lines.append(f"limited       {found['limited_values']} values of replies, before they were rounded")
    if found["open"]:
        lines.append(f"open          round {found['open']['round']}, waiting for clients {_listed(_awaited(found))}")
    lines += [
        f"lost          client {loss['client']} what it kept after round {loss['after']}; it went on from"
        f" {'round ' + str(loss['kept']) if loss['kept'] else 'nothing'}"
        for loss in found["losses"]
    ]
    lines += [
        f"refused       client {refusal['client']}, absent until its device comes back: {printable(refusal['reason'])}"
        for refusal in found["refusals"]
    ]
    if found["removed"]:
        lines.append(f"removed       clients {_listed(found['removed'])}, as the operator commanded")
    if last := found["last_evaluation"]:
        lines.append(f"evaluation    round {last['round']}: {progress_display.news(last)}")
    return "\n".join(lines)


def _awaited(found: dict[str, Any]) -> list[int]:
    """Return the clients for which the open round waits."""
    absent = {*found["answered"], *found["removed"], *(refusal["client"] for refusal in found["refusals"])}
    return [client for client in found["open"]["clients"] if client not in absent]


def _listed(clients: list[int]) -> str:
    return ", ".join(map(str, clients)) or "none"
