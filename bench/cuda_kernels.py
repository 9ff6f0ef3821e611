"""python -m bench cuda-kernels: where a training step on an NVIDIA GPU spends its time.

It prints the kernels of a step with the time that each takes by itself (cuda_profile.py). `--tilings` prints every
tiling of the step's convolutions with its time instead, as JSON lines (cuda_tilings.py).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from rich.console import Console

from bench.cuda import cuda_device, learner_of
from bench.cuda_cases import BATCHES, CASES, models, sizes
from bench.cuda_profile import kernel_times, table
from bench.cuda_tilings import tiled_products


def main(arguments: Sequence[str]) -> int:
    """Measure and print. The exit code is 0 without a device, too: then it says that nothing was measured."""
    options = _parser().parse_args(arguments)
    device = cuda_device()
    if isinstance(device, str):
        print(f"not run: no device ({device})")
        return 0
    console = Console(width=140)
    console.print(device.described)
    for case in options.models:
        for batch in options.batches:
            learner = learner_of(case, batch, options.keep)
            if options.tilings:
                for product in tiled_products(learner):
                    print(json.dumps({"model": case.model, "batch": batch, **product._asdict()}), flush=True)
            else:
                console.print(table(f"{case.model}, B = {batch}, p = {options.keep:g}", kernel_times(learner)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench cuda-kernels", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--models", type=models, default=list(CASES), help="some of the models of `bench cuda`")
    parser.add_argument("--batches", type=sizes, default=BATCHES, help="default: 16,128")
    parser.add_argument("--keep", type=float, default=1.0, help="share p of active neurons; default: 1")
    parser.add_argument("--tilings", action="store_true", help="every tiling of the convolutions, as JSON lines")
    return parser
