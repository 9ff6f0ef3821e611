"""A run in short: a line per evaluation, with the sums since the last one. It is small enough to be committed.

The lines have the keys of the lines that they stand for, so that measures which add up, or which look at evaluations,
find equal values. The accuracy of each client is kept for the last evaluation alone. Clients' rounds are not kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import machine
from bench.papers.table import Lines, Run
from edgefl.errors import RunError
from edgefl.methods.rounds.client_round import EXECUTED
from edgefl.system.durable_files import write_atomically

FOLDER = "runs"  # folder inside the results


def condensed(log_records: Lines) -> list[dict[str, Any]]:
    """Return as many lines as there are evaluations.

    Beside the sums of bytes and seconds they have client_rounds, device_s (the seconds of clients' training) and
    device_flops (what the training executed).
    """
    found: list[dict[str, Any]] = []
    since: list[Any] = []
    for log_record in log_records:
        since.append(log_record)
        if "evaluation" in log_record:
            found.append(_added(since))
            since = []
    for log_record in found[:-1]:
        log_record["evaluation"] = {kind: _means(scores) for kind, scores in log_record["evaluation"].items()}
    return found


def kept(run: Run, results: Path, make: Callable[[], Lines]) -> Lines:
    """Return the condensed lines of a run from `results`/runs/NAME.json, which is made and written if it is missing.

    Raises RunError if the file is of a run with other settings.
    """
    if (found := known(run, results)) is None:
        path = _path(run, results)
        path.parent.mkdir(parents=True, exist_ok=True)
        found = condensed(make())
        write_atomically(path, _text(run, found).encode())
    return found


def known(run: Run, results: Path) -> Lines | None:
    """Return the condensed lines of a run, or None if it has not been made. Raises RunError as `kept` does."""
    path = _path(run, results)
    if not path.is_file():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    if found["experiment"] != run.experiment.to_json():
        raise RunError(f"{path} is a run with other settings; expected those of {run.name}; remove it to run it again")
    return list(found["lines"])


def _path(run: Run, results: Path) -> Path:
    return results / FOLDER / f"{run.name}.json"


def _text(run: Run, log_records: Lines) -> str:
    """Return JSON with a line per entry and per evaluation."""
    head = {"run": run.name, "experiment": run.experiment.to_json(), "machine": machine.facts()}
    parts = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    parts.append('"lines": [\n  ' + ",\n  ".join(map(json.dumps, log_records)) + "\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _added(log_records: Lines) -> dict[str, Any]:
    last, clients = log_records[-1], [each for log_record in log_records for each in log_record.get("clients", ())]
    sums = {
        side: {part: sum(log_record[side][part] for log_record in log_records) for part in last[side]}
        for side in ("down", "up")
    }
    found: dict[str, Any] = {
        "round": last["round"],
        **sums,
        "seconds": round(sum(log_record["seconds"] for log_record in log_records), 2),
    }
    found["client_rounds"] = sum(each["status"] != "absent" for each in clients)
    found["device_s"] = round(sum(each["seconds"] for each in clients), 2)
    found["device_flops"] = sum(each.get(EXECUTED, 0.0) for each in clients)
    found |= {"running": last["running"]} if "running" in last else {}
    return {**found, "evaluation": last["evaluation"]}


def _means(scores: dict[str, Any]) -> dict[str, Any]:
    """Return the scores of all clients together, without the scores of each client."""
    return {name: value for name, value in scores.items() if not isinstance(value, list)}
