"""python -m bench int8-activations: accuracy, time and instructions of evaluations whose activations are int8.

accuracy trains models and labels test images in float32, with int8 weights, and with int8 weights and activations. time
lets the three ways take turns on this machine. arm counts instructions under qemu (scripts/arm.sh prepare).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import machine
from bench.arm.command import default_folder
from bench.arm.emulator import CannotCountError
from bench.int8_activations import counting, timing
from bench.runner import QUICK_STEPS, STEPS

PARTS = ("accuracy", "time", "arm")
RECORD = Path(__file__).with_name("record.jsonl")


def main(arguments: list[str]) -> int:
    """Print a JSON line for each result. Return 1 if counting is not possible here."""
    parser = argparse.ArgumentParser(prog="python -m bench int8-activations", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--models", help="names, separated by commas; default: all")
    parser.add_argument("--quick", action="store_true", help="shows that it runs, and nothing else")
    parser.add_argument("--data-dir", help="directory of the data sets' files")
    parser.add_argument("--folder", type=Path, default=default_folder(), help="of scripts/arm.sh prepare")
    parser.add_argument("--record", type=Path, nargs="?", const=RECORD, help="file to which the lines are added")
    options = parser.parse_args(arguments)
    facts = machine.facts()
    about = {name: facts[name] for name in ("commit", "cpu", "date", "load")}
    try:
        for each in _found(options):
            line = json.dumps({"part": options.part, **asdict(each), **about})
            print(line, flush=True)
            if options.record is not None:
                with options.record.open("a", encoding="utf-8") as stream:
                    stream.write(f"{line}\n")
    except CannotCountError as error:
        print(f"bench int8-activations: {error}", file=sys.stderr)
        return 1
    return 0


def _found(options: argparse.Namespace) -> Iterator[Any]:
    if options.part == "accuracy":
        from bench import int8  # it needs onnxruntime
        from bench.int8_activations import accuracy

        cases = int8.QUICK if options.quick else int8.CASES
        yield from (accuracy.measure(case, options.data_dir) for case in cases)
    elif options.part == "time":
        models = tuple(options.models.split(",")) if options.models else tuple(timing.IMAGES)
        yield from timing.measure(models, QUICK_STEPS if options.quick else STEPS)
    else:
        models = tuple(options.models.split(",")) if options.models else tuple(counting.BATCHES)
        yield from counting.measure(models, options.folder)
