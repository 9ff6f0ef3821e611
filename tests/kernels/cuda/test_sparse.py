"""Masked layers on a device: any tiling gives the same results, and a corrupt structure leads nowhere outside."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from edgefl.kernels import sparse_choice
from edgefl.kernels.checks import ArgumentCheck
from edgefl.kernels.cuda import host, sparse_tiling
from edgefl.learning import GraphLearner
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.operations import Linear
from edgefl.models.neurons.mask import Mask
from edgefl.rng import INIT, stream

from .. import cases_sparse_convolution as conv
from .. import cases_sparse_linear as linear
from ..calls import Guarded, check_case, each, run
from ..cases import Case
from ..cases_convolution import Geometry
from ..test_sparse_convolution import READERS
from . import standin

LAYERS = (
    Geometry(9, 20, 70, (14, 14)),
    Geometry(3, 12, 150, (9, 40), stride=(2, 2)),
    Geometry(17, 70, 40, (4, 4)),
    Geometry(3, 5, 6, (12, 11), (5, 5), (1, 2), (2, 2), (1, 2)),
)
WIDE = (Geometry(2, 3, 4, (30, 30), (3, 3), (1, 1), (24, 24), (24, 24)), Geometry(3, 4, 5, (4, 4)))
WEIGHTS = "fc1.weight", "fc2.weight"
MATRICES = ((16, 300, 200), (128, 90, 140), (7, 500, 40))


@pytest.fixture
def cuda() -> ModuleType:
    """Not that of a device of the test's own, with which nothing of this would run on a real driver."""
    return standin.backend()


def calls(layers: tuple[Geometry, ...], density: float) -> Iterator[Case]:
    for layer in layers:
        for op, make in conv.calls(layer, density, True).items():
            if op in READERS:
                yield Case(op, f"{layer}", make)


def matrices() -> Iterator[Case]:
    for shape in MATRICES:
        yield from (case for case in linear.of_layer(str(shape), shape, 0.2, True) if not case.op.endswith("build"))


def choose(monkeypatch: pytest.MonkeyPatch, of: Callable[[list[Any]], Any]) -> None:
    def best(layer: Any, kinds: Any, rows: int, weights: float) -> Any:
        found = [tiling for kind in kinds for tiling in sparse_tiling._tilings(layer, kind)
                 if sparse_tiling.positions_of(layer, tiling) <= sparse_tiling.POSITIONS // kind.quads]  # fmt: skip
        return sparse_tiling.TilingChoice(of(found) if found else None, 0.0 if found else 1.0)

    monkeypatch.setattr(sparse_tiling, "_best", best)


def test_any_tiling_gives_the_results_of_the_reference(cuda: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    choose(monkeypatch, lambda found: found[rng.integers(len(found))])
    each((case, lambda case=case: check_case(cuda, case)) for case in (*calls(LAYERS, 0.3), *matrices()))


@pytest.mark.parametrize(("density", "expected"), [(0.04, {"fc1.weight"}), (0.1, set())])
def test_a_learner_runs_layers_at_the_mask_alone_where_few_are_left(
    cuda: ModuleType, density: float, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The present rule decides, but for the size of layers. fc2 has few outputs."""
    monkeypatch.setitem(sparse_choice.FEWEST_OF, "cuda", 64)
    graph = Graph((64,), (Node("fc1", Linear(64, 64), ("input",)), Node("fc2", Linear(64, 5), ("fc1",))))
    learner = GraphLearner(Model(graph, graph.init(stream(1, INIT))), "cuda")
    drawn = {name: np.random.default_rng(1).random(learner.spec.params[name].shape) < density for name in WEIGHTS}
    learner.restrict(Mask.of(learner.spec, drawn))
    assert set(learner._workspace.store.plans) == expected


def test_windows_that_no_tile_has_room_for(cuda: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(monkeypatch, lambda found: None)
    each((case, lambda case=case: check_case(cuda, case)) for case in calls(WIDE, 0.4))


def skip_if_watched() -> None:
    if os.environ.get("EDGEFL_STANDIN_WATCH"):
        pytest.skip("threads race for what a corrupt structure names twice")


@pytest.mark.parametrize("op", READERS)
def test_a_corrupt_structure_that_nobody_checks_leads_nowhere_outside(
    cuda: ModuleType, monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    """Such a structure may lie on the device. Under a sanitizer (EDGEFL_STANDIN_ASAN) this test says more."""
    skip_if_watched()
    monkeypatch.setattr(host.StructureCheck, "__call__", ArgumentCheck.__call__)
    rng, name = np.random.default_rng(6), READERS[op]
    for layer in (Geometry(2, 6, 5, (5, 6)), Geometry(3, 20, 7, (4, 4)), Geometry(2, 9, 4, (9, 8), (3, 3), (2, 2))):
        args = conv.calls(layer, 0.4, True)[op](rng)
        for _ in range(40):
            guarded = Guarded(args)
            words = guarded.args[name]
            words[rng.integers(16, len(words), 3)] = rng.choice([0, 1, 0xFFFF, 1 << 16, 0xFFFFFFFF, 77], 3)
            run(cuda, op, guarded.args)
            guarded.check()


def test_a_corrupt_matrix_that_nobody_checks_leads_nowhere_outside(
    cuda: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_if_watched()
    monkeypatch.setattr("edgefl.kernels.weight_structure.decode", lambda *given: None)
    rng = np.random.default_rng(7)
    for case in matrices():
        args = case.args()
        for _ in range(3):
            guarded = Guarded(args)
            words = guarded.args["structure"]
            words[rng.integers(0, len(words), 5)] = rng.choice([0, 1, 0xFFFF, 1 << 16, 0xFFFFFFFF, 77], 5)
            run(cuda, case.op, guarded.args)
            guarded.check()
