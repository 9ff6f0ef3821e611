#!/usr/bin/env python3
"""Counts what a training step asks of a GPU's memory and processors, without a GPU: on the stand-in's watch.

    scripts/cuda_traffic.py fedspu_emnist --batch 16 --keep .2
    scripts/cuda_traffic.py vgg11 --lines 12     the lines of csrc/cuda that ask for the most beyond what they need
    scripts/cuda_traffic.py --op conv2d_grad_weight --lines 9    of the operation's adversarial cases instead
    scripts/cuda_traffic.py --ptx 80             as nvcc made the kernels for sm_80, not g++

The columns of a kernel are its launches and blocks, and MB of device memory that are read or written, each byte once.
Then come MB that its requests take from the caches, in sectors of 32 bytes, with the share of them that was asked for.
Then come turns of shared memory, with the share that there would be without conflicts of banks. The last column is what
these come to in cycles of one processor (SM) that never waits: 128 products, a turn of shared memory or four sectors in
each. Nothing here is a time. A race between threads or blocks fails the launch. tests/kernels/cuda/standin/traffic.cc
counts.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from cuda import TARGETS, ptx_by_nvcc

ROOT = Path(__file__).resolve().parent.parent
SECTOR, LANES, SECTORS_OF_CYCLE = 32, 128, 4
HEAD = (
    "kernel", "launches", "blocks", "MB once", "MB taken", "asked for", "turns k", "least", "products", "memory",
)  # fmt: skip


class Site(NamedTuple):
    """A place of the code that loads or stores: requests of warps, and sectors or turns."""

    space: str
    kind: str
    code: int
    requests: int
    taken: int
    least: int

    @property
    def waste(self) -> float:
        """The cycles that requests take beyond the least."""
        return (self.taken - self.least) / (1 if self.space == "shared" else SECTORS_OF_CYCLE)


@dataclass
class Kernel:
    """The counts of a kernel's launches."""

    name: str
    launches: int
    blocks: int
    threads: int
    products: int
    read: int
    written: int
    sites: list[Site] = field(default_factory=list)

    def total(self, space: str) -> tuple[int, int]:
        """Return what was taken of a space, and the least that would have sufficed."""
        some = [site for site in self.sites if site.space == space]
        return sum(site.taken for site in some), sum(site.least for site in some)

    @property
    def cycles(self) -> tuple[float, float]:
        """Return the cycles of products, and the cycles of memory near the processor."""
        return self.products / LANES, self.total("shared")[0] + self.total("global")[0] / SECTORS_OF_CYCLE


def main(arguments: Sequence[str] | None = None) -> int:
    sys.path.insert(0, str(ROOT))
    options = _parsed_options(arguments)
    library = _library(options.ptx)
    run = _cases(options.op) if options.op else _step(options.model, options.batch, options.keep, options.density)
    kernels = sorted(counted(ctypes.CDLL(library), run), key=lambda each: -max(each.cycles))
    print(table(kernels))
    if options.lines:
        print("\n".join(("", *worst(kernels, library, options.lines))))
    return 0


def _library(target: str) -> str:
    """Return a watched stand-in, which the backend uses from now on, of the sources or of nvcc's PTX for a target."""
    os.environ["EDGEFL_STANDIN_WATCH"] = "1"
    os.environ.pop("EDGEFL_LIBCUDA", None)  # because a real device counts nothing
    from tests.kernels.cuda import standin

    with tempfile.NamedTemporaryFile(suffix=".ptx") as ptx:
        if target:
            ptx.write(ptx_by_nvcc(target, "-lineinfo"))
            ptx.flush()
            os.environ["EDGEFL_STANDIN_PTX"] = ptx.name  # the stand-in reads it now, once
        standin.backend()  # so that the environment names the library before it is asked for
        return standin.environment()["EDGEFL_LIBCUDA"]


def counted(library: ctypes.CDLL, run: Callable[[], None]) -> list[Kernel]:
    """Return the counts of what `run` launches."""
    library.standin_traffic.restype = ctypes.c_char_p
    library.standin_traffic_reset()
    run()
    return list(_parsed(library.standin_traffic().decode()))


def _parsed(text: str) -> Iterator[Kernel]:
    kernel: Kernel | None = None
    for line in text.splitlines():
        what, name, *fields = line.split(",")
        if what == "launch":
            if kernel:
                yield kernel
            kernel = Kernel(name, *map(int, fields))
        elif kernel:
            kernel.sites.append(Site(fields[0], fields[1], *map(int, fields[2:])))
    if kernel:
        yield kernel


# ---- what is run -----------------------------------------------------------------------------------------------------


