"""python -m bench step | kernels | peak | memory | codec: figures of this machine, against PyTorch where it applies."""

from __future__ import annotations

import argparse
import json
import sys

from bench import codec, kernels, machine, memory, peak, step
from bench.rows import print_json, print_table
from bench.runner import PRODUCTS, QUICK, STEPS

BUSY = 0.5  # load per core before the measurement


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    effort = QUICK if options.quick else STEPS if options.what == "step" else PRODUCTS
    facts = machine.facts()
    if float(facts["load"]) > BUSY * int(facts["cores"]):
        print(f"load {facts['load']:.1f} on {facts['cores']} cores: wall times will say little", file=sys.stderr)
    plain = {
        "peak": lambda: peak.measure(options.threads, effort),
        "memory": memory.rows,
        "codec": lambda: codec.measure(effort),
    }
    if options.what in plain:
        for row in plain[options.what]():
            print(json.dumps(row))
        return 0
    measure = step.measure if options.what == "step" else kernels.measure
    show = print_json if options.json else print_table
    show(facts, measure(options.models, options.threads, effort))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("what", choices=("step", "kernels", "peak", "memory", "codec"))
    parser.add_argument("--models", type=_cases, default=step.PAPER, help="names separated by commas, or all")
    parser.add_argument("--threads", type=_counts, default=(1, 2), help="numbers of threads, separated by commas")
    parser.add_argument("--json", action="store_true", help="JSON lines: machine facts first, then a line per row")
    parser.add_argument("--quick", action="store_true", help="few short turns: shows that it runs, not how fast")
    return parser


def _cases(text: str) -> tuple[step.Case, ...]:
    if text == "all":
        return step.ALL
    known = {case.model: case for case in step.ALL}
    for name in text.split(","):
        if name not in known:
            raise argparse.ArgumentTypeError(f"model {name!r}; expected all, or some of {', '.join(known)}")
    return tuple(known[name] for name in text.split(","))


def _counts(text: str) -> tuple[int, ...]:
    if not all(part.isdecimal() and int(part) > 0 for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"threads {text!r}; expected positive numbers separated by commas")
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
