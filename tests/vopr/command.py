"""`python -m tests vopr`: simulates a federation under faults, one seed after another, and prints a line for each seed.

The same seed gives the same simulation and the same digest. If a promise is broken, the command prints what happened
last, the command that repeats it, and the smallest list of faults that breaks the promise. The exit status is then 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from edgefl.methods import METHODS
from tests.vopr import night, night_sums
from tests.vopr.case import Case, numbers
from tests.vopr.mutants import MUTANTS
from tests.vopr.mutants.trial import LIMIT_S, tried
from tests.vopr.outcome import Outcome
from tests.vopr.savings import STEPS
from tests.vopr.shrinking import shrunk
from tests.vopr.simulation import simulated
from tests.vopr.tls import TRANSPORTS

ROOT = Path(__file__).resolve().parents[2]
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def main(arguments: list[str]) -> int:
    """Return 1 if a promise was broken, or else 0."""
    options = _options(arguments)
    if options.sums is not None:
        print(*map(json.dumps, night_sums.sums(options.sums)), sep="\n")
        return int(night.failures(options.sums) > 0)
    if options.mutants:
        return _try(options.only, options.limit)
    asked = options.seed, options.hours, options.devices, options.method, options.training, options.faults
    like = Case(*asked, often=options.often, transport=options.transport, buffer=options.buffer)
    if options.night is not None:
        planned = night.Night(like, options.seed, options.seeds, _commit())
        try:
            for line in night.run(planned, options.night, options.jobs):
                print(line, flush=True)
        except night.OtherRecordError as error:
            sys.exit(f"python -m tests vopr: {error}")
        return int(night.failures(options.night) > 0)
    for seed in range(options.seed, options.seed + options.seeds):
        outcome = simulated(replace(like, seed=seed))
        print(_line(outcome), flush=True)
        if outcome.failure is not None:
            print(*outcome.trace, sep="\n")
            print(f"commit {_commit()}; repeat it with: {outcome.case.command}", flush=True)
            if options.shrink:
                print(*_smallest(outcome, options.shrink), sep="\n")
            return 1
    return 0


def _smallest(found: Outcome, limit_s: float) -> Iterator[str]:
    """Yield the lines about the smallest schedule that breaks the promise, too."""
    outcome = shrunk(found, limit_s)
    yield f"{len(outcome.befallen)} of its {len(found.befallen)} faults break the promise, too:"
    for number, time_s, fault in outcome.befallen:
        yield f"  fault {number} at {time_s:.1f} s: {fault}"
    yield _line(outcome)
    yield f"repeat it with: {outcome.case.command}"


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests vopr", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first seed; default: 0")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="number of seeds; default: 1")
    parser.add_argument("--hours", type=float, default=1.0, metavar="H", help="virtual hours of faults; default: 1")
    parser.add_argument("--devices", type=int, default=8, metavar="D", help="number of devices; default: 8")
    parser.add_argument("--method", default="fedspu", choices=sorted(METHODS), help="method; default: fedspu")
    parser.add_argument(
        "--training",
        default="stub",
        choices=sorted(STEPS),
        help="steps of training, with arithmetic or without; default: stub",
    )
    parser.add_argument(
        "--faults", type=numbers, metavar="N,N", help="the planned faults that come, by number, or none; default: all"
    )
    parser.add_argument(
        "--shrink",
        type=float,
        default=300.0,
        metavar="S",
        help="seconds of CPU in which the smallest list of faults is looked for; default: 300",
    )
    parser.add_argument(
        "--night", type=Path, metavar="FILE", help="simulate thirteen methods in turn, and go on from this record"
    )
    parser.add_argument("--sums", type=Path, metavar="FILE", help="print the sums of a night's record as lines of JSON")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes of --night; default: 1")
    parser.add_argument("--often", type=float, default=1.0, metavar="F", help="times as many faults; default: 1")
    transport = "what carries messages; a night takes both in turn; default: plain"
    parser.add_argument("--transport", choices=TRANSPORTS, default="plain", help=transport)
    rounds = "replies that close an asynchronous round, in half of a night; default: 0, rounds wait for their clients"
    parser.add_argument("--buffer", type=int, default=0, metavar="N", help=rounds)
    parser.add_argument("--mutants", action="store_true", help="put mistakes into a copy, and show what finds them")
    parser.add_argument(
        "--only", nargs="+", default=[], choices=list(BY_NAME), metavar="NAME", help="the mistakes to try; default: all"
    )
    limit = f"seconds of the processor for one mistake; default: {LIMIT_S:g}"
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="S", help=limit)
    options = parser.parse_args(arguments)
    if options.seed < 0 or options.seeds < 1 or options.devices < 1 or not 0 < options.hours <= 1000:
        parser.error(
            f"--seed {options.seed} --seeds {options.seeds} --devices {options.devices} --hours {options.hours:g};"
            " expected a seed from 0, at least one seed and one device, and at most 1000 hours"
        )
    return options


def _try(only: list[str], limit_s: float) -> int:
    """Print a line of JSON for each mistake. Return 1 if a mistake was missed, or else 0."""
    has_missed = False
    for mutant, trial in tried([BY_NAME[name] for name in only or BY_NAME], limit_s):
        print(json.dumps({"mutant": mutant.name, "file": mutant.file, **trial._asdict()}), flush=True)
        has_missed |= trial.seed is None
    return int(has_missed)


def _line(outcome: Outcome) -> str:
    what = "held" if outcome.failure is None else f"BROKEN: {outcome.failure}"
    return (
        f"seed {outcome.case.seed}: {what}; {outcome.hours:.2f} h, {outcome.rounds} rounds,"
        f" {outcome.verdicts} verdicts, {outcome.crashes} crashes, {outcome.events} events,"
        f" {outcome.cpu_s:.2f} s of CPU, digest {outcome.digest}"
    )


def _commit() -> str:
    """Return the commit of the code, with "-dirty" behind it if files have changed since."""
    asked = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"
