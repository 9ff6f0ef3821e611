"""Rough lengths never call a reply within the bound that the exact lengths put beyond the bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefl.methods.plan import Reply
from edgefl.methods.rounds import change_bound, quick_lengths
from edgefl.methods.rounds.change_bound import FACTOR
from edgefl.methods.rounds.quick_lengths import MARGIN, surely_within
from edgefl.methods.task import MODEL
from edgefl.models.neurons.block_index import Axes, AxisIds
from edgefl.models.neurons.update import Block, Update
from tests.methods.rounds.test_update_bound import NONE, OLD, SPEC, reply


def exactly_within(replies: dict[int, Reply], factor: float, old: change_bound.Old) -> bool:
    found = [change_bound.lengths(each, old, SPEC) for each in replies.values()]
    most = change_bound.bounds(found, factor, old, SPEC)
    return all(change_bound.beyond(each, most) is None for each in found)


CHANGES = st.floats(0.0, 38.0).map(lambda power: 10.0 ** (power - 19)) | st.sampled_from([0.0, 1.0, 50.0, 51.0, 1e30])


@given(st.lists(CHANGES, min_size=1, max_size=5), st.sampled_from([1.0, 2.0, FACTOR]), st.booleans(), st.booleans())
def test_what_is_surely_within_is_within(changes, factor, starts_at_zero, is_of_changes) -> None:
    old = {} if is_of_changes else NONE if starts_at_zero else OLD
    replies = {k: reply(k, w, old=0.0 if old is not OLD else 3.0) for k, w in enumerate(changes)}
    if surely_within(replies, factor, old, SPEC):
        assert exactly_within(replies, factor, old)


def test_an_honest_round_needs_no_exact_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> float:
        raise AssertionError("an exact sum")

    monkeypatch.setattr(quick_lengths, "square_sum", never)
    assert surely_within({k: reply(k, 1.0 + k, mean=1.0) for k in range(4)}, FACTOR, OLD, SPEC)


def test_a_reply_near_the_bound_is_left_to_the_exact_lengths() -> None:
    def within(length: float) -> bool:
        replies = {k: reply(k, w, mean=0.5, old=0.0) for k, w in enumerate([1.0, 1.0, length])}
        return surely_within(replies, FACTOR, NONE, SPEC)

    assert within(FACTOR * (1 - 3 * MARGIN)) and not within(FACTOR * (1 - MARGIN)) and not within(2 * FACTOR)


def test_a_rough_sum_of_a_large_block_is_near_the_exact_sum() -> None:
    draw = np.random.default_rng(3)
    values, old = (draw.normal(size=(300, 700)).astype(np.float32) for _ in range(2))
    rough = quick_lengths._rough_square_sum(Block(values.shape, None, values), old)
    assert rough == pytest.approx(change_bound.square_sum(Block(values.shape, None, values), old), rel=1e-4)
    rows = Axes(AxisIds(np.array([0, 5], np.int32), 300))
    part = Block(values.shape, rows, np.ascontiguousarray(values[[0, 5]]))
    assert quick_lengths._rough_square_sum(part, old) == pytest.approx(change_bound.square_sum(part, old), rel=1e-4)


@pytest.mark.parametrize("change", [1e-30, 1e30])
def test_numbers_that_float32_does_not_square_are_squared_exactly(change: float) -> None:
    block = Block((2, 2), None, np.full((2, 2), change, np.float32))
    assert quick_lengths._rough_square_sum(block, None) == change_bound.square_sum(block, None) > 0


def test_lengths_of_payloads_are_told_apart() -> None:
    small, large = (Update({"w": Block((2, 2), None, np.full((2, 2), w, np.float32))}) for w in (1, 1000))
    replies = {0: Reply(1, 0, {MODEL: small, "drift": small}), 1: Reply(1, 1, {MODEL: small, "drift": large})}
    assert not surely_within(replies, 2.0, {}, SPEC)
