"""The kernels of a step on a GPU, on the stand-in: which there are, and that each tiling is tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import cuda_kernels, cuda_profile, cuda_tilings
from bench.cuda import learner_of
from edgefl.kernels.cuda.convolution import TILES, tiling
from edgefl.learning import GraphLearner
from tests.bench.test_cuda_steps import CASE
from tests.kernels.cuda import standin

pytestmark = pytest.mark.skipif(standin.is_real(), reason="a device measures by itself")


@pytest.fixture
def learner(monkeypatch: pytest.MonkeyPatch) -> GraphLearner:
    standin.backend()
    monkeypatch.setattr(cuda_profile, "REPEATS", 2)
    return learner_of(CASE, 2, 0.5)


def test_kernels_of_a_step(learner: GraphLearner) -> None:
    found = {each.kernel: each.launches for each in cuda_profile.kernel_times(learner)}
    assert found["gather_labels"] == found["cross_entropy_narrow"] == 1
    assert {name for name in found if name.startswith("convolution")} == {
        "convolution_flat", "convolution_weight_flat",
    }  # fmt: skip
    table = cuda_profile.table("a step", cuda_profile.kernel_times(learner))
    assert table.row_count == len(found) + 1


def test_every_tile_of_a_product_is_tried(learner: GraphLearner) -> None:
    (forward,) = (each for each in cuda_tilings.tiled_products(learner) if each.op == "conv2d_forward")
    assert (forward.rows, forward.depth, forward.copies) == (3, 9, 1)
    assert [tile for tile, splits, us in forward.found if splits == 1 and us > 0] == [tile.name for tile in TILES]


def test_without_a_device_nothing_is_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_kernels, "cuda_device", lambda: "no libcuda.so.1")
    assert cuda_kernels.main(["--tilings"]) == 0
    assert capsys.readouterr().out == "not run: no device (no libcuda.so.1)\n"


def test_the_recorded_tilings_are_what_the_estimate_is_of() -> None:
    """It chooses tilings that take 3 % longer than the fastest, as docs/cuda.md says."""
    lines = (Path(cuda_tilings.__file__).parent / "cuda_record" / "tilings.jsonl").read_text().splitlines()[1:]
    chosen = fastest = 0.0
    for line in map(json.loads, lines):
        times = {(tile, splits): us for tile, splits, us in line["found"]}
        found = tiling(*(line[name] for name in ("rows", "columns", "depth", "copies")))
        chosen += times[found.tile.name, found.splits]
        fastest += min(times.values())
    assert len(lines) == 172
    assert 1.0 <= chosen / fastest < 1.03
