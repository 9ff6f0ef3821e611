"""The bench of masks: what it compares is what was sent, and its figures are of that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.codec_masks import SIDE, WEIGHT, _rows, bound_bits, masks, payloads, scattered
from bench.runner import Effort
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.update import Update


def weight_of(found: Any) -> np.ndarray:
    """Return the flat weight that arrived: bits, or values with zeros elsewhere."""
    if isinstance(found, Mask):
        return found.bits[WEIGHT].reshape(-1)
    if isinstance(found, Update):
        block = found.blocks[WEIGHT]
        weight = np.zeros(SIDE * SIDE, np.float32)
        weight[block.index.ids] = block.values  # type: ignore[union-attr]
        return weight
    if isinstance(found, dict):
        found = found[WEIGHT]
    return np.frombuffer(found, np.uint8) if isinstance(found, bytes) else found.reshape(-1)


@pytest.mark.parametrize("density", [0.05, 0.5])
def test_every_way_brings_what_was_sent(density: float) -> None:
    bits = scattered(density)
    assert np.count_nonzero(bits) == round(density * bits.size)
    for name, way in masks(bits).items():
        np.testing.assert_array_equal(weight_of(way.read(way.write())), bits.reshape(-1), err_msg=name)
    ways = payloads(bits)
    exact = weight_of(ways["safetensors"].read(ways["safetensors"].write()))
    assert np.count_nonzero(exact) == np.count_nonzero(bits)
    for name in ("edgefl float32", "bitmap", "int64 indices"):
        np.testing.assert_array_equal(weight_of(ways[name].read(ways[name].write())), exact, err_msg=name)
    assert np.abs(weight_of(ways["edgefl int8"].read(ways["edgefl int8"].write())) - exact).max() < 0.05


def test_rows_say_bits_beside_the_bound() -> None:
    ways = {name: way for name, way in masks(scattered(0.1)).items() if name in ("edgefl", "bitmap")}
    ours, bitmap = _rows("mask", 0.1, bound_bits(0.1), ways, Effort(rounds=2, turn_s=1e-4))
    assert bitmap["bits"] == 1
    assert 0.4689 < float(ours["bound"]) < float(ours["bits"]) < 1.01 * float(ours["bound"])
    assert float(ours["encode_gparam_s"]) > 0
    assert float(ours["decode_gparam_s"]) > 0
