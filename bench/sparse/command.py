"""The command: every layer at every density, all contenders in turns in one process, CPU time of one thread.

    sparse       ours at the mask: forward, gradient of the input, gradient of the weight, and the refresh of values
    dense        our dense kernels of today on the same weight, which is 0 outside the mask
    base         the dense kernels of another build, of which `--base` names the tree
    torch        for each product the fastest dense path of this PyTorch
    sparseprop   SparseProp's layer, forward and backward. Where it is not installed the output says so

A ratio is the other's time over ours for all three products. For maps of 4x4 and smaller, the base's gradient of the
input counts as its forward pass, because it was slow there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from bench import machine, peak, peers
from bench.runner import PRODUCTS, QUICK, Contender, Effort, Timing, clock_for, interleave
from bench.sparse.base import Base
from bench.sparse.layers import KINDS, Layer, Shape, Sparse
from bench.sparse.rivals import missing, sparseprop
from edgefl.kernels import ISAS, native
from edgefl.kernels.sparse_choice import runs_sparse
from edgefl.models.graph.operations import Conv2d, Linear

DENSITIES = (0.5, 0.2, 0.1, 0.05)
SMALL_MAP = 4
HEADINGS = ("layer", "B", "isa", "d", "rule", "/base", "/dense", "/torch", "/SparseProp")
HEADINGS_MORE = ("fwd %", "dX %", "dW %", "refresh %", "build ns", "error")


def _linear(ins: int, outs: int, batch: int) -> Shape:
    return Shape(f"linear {ins}x{outs}", Linear(ins, outs, bias=False), batch)


def _conv(ins: int, outs: int, size: int, batch: int, kernel: int = 3, padding: int = 1) -> Shape:
    op = Conv2d(ins, outs, (kernel, kernel), (1, 1), (padding, padding), bias=False)
    return Shape(f"conv {ins}->{outs} k{kernel} @{size}", op, batch, (size, size))


LAYERS = (
    *(_linear(*sizes, 128) for sizes in ((512, 512), (1024, 1024), (784, 200), (1024, 120))),
    *(_linear(*sizes, 16) for sizes in ((512, 512), (1024, 1024), (784, 200), (1024, 120), (4096, 1024))),
    *(_conv(*sizes, 16) for sizes in ((64, 64, 32), (128, 128, 16), (128, 256, 8), (256, 256, 8))),
    *(_conv(*sizes, 16) for sizes in ((512, 512, 4), (512, 512, 2), (20, 20, 14), (6, 16, 16))),
    _conv(20, 50, 12, 16, kernel=5, padding=0),
)


@dataclass(frozen=True)
class Row:
    """One layer at one density. Ratios are times over ours. Rates are shares of this machine's peak on the nonzeros."""

    layer: str
    batch: int
    isa: str
    density: float
    is_chosen: bool  # whether the rule of sparse_choice.py chooses it
    base: float | None
    dense: float
    torch: float
    sparseprop: float | None
    rates: tuple[float, float, float]
    refresh: float  # share of a step
    build_ns: float  # per weight
    error: float


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    effort = QUICK if options.quick else PRODUCTS
    base = None
    if options.base is not None:
        try:
            base = Base(options.base)
        except OSError as error:
            print(f"--base {options.base}: {error}; expected a built tree of edgefl", file=sys.stderr)
            return 2
    why_not = missing()
    if why_not:
        print(why_not, file=sys.stderr)
    machine.use_threads(1)
    torch.manual_seed(0)
    rows = (row for isa in options.isas for row in _measure(isa, options, base, why_not is None, effort))
    (_print_json if options.json else _print_table)(machine.facts(), rows)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench sparse", description=__doc__)
    isas = tuple(isa for isa in ISAS[1:] if native.has_isa(isa))
    parser.add_argument("--base", type=Path, metavar="PATH", help="a built tree of edgefl, or its libedgefl.so")
    parser.add_argument("--only", default="", metavar="TEXT", help="layers whose name holds the text")
    parser.add_argument("--batches", type=_list(int), help="batch sizes in place of the layers' own, 16 and 128")
    parser.add_argument("--densities", type=_list(float), default=DENSITIES, help="separated by commas")
    parser.add_argument("--isas", type=_list(str), default=isas or ISAS[:1], help=f"default: {','.join(isas)}")
    parser.add_argument("--json", action="store_true", help="JSON lines: machine facts first, then a line per row")
    parser.add_argument("--quick", action="store_true", help="few short turns: shows that it runs, not how fast")
    return parser


def _list(of: type) -> Callable[[str], tuple[object, ...]]:
    return lambda text: tuple(of(part) for part in text.split(","))


