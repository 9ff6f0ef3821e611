"""Pruning by magnitude and growing at random: exact counts, ties by index (ALGORITHMS 8)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefl import rng
from edgefl.models.neurons.prune_and_grow import annealed, grown, grown_at_random, prune, prune_count
from edgefl.models.neurons.random_mask import pick
from edgefl.models.neurons.top_k import largest, magnitudes, smallest

NAN = float("nan")


@given(keys=st.lists(st.integers(0, 5), max_size=40), share=st.floats(0, 1))
def test_the_smallest_and_largest_are_those_of_a_stable_sort(keys: list[int], share: float) -> None:
    """Few different values, so that nearly every limit is a tie."""
    numbers, count = np.array(keys, np.uint32), int(share * len(keys))
    order = np.argsort(numbers, kind="stable")
    assert smallest(numbers, count).tolist() == sorted(order[:count].tolist())
    order = np.argsort(-numbers.astype(np.int64), kind="stable")
    assert largest(numbers, count).tolist() == sorted(order[:count].tolist())


def test_magnitudes_order_as_absolute_values_do_and_no_number_is_infinite() -> None:
    for kind in (np.float32, np.float64):
        values = np.array([[0.0, -0.0, 1e-45], [-2.0, 2.0, np.inf], [-np.inf, NAN, -NAN]], kind)
        keys = magnitudes(values)
        assert keys[0] == keys[1] < keys[3] == keys[4] < keys[5] == keys[6] == keys[7] == keys[8]
        assert (keys[2] > keys[1]) == (values[0, 2] > 0)  # the smallest subnormal float32
        assert not np.signbit(values[0, 0])  # its argument is left as it was


def test_more_than_there_are_is_refused() -> None:
    for find in (smallest, largest):
        for count in (-1, 4):
            with pytest.raises(ValueError, match=f"{count} of 3 numbers; expected 0 <= count <= 3"):
                find(np.zeros(3, np.uint32), count)


def test_the_prune_rate_falls_along_a_cosine_to_zero_in_the_last_step() -> None:
    assert annealed(0.5, 0, 5) == 0.5
    assert annealed(0.5, 1, 5) == pytest.approx(0.25 * (1 + math.sqrt(0.5)))
    assert annealed(0.5, 2, 5) == pytest.approx(0.25)
    assert annealed(0.5, 4, 5) == 0.0
    assert annealed(0.5, 0, 1) == 0.5
    for steps in (2, 3, 100, 1000):
        assert annealed(0.3, steps - 1, steps) == 0.0  # exactly: the last round moves no mask


def test_the_number_that_leaves_is_rounded_up_and_none_at_rate_zero() -> None:
    assert [prune_count(rate, 10) for rate in (0.0, 0.01, 0.1, 0.25, 0.3, 1.0)] == [0, 1, 1, 3, 3, 10]
    assert prune_count(0.1 + 0.2, 10) == 3  # 3.0000000000000004
    assert prune_count(1.0, 0) == 0
    assert [prune_count(rate, 10, True) for rate in (0.0, 0.01, 0.1, 0.25, 0.39, 1.0)] == [0, 0, 1, 2, 3, 10]
    assert prune_count(0.29, 100, True) == 29  # 28.999999999999996


def test_no_more_leave_than_could_enter_where_what_leaves_may_not_return() -> None:
    """The mask has 7 of 9 places, and 4 would leave. Only 2 can enter, and they enter at random."""
    bits = {"w": np.arange(9).reshape(3, 3) < 7}
    values = {"w": np.arange(9, dtype=np.float32).reshape(3, 3) - 6.5}
    found = prune(values, bits, 0.5, exclude_just_pruned=True)
    assert found.counts == {"w": 2} and np.flatnonzero(~found.kept["w"]).tolist() == [5, 6, 7, 8]
    assert np.flatnonzero(~grown_at_random(found.kept, found.counts, 1, 0, 1, bits)["w"]).tolist() == [5, 6]
    assert prune(values, bits, 0.5).counts == {"w": 4} and prune(values, bits, 0.5, floor=True).counts == {"w": 3}


def test_equal_magnitudes_leave_in_the_order_of_their_index() -> None:
    """t_prune_ties_index_order: at the mask |w| is 1, 1, 1, 1, 0, 2. Two leave, then three, and off the mask nothing
    changes.
    """
    bits = {"w": np.array([[True, True, False, True], [True, True, False, True]])}
    values = {"w": np.array([[1, -1, 0, 1], [-1, 0, 9, 2]], np.float32)}
    kept = prune(values, bits, 2 / 6)
    assert kept.counts == {"w": 2}
    assert kept.kept["w"].astype(int).tolist() == [[0, 1, 0, 1], [1, 0, 0, 1]]
    kept = prune(values, bits, 3 / 6)
    assert kept.kept["w"].astype(int).tolist() == [[0, 0, 0, 1], [1, 0, 0, 1]]
    assert bits["w"].sum() == 6  # its arguments are left as they were


def test_what_is_no_number_stays_and_is_reported() -> None:
    bits = {"w": np.array([True, True, True, False])}
    found = prune({"w": np.array([NAN, 5.0, -3.0, NAN], np.float32)}, bits, 2 / 3)
    assert (found.kept["w"].tolist(), found.nans) == ([True, False, False, False], 1)
    found = prune({"w": np.array([NAN, np.inf, -3.0, 0.0], np.float32)}, bits, 2 / 3)
    assert (found.kept["w"].tolist(), found.nans) == ([False, True, False, False], 1)  # as infinite: ties by index


@given(data=st.data())
def test_pruning_and_growing_keep_every_layer_s_number_of_ones(data: st.DataObject) -> None:
    """t_prune_grow_counts, and t_grow_candidates: what enters was not there, just pruned ones included."""
    seed, rate = data.draw(st.integers(0, 99)), data.draw(st.floats(0, 1))
    random = np.random.default_rng(seed)
    bits = {name: random.random(shape) < 0.6 for name, shape in (("a", (7, 5)), ("b", (3, 2, 3, 3)), ("c", (1, 4)))}
    values = {name: random.integers(-3, 4, each.shape).astype(np.float32) for name, each in bits.items()}
    pruned = prune(values, bits, rate)
    entered = grown_at_random(pruned.kept, pruned.counts, seed, 3, 2)
    for name, before in bits.items():
        ones = int(before.sum())
        assert pruned.counts[name] == min(ones, max(0, math.ceil(rate * ones - 1e-9)))
        assert int(pruned.kept[name].sum()) == ones - pruned.counts[name]
        assert not (pruned.kept[name] & ~before).any()
        gone, left = np.abs(values[name][before & ~pruned.kept[name]]), np.abs(values[name][pruned.kept[name]])
        assert not len(gone) or not len(left) or gone.max() <= left.min()
        assert int(entered[name].sum()) == ones and (entered[name] & pruned.kept[name]).sum() == pruned.kept[name].sum()
    assert all(
        (entered[n] == each).all() for n, each in grown_at_random(pruned.kept, pruned.counts, seed, 3, 2).items()
    )


def test_growing_at_random_reaches_every_candidate_alike_and_differs_by_client_and_round() -> None:
    kept = {"w": np.array([[True, False, False], [False, True, False]])}
    drawn = [grown_at_random(kept, {"w": 2}, 1, client, round)["w"] for client in range(20) for round in range(1, 21)]
    hits = np.sum(drawn, axis=0)
    assert (hits[kept["w"]] == 400).all()
    assert (abs(hits[~kept["w"]] - 200) < 4 * math.sqrt(400 / 4)).all()
    assert (grown_at_random(kept, {}, 1, 0, 1)["w"] == kept["w"]).all()


def test_what_grows_is_added_by_flat_index() -> None:
    kept = {"w": np.array([[True, False], [False, False]]), "v": np.array([[True, False]])}
    found = grown(kept, {"w": np.array([1, 2], np.uint32)})
    assert found["w"].tolist() == [[True, True], [True, False]] and found["v"].tolist() == [[True, False]]
    assert kept["w"].sum() == 1


def test_a_pick_is_of_candidates_alone_and_takes_a_word_for_each() -> None:
    candidates = np.array([[True, False, True], [True, True, False]])
    words = rng.stream(1, rng.MASK).raw(4)
    order = np.flatnonzero(candidates)[np.argsort(words, kind="stable")]
    found = pick(candidates, 3, rng.stream(1, rng.MASK))
    assert np.flatnonzero(found).tolist() == sorted(order[:3].tolist())