def _step(name: str, batch: int, keep: float, density: float) -> Callable[[], None]:
    """Return a step of a model on random images, the second of its kind."""
    import numpy as np

    from bench.step import named
    from edgefl.learning import SGD, GraphLearner, Samples
    from edgefl.models.graph import Model
    from edgefl.models.neurons.model_spec import ModelSpec
    from edgefl.models.neurons.neuron_set import NeuronSet
    from edgefl.models.neurons.random_mask import random_mask
    from edgefl.rng import INIT, NEURONS, stream

    (case,) = named(name)
    draw, spec = np.random.RandomState(0), ModelSpec.of(case.graph)
    x = draw.randint(0, 256, (batch, *case.input_shape)).astype(np.uint8)
    samples = Samples(x, draw.randint(0, case.classes, batch).astype(np.int32), scale=2 / 255, shift=-1.0)
    learner = GraphLearner(Model(case.graph, case.graph.init(stream(0, INIT))), "cuda")
    if density < 1:
        learner.restrict(random_mask(spec, density, "erk", 0), batch)
    neurons = None if keep == 1 else NeuronSet.draw(spec, keep, stream(0, NEURONS))
    rows = [np.arange(batch, dtype=np.int32)]

    def run() -> None:
        learner.fit(samples, rows, SGD(0.01), neurons)

    run()
    return run


def _cases(op: str) -> Callable[[], None]:
    from tests.kernels import calls
    from tests.kernels.cases import adversarial
    from tests.kernels.cuda import standin

    def run() -> None:
        for case in adversarial(op):
            calls.run(standin.backend(), op, case.args())

    return run


# ---- what is said ----------------------------------------------------------------------------------------------------


def table(kernels: Sequence[Kernel]) -> str:
    rows = [HEAD, *(_row(each) for each in kernels), _row(_sum(kernels))]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = ("  ".join((cell.ljust, cell.rjust)[i > 0](widths[i]) for i, cell in enumerate(row)) for row in rows)
    return "\n".join(("products, memory: cycles of one SM, in thousands", *lines))


def _row(kernel: Kernel) -> tuple[str, ...]:
    (sectors, asked), (turns, least), cycles = kernel.total("global"), kernel.total("shared"), kernel.cycles
    sizes = ((kernel.read + kernel.written) / 1e6, sectors * SECTOR / 1e6)
    shares = _share(asked, sectors), f"{turns / 1e3:.1f}", _share(least, turns)
    counts = kernel.name, str(kernel.launches), str(kernel.blocks)
    return (*counts, *(f"{size:.2f}" for size in sizes), *shares, *(f"{each / 1e3:.1f}" for each in cycles))


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else ""


def _sum(kernels: Sequence[Kernel]) -> Kernel:
    counts = zip(
        *((each.launches, each.blocks, each.threads, each.products, each.read, each.written) for each in kernels)
    )
    return Kernel("all", *map(sum, counts), [site for each in kernels for site in each.sites])


def worst(kernels: Sequence[Kernel], library: str, count: int) -> Iterator[str]:
    """Yield the lines that take the most beyond the least, of all kernels."""
    every = sorted(((site.waste, each.name, site) for each in kernels for site in each.sites), reverse=True)[:count]
    yield "cycles beyond the least, requests, taken and least of each, kernel, and where"
    for waste, name, site in every:
        each = f"{site.taken / site.requests:.1f} of {site.least / site.requests:.1f}"
        where = _line(library, site.code)
        yield f"{waste / 1e3:9.1f}k {site.requests:9} {each:>12} {name}: {site.space} {site.kind}, {where}"


def _line(library: str, code: int) -> str:
    """Return the lines of the source, the innermost first. `code` is the return address of a call, which lies before
    it.
    """
    command = ["addr2line", "-i", "-s", "-e", library, hex(code - 1)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return " < ".join(line.split(" ")[0] for line in said.splitlines()[:3])


def _parsed_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    from bench.step import ALL, BROUGHT
    from edgefl.kernels.table import TABLE

    parser, models = _parser(), [case.model for case in (*ALL, *BROUGHT)]
    options = parser.parse_args(arguments)
    if options.model not in models:
        parser.error(f"model {options.model!r}; expected one of {', '.join(models)}")
    if options.op is not None and options.op not in TABLE:
        parser.error(f"--op {options.op}; expected an operation of edgefl.kernels.table.TABLE")
    if options.batch < 1:
        parser.error(f"--batch {options.batch}; expected 1 or more")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", nargs="?", default="fedspu_emnist", help="as bench step names them")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--keep", type=float, default=1.0, help="share of active neurons")
    parser.add_argument("--density", type=float, default=1.0, help="of an ERK mask")
    parser.add_argument("--op", help="an operation's cases in place of a step")
    parser.add_argument("--lines", type=int, default=0)
    parser.add_argument("--ptx", metavar="TARGET", choices=TARGETS, help="of what nvcc makes of the kernels, as 80")
    return parser


if __name__ == "__main__":
    sys.exit(main())
