"""Losses of labels that lie on the device, where nobody has checked them, and of more rows than blocks take at once."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from ..calls import check_case
from ..cases import Case
from ..cases_loss import cross_entropy, softmax_xent
from . import standin

CLASSES = 5
OUTSIDE = (-1, CLASSES, 2**31 - 1, -(2**31))


@pytest.fixture
def backend() -> ModuleType:
    return standin.backend()


@pytest.mark.parametrize("label", OUTSIDE)
@pytest.mark.parametrize("weighed", [False, True])
def test_label_that_is_no_class_makes_its_row_and_the_loss_nan(backend: ModuleType, label: int, weighed: bool) -> None:
    logits = np.random.default_rng(3).standard_normal((4, CLASSES)).astype(np.float32)
    labels = logits.argmax(axis=1).astype(np.int32)
    labels[2] = label
    dlogits, loss, correct = np.zeros_like(logits), np.zeros(1), np.zeros(1, np.int64)
    held = backend.MEMORY.hold(labels)
    if weighed:
        backend.cross_entropy(logits, held, np.ones(CLASSES, np.float32), 0.1, dlogits, loss, correct)
    else:
        backend.softmax_xent(logits, held, dlogits, loss, correct)
    assert np.isnan(loss[0])
    assert correct[0] == 3
    assert np.isnan(dlogits).any(axis=1).tolist() == [False, False, True, False]
    assert np.isnan(dlogits[2]).all()


def test_more_rows_than_blocks_take_at_once(backend: ModuleType) -> None:
    check_case(backend, Case("softmax_xent", "narrow", lambda rng: softmax_xent(rng, 2100, 3, 1.0, True)))
    check_case(backend, Case("cross_entropy", "wide", lambda rng: cross_entropy(rng, 530, 260, 1.0, True, 0.1, True)))


def test_loss_is_the_same_every_time(backend: ModuleType) -> None:
    args = softmax_xent(np.random.default_rng(0), 300, 40, 3.0, True)
    losses = set()
    for _ in range(3):
        args["loss"][0] = 0
        backend.softmax_xent(*args.values())
        losses.add(float(args["loss"][0]))
    assert len(losses) == 1