def _measure(isa: str, options: argparse.Namespace, base: Base | None, rival: bool, effort: Effort) -> Iterator[Row]:
    before = native.isa()
    native.cap_isa(isa)
    try:
        again = None if base is None else Base(options.base)
        (rate,) = peak.measure((1,), effort)
        highest = max(value for name, value in rate.items() if name.endswith("gflops"))
        for shape in _chosen(options):
            for density in options.densities:
                layer = Layer(shape, density)
                if layer.count:
                    yield _row(layer, isa, again, rival, effort, highest)
    finally:
        native.cap_isa(before)


def _chosen(options: argparse.Namespace) -> list[Shape]:
    named = [shape for shape in LAYERS if options.only in shape.name]
    if options.batches is None:
        return named
    single = {shape.name: shape for shape in named}.values()
    return [shape._replace(batch=batch) for shape in single for batch in options.batches]


def _row(layer: Layer, isa: str, base: Base | None, rival: bool, effort: Effort, peak_gflops: float) -> Row:
    sparse, shape = Sparse(layer), layer.shape
    timings = interleave(_contenders(layer, sparse, base, rival), effort, clock_for(1))
    ours = [timings[f"sparse {kind}"].median_s for kind in KINDS]
    refresh = timings["refresh"].median_s if sparse.is_transposed else 0.0
    step = sum(ours) + refresh
    return Row(
        layer=shape.name,
        batch=shape.batch,
        isa=isa,
        density=layer.density,
        is_chosen=runs_sparse(shape.family, (*shape.weight, *(shape.size or ())), shape.batch, layer.density, isa),
        base=None if base is None else _total(timings, "base", shape) / step,
        dense=_total(timings, "dense") / step,
        torch=_total(timings, "torch") / step,
        sparseprop=timings["sparseprop"].median_s / step if rival else None,
        rates=tuple(2e-9 * layer.macs / each / peak_gflops for each in ours),  # type: ignore[arg-type]
        refresh=refresh / step,
        build_ns=1e9 * timings["build"].median_s / layer.count,
        error=sparse.error(),
    )


def _total(timings: dict[str, Timing], side: str, shape: Shape | None = None) -> float:
    """Return the time of all three products, each on the side's fastest path."""
    fastest = {
        kind: min(timing.median_s for name, timing in timings.items() if name.startswith(f"{side} {kind}"))
        for kind in KINDS
    }
    if shape is not None and shape.size is not None and shape.size[0] <= SMALL_MAP:
        fastest["grad_input"] = min(fastest["grad_input"], fastest["forward"])
    return sum(fastest.values())


def _contenders(layer: Layer, sparse: Sparse, base: Base | None, rival: bool) -> dict[str, Contender]:
    sides = {"sparse": sparse.products(), "dense": layer.dense()}
    if base is not None:
        sides["base"] = base.products(layer)
    calls = {f"{side} {kind}": call for side, products in sides.items() for kind, call in products.items()}
    calls |= {"refresh": sparse.refresh, "build": sparse.build}
    if rival:
        calls["sparseprop"] = sparseprop(layer)
    found = {name: _repeated(call) for name, call in calls.items()}
    operands = tuple(torch.from_numpy(array) for array in (layer.x, layer.weight, layer.dy))
    for kind in KINDS:
        paths = peers.products(layer.shape.op, *operands, kind)
        found |= {f"torch {kind} {path}": run for path, run in paths.items()}
    return found


def _repeated(call: Callable[[], object]) -> Contender:
    def run(repeats: int) -> None:
        for _ in range(repeats):
            call()

    return run


# ---- output ---------------------------------------------------------------------------------------------------------


def _print_json(facts: machine.Facts, rows: Iterator[Row]) -> None:
    print(json.dumps({"machine": facts}), flush=True)
    for row in rows:
        print(json.dumps(asdict(row)), flush=True)


def _print_table(facts: machine.Facts, rows: Iterator[Row]) -> None:
    table = Table(title=", ".join(f"{name} {value}" for name, value in facts.items()), title_justify="left")
    for heading in (*HEADINGS, *HEADINGS_MORE):
        table.add_column(heading, justify="left" if heading == "layer" else "right")
    for row in rows:
        ratios = (_text(ratio) for ratio in (row.base, row.dense, row.torch, row.sparseprop))
        rates = (f"{100 * rate:.0f}" for rate in row.rates)
        chosen = "sparse" if row.is_chosen else "dense"
        last = (f"{100 * row.refresh:.1f}", f"{row.build_ns:.1f}", f"{row.error:.1g}")
        table.add_row(row.layer, str(row.batch), row.isa, f"{row.density:g}", chosen, *ratios, *rates, *last)
    console = Console()
    console.width = max(console.width, 160)
    console.print(table)


def _text(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"
