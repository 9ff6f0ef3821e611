"""Every tiling of a model's convolutions on an NVIDIA GPU: `python -m bench cuda --tilings`.

The numbers of kernels/cuda/convolution.py were fitted to the record in bench/cuda_record/tilings.jsonl, which these
lines are of. The forward pass and both gradients of each layer are timed in every tile and in every number of blocks
that may share a depth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest.mock import patch

from bench.cuda_profile import graph_us, program_of
from edgefl.kernels.cuda import convolution
from edgefl.kernels.cuda.convolution import SPLITS, TILES, MatmulTiling
from edgefl.learning import GraphLearner

OPERATIONS = ("conv2d_forward", "conv2d_grad_input", "conv2d_grad_weight")
FEWEST_BLOCKS, MOST_BLOCKS, MOST_BYTES = 48, 1600, 64 << 20  # of a tiling that is tried


class TiledProduct(NamedTuple):
    """The times of a product. `found` has a tile's name, the number of splits, and microseconds."""

    op: str
    rows: int
    columns: int
    depth: int
    copies: int
    found: list[tuple[str, int, float]]


def tiled_products(learner: GraphLearner) -> Iterator[TiledProduct]:
    """Yield the products of the step that a learner on a CUDA device made last, each shape once."""
    seen = set()
    for call in program_of(learner)._calls:
        op = call.operation.row.name
        asked: list[tuple[int, ...]] = []
        if op not in OPERATIONS:
            continue
        with patch.object(convolution, "tiling", _noted(asked)):
            _call_us(learner, op, call.values)
        if asked and (op, *asked[0]) not in seen:
            seen.add((op, *asked[0]))
            rows, columns, depth, copies = asked[0]
            found = [
                (tiling.tile.name, tiling.splits, _forced_us(learner, op, call.values, tiling))
                for tiling in _tilings(rows, columns, depth, copies)
            ]
            yield TiledProduct(op, rows, columns, depth, copies, found)


def _noted(asked: list[tuple[int, ...]]) -> Any:
    chosen = convolution.tiling

    def tiling(rows: int, columns: int, depth: int, copies: int = 1) -> MatmulTiling:
        asked.append((rows, columns, depth, copies))
        return chosen(rows, columns, depth, copies)

    return tiling


def _tilings(rows: int, columns: int, depth: int, copies: int) -> Iterator[MatmulTiling]:
    for tile in TILES:
        for splits in SPLITS:
            tiling = MatmulTiling(tile, -(-rows // tile.rows), -(-columns // tile.columns), copies, splits)
            has_room = depth // splits >= 32 and 4 * rows * columns * copies * splits <= MOST_BYTES
            fits = tiling.blocks <= MOST_BLOCKS and (tiling.blocks >= FEWEST_BLOCKS or splits >= 8)
            if splits == 1 or (has_room and fits):
                yield tiling


def _forced_us(learner: GraphLearner, op: str, values: tuple[Any, ...], tiling: MatmulTiling) -> float:
    with patch.object(convolution, "tiling", lambda *asked: tiling):
        return round(_call_us(learner, op, values), 2)


def _call_us(learner: GraphLearner, op: str, values: tuple[Any, ...]) -> float:
    program = type(program_of(learner))()
    program.append(op, *values)
    program.run()
    return graph_us(program._device, program._resident._launches, repeats=10, turns=2)
