"""`python -m bench vopr`: simulates a federation under faults, one seed after another, and prints a line for each seed.

The same seed gives the same simulation and the same digest. If a promise is broken, the command prints what happened
last, with the seed, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

from bench.vopr.mutants import MUTANTS
from bench.vopr.mutants.trial import LIMIT_S, tried
from bench.vopr.world import Outcome, simulate
from edgefl.methods import METHODS

ROOT = Path(__file__).resolve().parents[2]
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def main(arguments: list[str]) -> int:
    """Return 1 if a promise was broken, or else 0."""
    options = _options(arguments)
    if options.mutants:
        return _try(options.only, options.limit)
    for seed in range(options.seed, options.seed + options.seeds):
        outcome = simulate(seed, options.hours, options.devices, options.method, options.often)
        print(_line(outcome), flush=True)
        if outcome.failure is not None:
            print(*outcome.trace, sep="\n")
            again = f"python -m bench vopr --seed {seed} --hours {options.hours:g} --devices {options.devices}"
            often = "" if options.often == 1 else f" --often {options.often:g}"
            print(f"commit {_commit()}; repeat it with: {again} --method {options.method}{often}")
            return 1
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench vopr", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first seed; default: 0")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="number of seeds; default: 1")
    parser.add_argument("--hours", type=float, default=1.0, metavar="H", help="virtual hours of faults; default: 1")
    parser.add_argument("--devices", type=int, default=8, metavar="D", help="number of devices; default: 8")
    parser.add_argument("--method", default="fedspu", choices=sorted(METHODS), help="method; default: fedspu")
    parser.add_argument("--often", type=float, default=1.0, metavar="F", help="times as many faults; default: 1")
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
        f"seed {outcome.seed}: {what}; {outcome.hours:.2f} h, {outcome.rounds} rounds, {outcome.verdicts} verdicts,"
        f" {outcome.crashes} crashes, {outcome.events} events, {outcome.cpu_s:.2f} s of CPU, digest {outcome.digest}"
    )


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"
