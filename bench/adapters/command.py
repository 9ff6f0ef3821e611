"""`python -m bench adapters`: low-rank adapters of GPT-2's size, and adapters in a served federation.

    step    seconds of a step of GPT-2 124M (random weights, rank 8 on its attention, T = 64, B = 4, a loss at every
            token), of torch with peft, and of the step's products alone in torch. They take turns in one process
    limits  seconds and memory of the same step within memory limits, and the resident memory of a process without torch
    mobilenet  the same for all of MobileNetV2 at 224 pixels, B = 8, without an adapter
    served  a transformer of characters with adapters, served to processes of devices: bytes, memory, equal bits
    served_gpt2  the same for GPT-2 with adapters and one device, without a memory limit and with one
    served_int8  one more run of served_gpt2, with an int8 base and a memory limit below the float32 base
    bases   perplexity and accuracy of adapters on bases in float32, bfloat16 and int8, with three seeds (20 minutes).
            Rows that the record has are not made again
    quantized  memory and seconds of a step of GPT-2 and of a model of Gemma 3 270M's shape (random weights, rank 8 on
            its attention, T = 64, B = 8) on bases in float32, bfloat16 and int8, within a memory limit

The parts step, limits, served_gpt2, served_int8 and quantized need transformers and peft in a folder of their own: `pip
install --target FOLDER transformers peft`. The part mobilenet needs torchvision there. --record keeps the rows. Seconds
are processor time on one thread.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import machine
from edgefl.errors import DataError

PARTS = ("step", "limits", "mobilenet", "served", "served_gpt2", "bases", "quantized", "served_int8")
RECORD = Path(__file__).with_name("record.jsonl")


def main(arguments: Sequence[str]) -> int:
    """Return 2 if packages or data are missing, and 0 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m bench adapters", description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help="parts to run (default: %(default)s)")
    parser.add_argument("--site", type=Path, help="folder with transformers, peft and torchvision")
    parser.add_argument(
        "--dir", type=Path, default=Path("edgefl-runs/adapters"), help="of models (default: %(default)s)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="steps of each side (default: %(default)s)")
    parser.add_argument("--record", type=Path, nargs="?", const=RECORD, help="file that keeps the rows")
    options = parser.parse_args(arguments)
    parts = options.parts.split(",")
    if unknown := [name for name in parts if name not in PARTS]:
        parser.error(f"--parts {unknown[0]}; expected some of {', '.join(PARTS)}")
    if options.site is not None:
        sys.path.insert(1, str(options.site.resolve()))
    machine.use_threads(1)
    options.dir.mkdir(parents=True, exist_ok=True)
    for name in parts:
        facts = machine.facts()
        try:
            for row in _measured(name, options):
                print(json.dumps(row), flush=True)
                if options.record is not None:
                    write({"part": name, **row, "machine": facts}, options.record)
        except (ModuleNotFoundError, FileNotFoundError, DataError) as error:
            print(f"adapters: {error}; expected the packages in --site, and the data (--help)", file=sys.stderr)
            return 2
    return 0


def _measured(name: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Return the rows of a part. The part bases is told which rows the record has."""
    found: Iterator[dict[str, Any]]
    measured = importlib.import_module(f"bench.adapters.{name}").measured
    if name == "bases":
        known = [] if options.record is None else read(options.record)
        found = measured(options.dir, options.repeats, {row["name"]: row for row in known if row["part"] == name})
    else:
        found = measured(options.dir, options.repeats)
    return found


def write(row: dict[str, object], file: Path) -> None:
    """Put a row into the record in place of the former row of its part and name."""
    known = {(each["part"], each["name"]): each for each in read(file)} | {(row["part"], row["name"]): row}
    file.write_text("".join(f"{json.dumps(each)}\n" for each in known.values()), "utf-8")


def read(file: Path = RECORD) -> list[dict[str, Any]]:
    """Return the rows of a record, or none without a file."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []
