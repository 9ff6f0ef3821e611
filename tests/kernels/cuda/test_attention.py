"""Attention of several tiles of places in each form, and of heads of as many channels as tiles take in several ways."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import ModuleType

import numpy as np
import pytest

from edgefl.kernels.cuda.launch import KernelArray, Scratch

from ..calls import check_case, each
from ..cases import Case
from ..cases_attention import backward, blank, forward
from . import standin

SIZES = (
    (3, 2, 8, 64),
    (2, 3, 32, 65),
    (1, 2, 40, 130),
    (1, 1, 130, 37),
    (1, 2, 64, 256),
    (1, 1, 50, 257),
    (1, 1, 17, 333),
)
NO_CHANNELS = (2, 1, 0, 300)


@pytest.fixture
def cuda() -> ModuleType:
    return standin.backend()


def cases() -> Iterator[Case]:
    for size in (*SIZES, NO_CHANNELS):
        for causal in (False, True):
            for keeps in (False, True):
                make = partial(forward, sizes=size, causal=causal, keeps=keeps)
                yield Case("attention_forward", f"{size}-{causal}-{keeps}", make)
            yield Case(
                "attention_backward", f"{size}-{causal}", partial(backward, sizes=size, causal=causal, selection="all")
            )
    for kind in ("odd", "but_one", "none"):
        yield Case("attention_backward", kind, partial(backward, sizes=(2, 3, 5, 70), causal=True, selection=kind))


def test_sequences_of_several_tiles(cuda: ModuleType) -> None:
    each((case, partial(check_case, cuda, case)) for case in cases())


def test_scores_of_any_size_make_shares(cuda: ModuleType) -> None:
    """One key after another is the largest by far, and what is beyond a float's exponential is not looked at."""
    for places in (5, 100, 300):
        qkv = np.ones((1, 3, places), np.float32)
        qkv[0, 1] = 200.0 * np.arange(places)
        for causal in (False, True):
            y, shares = blank(1, 1, places), blank(1, 1, places, places)
            cuda.attention_forward(qkv, 1, causal, y, shares)
            last = np.arange(places) if causal else np.full(places, places - 1)
            assert (shares[0, 0] == (np.arange(places)[:, None] == last)).all()
            assert (y == 1).all()


def test_heads_that_are_needed_alone_take_blocks_and_memory(cuda: ModuleType) -> None:
    args = backward(np.random.default_rng(0), (2, 5, 4, 70), False, "one")
    planned = cuda.attention.attention_backward(
        *(KernelArray(value) if isinstance(value, np.ndarray) else value for value in args.values())
    )
    assert [launch.grid for launch in planned] == [(2 * 3, 1, 1)] * 2
    (totals,) = {field for launch in planned for field in launch.fields if isinstance(field, Scratch)}
    assert totals.size == 2 * 70 * 4
