"""python -m bench bfloat16: what its products compute, and a row of the digits."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.bfloat16 import BACKENDS, CASES, QUICK, RECORD, measured
from edgefl.kernels import native

rounded_products = pytest.importorskip("bench.rounded_products")
BITS = np.uint32(16)


def _nearest(values):
    """Return the values rounded to bfloat16, to nearest even, by integers."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> BITS & 1)) >> BITS << BITS).astype(np.uint32).view(np.float32)


def test_a_product_reads_rounded_operands_and_leaves_them() -> None:
    draw = np.random.default_rng(5)
    x, weight, bias = (draw.standard_normal(shape, np.float32) for shape in ((3, 70), (20, 70), (20,)))
    kept, found, expected = x.copy(), np.empty((3, 20), np.float32), np.empty((3, 20), np.float32)
    rounded_products.linear_forward(x, weight, bias, found)
    native.linear_forward(_nearest(x), _nearest(weight), bias, expected)
    assert (found == expected).all()
    assert (x == kept).all()
    native.linear_forward(x, weight, bias, expected)
    assert not (found == expected).all()


def test_a_recorded_product_reads_what_its_operands_hold_when_it_runs() -> None:
    draw = np.random.default_rng(6)
    dy, x, dw = (draw.standard_normal(shape, np.float32) for shape in ((4, 9), (4, 30), (9, 30)))
    program = rounded_products.Program()
    program.append("linear_grad_weight", x, dy, dw, None, None)
    x[:] = draw.standard_normal(x.shape, np.float32)
    program.run()
    expected = np.empty_like(dw)
    native.linear_grad_weight(_nearest(x), _nearest(dy), expected, None, None)
    assert (dw == expected).all()


def test_the_digits_are_trained_with_both_kinds_of_product() -> None:
    (row,) = measured(QUICK)
    assert [len(row[kind]) for kind in BACKENDS] == [1, 1]
    assert row["float32"][0]["loss"] != row["bfloat16"][0]["loss"]
    assert abs(row["float32"][0]["loss"] - row["bfloat16"][0]["loss"]) < 0.01


def test_the_record_has_every_case() -> None:
    rows = [json.loads(line) for line in RECORD.read_text("utf-8").splitlines()]
    assert [(row["model"], row["seeds"]) for row in rows] == [(case.model, list(case.seeds)) for case in CASES]
