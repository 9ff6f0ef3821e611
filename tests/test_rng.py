"""The random streams: published vectors, golden values, an independent Philox, and properties of the draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefl import rng

WORD = 2**64 - 1


def philox_block(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x64-10 in Python integers, written from the paper: the definition the streams are tested against."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        first, second = 0xD2E7470EE14C6C93 * c0, 0xCA5A826395121157 * c2
        c0, c1, c2, c3 = (second >> 64) ^ c1 ^ k0, second & WORD, (first >> 64) ^ c3 ^ k1, first & WORD
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & WORD, (k1 + 0xBB67AE8584CAA73B) & WORD
    return [c0, c1, c2, c3]


# Random123's kat_vectors, "philox4x64 10": counter, key, result.
PUBLISHED = [
    ([0] * 4, [0] * 2, [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]),
    ([WORD] * 4, [WORD] * 2, [0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0]),
    (
        [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89],
        [0x452821E638D01377, 0xBE5466CF34E90C6C],
        [0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6],
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), PUBLISHED)
def test_philox_gives_the_published_vectors(counter: list[int], key: list[int], expected: list[int]) -> None:
    assert philox_block(counter, key) == expected
    before = (sum(word << 64 * i for i, word in enumerate(counter)) - 1) % 2**256  # NumPy increments first
    words = [before >> 64 * i & WORD for i in range(4)]
    bits = np.random.Philox(key=np.array(key, np.uint64), counter=np.array(words, np.uint64))
    assert bits.random_raw(4).tolist() == expected


def test_stream_is_the_documented_philox_counter_and_key() -> None:
    raw = rng.stream(7, rng.NEURONS, client=3, round=12, extra=5).raw(10).tolist()
    blocks = [philox_block([1 + i, 5, 3, 12], [7, 3]) for i in range(3)]
    assert raw == (blocks[0] + blocks[1] + blocks[2])[:10]


def test_golden_values() -> None:
    raw = [0x19B5890DCBCDE5C3, 0x2D93F8A9C5E6D74A, 0x8B8C4740929ECEB9, 0xFDB7EEA046D63A0E, 0x711CEBDC2FC9413F]
    assert rng.stream(7, rng.NEURONS, client=3, round=12).raw(5).tolist() == raw
    uniform = [0.676718284428484, 0.6092467224995054, 0.16480690118373698]
    assert rng.stream(1, rng.DATA, extra=2).uniform(3).tolist() == uniform
    assert rng.stream(1, rng.DATA).below([1, 10, 1000, 2**63 - 1]).tolist() == [0, 6, 609, 2170746070150351205]
    assert rng.stream(2, rng.SELECT, round=5).permutation(10).tolist() == [3, 2, 8, 5, 9, 6, 4, 7, 1, 0]
    assert rng.stream(2, rng.SELECT, round=5).sample(10, 4).tolist() == [2, 3, 5, 8]
    assert rng.sample_ids(0x0123456789ABCDEF, 20, 8).tolist() == [0, 1, 2, 10, 12, 13, 18, 19]


def test_legacy_distributions_are_pinned() -> None:
    legacy = rng.stream(3, rng.PARTITION).legacy()
    np.testing.assert_allclose(
        legacy.dirichlet([0.1] * 3), [3.445568381811741e-07, 0.00016549647416879944, 0.9998341589689931], rtol=1e-14
    )
    np.testing.assert_allclose(legacy.lognormal(0, 0.3, 2), [0.9920519120948383, 0.7540482753635432], rtol=1e-14)


def test_purpose_numbers_never_change() -> None:
    assert list(rng.PURPOSES.values()) == list(range(1, 16))
    assert list(rng.PURPOSES)[:5] == ["init", "select", "neurons", "data", "partition"]
    assert list(rng.PURPOSES)[5:10] == ["split", "carve", "mask", "mask_batch", "ids"]
    assert list(rng.PURPOSES)[10:] == ["head", "rounding", "dropout", "absent", "fixed"]


def test_drawing_in_parts_gives_the_same_words() -> None:
    whole, parts = rng.stream(1, rng.INIT), rng.stream(1, rng.INIT)
    assert whole.raw(11).tolist() == [word for n in (0, 1, 3, 7) for word in parts.raw(n).tolist()]


@pytest.mark.parametrize("n", [0, 1, 4, 5, 41])
def test_words_of_many_clients_are_those_of_their_streams(n: int) -> None:
    clients, seed = [0, 1, 77, 2**40, 2**63 - 1], 2**64 - 3
    found = rng.words_of_clients(seed, rng.SPLIT, clients, n)
    expected = [rng.stream(seed, rng.SPLIT, client=client).raw(n) for client in clients]
    np.testing.assert_array_equal(found, np.stack(expected))


def test_streams_with_different_names_differ() -> None:
    names = [(0, rng.INIT), (1, rng.INIT), (0, rng.DATA), (0, rng.INIT, 1), (0, rng.INIT, 0, 1), (0, rng.INIT, 0, 0, 1)]
    starts = {rng.stream(*name).key() for name in names}
    assert len(starts) == len(names)


def test_uniform_is_the_upper_53_bits() -> None:
    words = rng.stream(4, rng.DATA).raw(1000)
    expected = [int(word) // 2**11 / 2**53 for word in words]
    assert rng.stream(4, rng.DATA).uniform(1000).tolist() == expected


@settings(max_examples=50)
@given(bounds=st.lists(st.integers(1, 2**63 - 1), min_size=1, max_size=20), seed=st.integers(0, WORD))
def test_below_is_the_exact_high_half_of_the_product(bounds: list[int], seed: int) -> None:
    words = rng.stream(seed, rng.CARVE).raw(len(bounds)).tolist()
    expected = [word * bound >> 64 for word, bound in zip(words, bounds, strict=True)]
    assert rng.stream(seed, rng.CARVE).below(bounds).tolist() == expected


def test_high_product_at_the_edges() -> None:
    edges = [0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**63, WORD - 1, WORD]
    pairs = [(a, b) for a in edges for b in edges]
    a, b = (np.array(column, np.uint64) for column in zip(*pairs, strict=True))
    assert rng._high_product(a, b).tolist() == [x * y >> 64 for x, y in pairs]


def test_below_keeps_the_shape_of_its_bounds() -> None:
    assert rng.stream(0, rng.DATA).below([[5, 6, 7], [8, 9, 10]]).shape == (2, 3)
    assert rng.stream(0, rng.DATA).below([]).shape == (0,)


@settings(max_examples=50)
@given(n=st.integers(0, 300), seed=st.integers(0, WORD), fraction=st.floats(0, 1))
def test_permutation_and_sample_are_what_they_say(n: int, seed: int, fraction: float) -> None:
    k = int(n * fraction)
    order = rng.stream(seed, rng.SELECT).permutation(n)
    sample = rng.stream(seed, rng.SELECT).sample(n, k)
    assert sorted(order.tolist()) == list(range(n))
    assert sample.tolist() == sorted(order[:k].tolist())


def test_every_id_is_sampled_equally_often() -> None:
    n, k, draws = 20, 8, 4000
    counts = np.zeros(n)
    for round in range(draws):
        counts[rng.sample_ids(rng.stream(9, rng.NEURONS, round=round).key(), n, k)] += 1
    share = k / n
    sigma = (draws * share * (1 - share)) ** 0.5
    assert np.abs(counts - draws * share).max() < 4.5 * sigma


def test_pairs_are_sampled_together_as_often_as_without_replacement() -> None:
    n, k, draws = 6, 3, 6000
    together = np.zeros((n, n))
    for round in range(draws):
        ids = rng.stream(11, rng.NEURONS, round=round).sample(n, k)
        together[np.ix_(ids, ids)] += 1
    share = k * (k - 1) / (n * (n - 1))
    pairs = together[~np.eye(n, dtype=bool)]
    assert np.abs(pairs - draws * share).max() < 4.5 * (draws * share * (1 - share)) ** 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, rng.INIT), "seed=-1; expected 0 <= seed < 2^64"),
        ((2**64, rng.INIT), "seed=18446744073709551616; expected 0 <= seed < 2^64"),
        ((0, rng.INIT, -2), "client=-2; expected 0 <= client < 2^64"),
        ((0, rng.INIT, 0, -3), "round=-3; expected 0 <= round < 2^64"),
        ((0, rng.INIT, 0, 0, -4), "extra=-4; expected 0 <= extra < 2^64"),
        ((0.5, rng.INIT), "seed=0.5; expected an integer"),
    ],
)
def test_bad_stream_numbers_are_named(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError) as error:
        rng.stream(*arguments)  # type: ignore[arg-type]
    assert str(error.value) == message


def test_unknown_purpose_is_named() -> None:
    with pytest.raises(ValueError, match="purpose='lunch'; expected one of init, select"):
        rng.stream(0, "lunch")


def test_bad_counts_are_named() -> None:
    here = rng.stream(0, rng.DATA)
    with pytest.raises(ValueError, match="n=-1; expected n >= 0"):
        here.raw(-1)
    with pytest.raises(ValueError, match="k=-1; expected k >= 0"):
        here.sample(3, -1)
    with pytest.raises(ValueError, match="k=4 of n=3; expected k <= n"):
        here.sample(3, 4)
    with pytest.raises(ValueError, match="n=-5; expected 0 <= n < 2"):
        rng.sample_ids(1, -5, 0)
    with pytest.raises(ValueError, match="seed=-1; expected"):
        rng.sample_ids(-1, 5, 2)


def test_bad_bounds_are_named() -> None:
    here = rng.stream(0, rng.DATA)
    with pytest.raises(ValueError, match="bound 0; expected 1 <= bound"):
        here.below([3, 0])
    with pytest.raises(ValueError, match="bounds of type float64; expected integers"):
        here.below([1.5])
