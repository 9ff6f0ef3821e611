"""Updates that follow each other are one launch, and no call is moved past one that it has to do with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgefl.kernels import reference
from edgefl.kernels.cuda.structs import calls_at_once

from .conftest import Seen

HYPER = np.array([0.5, 0.0, 0.0, 0.0], np.float32)  # lr, momentum, decay, pull
Calls = list[tuple[str, tuple[Any, ...]]]


def blocks(count: int, size: int = 300) -> list[np.ndarray]:
    """[1, 1, size] each, of small whole numbers, so that sums are exact."""
    draw = np.random.RandomState(count)
    return [draw.randint(-8, 9, (1, 1, size)).astype(np.float32) for _ in range(count)]


def sgd(w: np.ndarray, grad: np.ndarray) -> tuple[str, tuple[Any, ...]]:
    return "sgd", (w, grad.reshape(-1), HYPER, None, None)


def run(cuda: Any, calls: Calls) -> None:
    program = cuda.Program()
    for op, args in calls:
        program.append(op, *args)
    program.run()


def test_as_many_updates_as_a_launch_takes(cuda: Any, seen: Seen) -> None:
    weights, grads = blocks(calls_at_once("sgd") + 3), blocks(calls_at_once("sgd") + 3)[::-1]
    wanted = [w - HYPER[0] * grad for w, grad in zip(weights, grads, strict=True)]
    run(cuda, [sgd(*each) for each in zip(weights, grads, strict=True)])
    assert seen.calls.count("cuLaunchKernel sgd") == 2
    assert all(map(np.array_equal, weights, wanted))


def test_updates_of_unlike_sizes_are_whole(cuda: Any, seen: Seen) -> None:
    sizes = (1, 5000, 3, 0, 256, 257)
    weights = [np.zeros((1, 1, size), np.float32) for size in sizes]
    run(cuda, [sgd(w, np.arange(w.size, dtype=np.float32)) for w in weights])
    assert seen.calls.count("cuLaunchKernel sgd") == 1
    assert all(np.array_equal(w.reshape(-1), -HYPER[0] * np.arange(w.size)) for w in weights)


def test_rows_of_an_update_among_others(cuda: Any) -> None:
    weights, rows = np.zeros((4, 2, 3), np.float32), np.array([1, 3], np.int32)
    other, grad = np.zeros((1, 1, 7), np.float32), np.arange(12, dtype=np.float32)
    run(cuda, [sgd(other, np.ones(7, np.float32)), ("sgd", (weights, grad, HYPER, rows, None))])
    assert np.array_equal(weights[rows].reshape(-1), -HYPER[0] * grad)
    assert not weights[[0, 2]].any()
    assert np.array_equal(other.reshape(-1), -HYPER[0] * np.ones(7))


@pytest.mark.parametrize("between", ["fill_zero of the gradient", "sum of the weights", "another kernel's"])
def test_what_needs_an_update_finds_it_made(cuda: Any, seen: Seen, between: str) -> None:
    (w, other), (grad, others) = blocks(2), blocks(2)
    w0, grad0, y = w.copy(), grad.copy(), np.zeros_like(w)
    middle: Calls = {
        "fill_zero of the gradient": [("fill_zero", (grad,))],
        "sum of the weights": [("add", (w, other.copy(), y))],
        "another kernel's": [("add", (y.copy(), y.copy(), y))],
    }[between]
    run(cuda, [sgd(w, grad), *middle, sgd(other, others)])
    assert seen.calls.count("cuLaunchKernel sgd") == (1 if between == "another kernel's" else 2)
    assert np.array_equal(w, w0 - HYPER[0] * grad0)
    assert not grad.any() or between != "fill_zero of the gradient"


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_calls_on_shared_memory_comes_to_the_same(cuda: Any, seed: int) -> None:
    draw = np.random.RandomState(seed)
    positions = [slice(start, start + size) for start in range(0, 60, 10) for size in (10, 20)]

    def calls(memory: np.ndarray, draw: np.random.RandomState) -> Calls:
        found: Calls = []
        for _ in range(30):
            a, b, y = (memory[positions[each]] for each in draw.choice(len(positions), 3))
            op = draw.choice(["sgd", "sgd", "sgd", "fill_zero", "add"])
            if op == "fill_zero":
                found.append((op, (y,)))
            elif op == "sgd" and len(a) == len(y) and not np.may_share_memory(a, y):
                found.append(sgd(y.reshape(1, 1, -1), a))
            elif len(a) == len(b) == len(y) and not (np.may_share_memory(a, y) or np.may_share_memory(b, y)):
                found.append(("add", (a, b, y)))
        return found

    memory = draw.randint(-8, 9, 80).astype(np.float32)
    wanted, state = memory.copy(), draw.get_state()
    for op, args in calls(wanted, draw):
        getattr(reference, op)(*args)
    draw.set_state(state)
    run(cuda, calls(memory, draw))
    assert np.array_equal(memory, wanted)
