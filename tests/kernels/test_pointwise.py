"""Products with a weight in fewer bits have the bits of products with the widened weight."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from edgefl.kernels import native

from .cases import Case, pick
from .stored_weights import KINDS, forward, grad_input

LAYERS = [(3, 40, 70, 9), (2, 460, 530, 20), (1, 130, 9, 300), (2, 1, 1, 1)]
ONE_CELL = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}


def wide(args: dict[str, Any]) -> np.ndarray:
    codes = args["codes"]
    weight = np.empty(codes.shape[:2], np.float32)
    native.widen_weight(codes, args["row_scale"], args["col_scale"], weight)
    return weight[..., None, None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_products_have_the_bits_of_the_widened_weight(layer: Any, kind: str) -> None:
    args = Case("", f"{layer}{kind}", lambda rng: forward(rng, kind, layer, True)).args()
    y = np.empty_like(args["y"])[:, :, None]
    native.conv2d_forward(args["x"][:, :, None], wide(args), args["bias"], y, **ONE_CELL)
    native.pointwise_forward(**args)
    np.testing.assert_array_equal(args["y"], y[:, :, 0])
    for outs, ins in (("all", "all"), ("odd", "but_one")):
        back = Case("", f"{layer}{kind}", partial(grad_input, kind=kind, layer=layer, rows=outs, cols=ins)).args()
        dx = back["dx"].copy()[:, :, None]
        ids = {"outs": pick(outs, layer[2]), "ins": pick(ins, layer[1])}
        native.conv2d_grad_input(back["dy"][:, :, None], wide(back), dx, **ONE_CELL, **ids)
        native.pointwise_grad_input(**back)
        np.testing.assert_array_equal(back["dx"], dx[:, :, 0])
