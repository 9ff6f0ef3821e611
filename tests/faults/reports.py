"""The lines that parts of `python -m tests faults` without a table print. Each function returns whether all is well."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from bench import machine
from tests.faults import asynchronous as asynchronous_runs
from tests.faults import deadline as deadline_runs
from tests.faults import fashion as fashion_runs
from tests.faults import flips as flips_runs
from tests.faults import hostile as hostile_runs
from tests.faults import link
from tests.faults import malicious as malicious_runs
from tests.faults import members as member_runs
from tests.faults import network as network_runs
from tests.faults import poison as poison_runs
from tests.faults import service as service_runs


def agent(root: Path, options: argparse.Namespace) -> bool:
    result = service_runs.run(root, options.kills, options.seed)
    print(json.dumps(asdict(result)))
    return not any(result.differences)


def deadline(root: Path, options: argparse.Namespace) -> bool:
    result = deadline_runs.run(root, options.deadline)
    print(json.dumps(asdict(result)))
    return result.identical


def asynchronous(root: Path, options: argparse.Namespace) -> bool:
    """Print the result with the machine, as asynchronous.jsonl keeps it."""
    result = asynchronous_runs.run(root, 2 * options.kills, options.seed)
    print(json.dumps({**asdict(result), "machine": machine.facts()}))
    return result.identical and not result.twice


def members(root: Path, options: argparse.Namespace) -> bool:
    """Print a line for rounds that wait and a line for asynchronous rounds, as members.jsonl keeps them."""
    is_good = True
    for is_asynchronous in (False, True):
        folder = root / ("asynchronous" if is_asynchronous else "waiting")
        result = member_runs.run(folder, is_asynchronous, 2 * options.kills, options.seconds, options.seed)
        print(json.dumps({**asdict(result), "machine": machine.facts()}), flush=True)
        is_good &= result.identical and not result.twice
    return is_good


def hostile(root: Path, options: argparse.Namespace) -> bool:
    """Print a line per figure, with its upper limit."""
    missed = False
    for figure in hostile_runs.run(root, options.strangers):
        print(json.dumps({**asdict(figure), "missed": figure.is_missed}), flush=True)
        missed |= figure.is_missed
    return not missed


def fashion(root: Path, options: argparse.Namespace) -> bool:
    identical = True
    for result in fashion_runs.run(root, options.data_dir):
        print(json.dumps(asdict(result)), flush=True)
        identical &= result.difference is None
    return identical


def malicious(root: Path, options: argparse.Namespace) -> bool:
    """Print a line per plan: the memory and time that the device took for it, and what it said."""
    holds = True
    for number, each in enumerate(malicious_runs.run(root)):
        mark = "" if each.wrong is None else f"  WRONG: {each.wrong}"
        took = f"{each.memory_bytes / 1e6:5.1f} MB {each.seconds:4.1f} s"
        print(f"{number:2} {took}  {each.plan}: {each.sentence}{mark}", flush=True)
        holds &= each.wrong is None
    return holds


def network(root: Path, options: argparse.Namespace) -> bool:
    if why := link.problem():
        print(f"network: {why}", file=sys.stderr)
        return False
    whole = True
    for result in network_runs.run(root):
        print(json.dumps(asdict(result)), flush=True)
        whole &= result.difference is None and result.absent == 0
    return whole


def flips(root: Path, options: argparse.Namespace) -> bool:
    identical = True
    for result in flips_runs.runs(root, options.way or flips_runs.WAYS, options.bits, options.seed):
        print(json.dumps(asdict(result)), flush=True)
        identical &= result.difference is None
    return identical


def poison(root: Path, options: argparse.Namespace) -> bool:
    """Print a JSON line for every method, aggregation and attack. Return whether the default stays near the honest
    runs.
    """
    rows, base = [], replace(poison_runs.EXPERIMENT, partition=options.partition, epochs=options.epochs)
    for found in itertools.chain(poison_runs.simulated(root, base, options.seeds), poison_runs.served(root, base)):
        rows.append(found)
        print(json.dumps({**asdict(found), "accuracy": round(found.accuracy, 2)}), flush=True)
    return poison_runs.holds(rows)
