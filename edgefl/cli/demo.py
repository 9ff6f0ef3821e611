"""`edgefl demo` runs a server process and one device process per client on this machine, and shows tables and a picture
of the gain.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from edgefl.cli import local_processes as demo
from edgefl.cli.local_processes import Served
from edgefl.cli.working import note, run_display, working
from edgefl.errors import RequestError
from edgefl.experiment.data.split import Split
from edgefl.experiment.default_settings import new_directory
from edgefl.experiment.settings import Experiment
from edgefl.server import run_history
from edgefl.study.capacity_tiers import tiers_of
from edgefl.study.picture import plot
from edgefl.study.picture_style import DARK
from edgefl.study.result_text import percent, to_json
from edgefl.study.summary import Summary, kind_of, summarise
from edgefl.study.table_style import new_table
from edgefl.study.tables import console, print_tables

INTERRUPTED = "interrupted; its processes have ended"
PICTURE = "demo.png"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the few options, as the demonstration is the same everywhere."""
    settings = demo.EXPERIMENT
    parser.add_argument(
        "--run-dir", type=Path, metavar="DIR", help="directory of the run (default: new in edgefl-runs)"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=settings.rounds,
        metavar="N",
        help=f"number of rounds (default: {settings.rounds})",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=settings.seed,
        metavar="N",
        help=f"seed of all random numbers (default: {settings.seed})",
    )


def run(options: argparse.Namespace) -> int:
    """Serve the methods one after another, then print the results."""
    experiment, path = _request(options)
    path.mkdir(parents=True, exist_ok=True)
    note(f"run directory: {path}")
    with working("writing the samples of the devices"):
        federation = demo.write_partitions(path / "devices", experiment)
    served = _serve(path, experiment)
    tiers = tiers_of(experiment, federation.graph)
    summaries = [summarise(each.method, each.log_records, tiers, each.server) for each in served]
    devices = [_device(client, tiers.keep[client], split, served) for client, split in enumerate(federation.clients)]
    traffic = {each.method: _traffic(each, summary) for each, summary in zip(served, summaries, strict=True)}
    try:
        if options.json:
            found = {"run": str(path), "devices": devices, "sockets": traffic, **to_json({experiment.seed: summaries})}
            print(json.dumps(found))
        else:
            terminal = console()
            terminal.print(_device_table(devices, served))
            print_tables(terminal, {experiment.seed: summaries})
            terminal.print(_traffic_table(traffic))
    finally:  # a standard output that cannot be written costs the tables alone
        _picture(path / PICTURE, summaries, devices)
    return 0


def _request(options: argparse.Namespace) -> tuple[Experiment, Path]:
    try:
        experiment = replace(demo.EXPERIMENT, rounds=options.rounds, seed=options.seed)
        experiment.settings(1)
    except ValueError as error:
        raise RequestError(str(error)) from error
    path = options.run_dir or new_directory("demo")
    if path.exists() and any(path.iterdir()):
        raise RequestError(f"{path} is not empty; expected a new directory")
    return experiment, path


def _serve(path: Path, experiment: Experiment) -> list[Served]:
    display = run_display()
    served = []
    try:
        for method in experiment.methods:
            display.begin(method, experiment.rounds, 0)
            one = replace(experiment, methods=(method,))
            served.append(demo.serve(path / method, one, path / "devices", display.log_record))
    finally:
        display.end()
    return served


def _device(client: int, keep: float, split: Split, served: list[Served]) -> dict[str, Any]:
    """Return one device as JSON values: its tier, its number of samples, and its result with every method."""
    found: dict[str, Any] = {"device": client, "keep": keep, "train": len(split.train), "test": len(split.test)}
    for each in served:
        evaluation = each.log_records[-1]["evaluation"]
        scores = evaluation[kind_of(evaluation)]
        examples = scores["examples"][client]
        found[each.method] = {
            "accuracy": scores["correct"][client] / examples,
            "loss": scores["loss_sum"][client] / examples,
            "peak_bytes": each.peak_bytes[client],
        }
    return found


def _device_table(devices: list[dict[str, Any]], served: list[Served]) -> Table:
    table = new_table("Accuracy and loss on every device's own test samples; memory of its whole process")
    methods = [each.method for each in served]
    for title in ("device", "p", "samples", *methods, "memory"):
        table.add_column(title, justify="right")
    for device in devices:
        results = [device[method] for method in methods]
        cells = [f"{percent(each['accuracy']):>7}  {each['loss']:.3f}" for each in results]
        peaks = [each["peak_bytes"] for each in results if each["peak_bytes"] is not None]
        memory = f"{max(peaks) / 1e6:.0f} MB" if peaks else "unknown"
        table.add_row(str(device["device"]), f"{device['keep']:g}", str(device["train"]), *cells, memory)
    return table


def _traffic(served: Served, summary: Summary) -> dict[str, Any]:
    """Return the bytes through the server's sockets by purpose, and the seconds from the first start to the end."""
    last = run_history.traffic(served.path)[-1]
    total, headers = last.sent + last.received, last.sent_headers + last.received_headers
    return {
        "training": summary.payload_bytes,
        "headers": headers,
        "models": total - headers - summary.payload_bytes,
        "total": total,
        "seconds": served.seconds,
    }


def _traffic_table(traffic: dict[str, dict[str, Any]]) -> Table:
    table = new_table("Through the server's sockets; models are those sent to begin with and to be evaluated")
    for title in ("method", "training", "models", "headers", "total", "from start to end"):
        table.add_column(title, justify="left" if title == "method" else "right")
    for method, found in traffic.items():
        sizes = [f"{found[name] / 1e6:.2f} MB" for name in ("training", "models", "headers", "total")]
        table.add_row(method, *sizes, f"{found['seconds']:.1f} s")
    return table


def _picture(path: Path, summaries: list[Summary], devices: list[dict[str, Any]]) -> None:
    """Write the picture for a light page, and a second picture for a dark page."""
    try:
        for each in (path, path.with_stem(path.stem + DARK)):
            plot(each, summaries, devices)
    except ValueError:
        note("no picture: pip install matplotlib")
    else:
        note(f"picture: {path}")
