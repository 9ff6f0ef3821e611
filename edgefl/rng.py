"""Random numbers from counter-based streams, each named by (seed, purpose, client, round).

A stream is the same on every machine and with every version of NumPy. This is not a general library of random numbers:
it has only the draws that the project needs, and defines each draw here in terms of the raw words.
Source: Philox4x64-10, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), as in numpy.random.Philox.

The specification (golden values in tests/test_rng.py pin it):

    key      [seed, number of the purpose]                  two unsigned 64-bit words
    block i  Philox4x64-10(counter = [1 + i, extra, client, round], key) -> four words, used first to last
    raw      word number j of the stream is word j % 4 of block j // 4
    bytes    a word that travels (Stream.key) is written little-endian

The lowest word of the counter starts at 1 because NumPy increments it before each block, including the first block.
NumPy keeps the words of a bit generator stable across versions (NEP 19). No draw here uses numpy.random.Generator,
because the methods of that class may change.
"""

from __future__ import annotations

import operator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

INIT = "init"  # initial parameters
SELECT = "select"  # which clients take part in a round
NEURONS = "neurons"  # which neurons of a client are active in a round
DATA = "data"  # order of a client's samples in an epoch, which is `extra`
PARTITION = "partition"  # which client owns which sample
SPLIT = "split"  # division of a client's samples into training and test samples
CARVE = "carve"  # choice of a client's validation samples among its training samples
MASK = "mask"  # initial sparse mask
MASK_BATCH = "mask_batch"  # the batch whose gradient grows a mask
HEAD = "head"  # initial values of a client's own head
IDS = "ids"  # the ids for which an 8-byte key in a message stands, where the key is the seed
DROPOUT = "dropout"  # key from which a client's training in a round draws what its dropout layers drop
ABSENT = "absent"  # whether a modelled device is gone when a round begins
ROUNDING = "rounding"  # direction in which values are rounded to 8 bits, with seed 0
FIXED = "fixed"  # direction in which a client's change is rounded to a whole number of steps

PURPOSES = {
    INIT: 1, SELECT: 2, NEURONS: 3, DATA: 4, PARTITION: 5, SPLIT: 6, CARVE: 7, MASK: 8, MASK_BATCH: 9, IDS: 10,
    HEAD: 11, ROUNDING: 12, DROPOUT: 13, ABSENT: 14, FIXED: 15,
}  # fmt: skip

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_TURNS = 10  # of Philox4x64-10, whose constants follow
_FACTORS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_STEPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B


def stream(seed: int, purpose: str, client: int = 0, round: int = 0, extra: int = 0) -> Stream:
    """Return the stream of this name, at its start.

    seed, client, round, extra   integers in [0, 2^64)
    purpose                      one of PURPOSES
    Raises  ValueError that names the argument, its value and the expected values.
    """
    if purpose not in PURPOSES:
        raise ValueError(f"purpose={purpose!r}; expected one of {', '.join(PURPOSES)}")
    key = [_word("seed", seed), PURPOSES[purpose]]
    counter = [0, _word("extra", extra), _word("client", client), _word("round", round)]
    start = np.array(counter, np.uint64)
    return Stream(np.random.Philox(_key_type()(key), counter=start))


def words_of_clients(seed: int, purpose: str, clients: npt.ArrayLike, n: int) -> npt.NDArray[np.uint64]:
    """Return the first n words of the streams of many clients, uint64 [clients, n]: a row is stream(...).raw(n).

    clients  ids of the clients, in [0, 2^63)
    Raises   ValueError like `stream`
    """
    stream(seed, purpose)  # checks both
    ids = np.asarray(clients, np.uint64)[:, None]
    blocks = np.arange(1, -(-_count("n", n) // 4) + 1, dtype=np.uint64)[None, :]
    zeros = np.zeros((len(ids), blocks.size), np.uint64)
    counter = [zeros + blocks, zeros, zeros + ids, zeros]
    words = _philox(counter, seed, PURPOSES[purpose])
    return np.stack(words, axis=-1).reshape(len(ids), -1)[:, :n]


def _philox(counter: list[npt.NDArray[np.uint64]], *key: int) -> list[npt.NDArray[np.uint64]]:
    """Return the four words of Philox4x64-10 for each block's counter."""
    a, b, c, d = counter
    for turn in range(_TURNS):
        first, second = (np.uint64((word + turn * step) % 2**64) for word, step in zip(key, _STEPS, strict=True))
        high_a, low_a = _high_product(a, _FACTORS[0]), a * _FACTORS[0]
        high_c, low_c = _high_product(c, _FACTORS[1]), c * _FACTORS[1]
        a, b, c, d = high_c ^ b ^ first, low_c, high_a ^ d ^ second, low_a
    return [a, b, c, d]


def sample_ids(key: int, n: int, k: int) -> npt.NDArray[np.int32]:
    """Return the k sorted ids out of range(n) for which an 8-byte key stands: stream(key, IDS).sample(n, k).

    Raises  ValueError unless 0 <= k <= n < 2^31 and 0 <= key < 2^64.
    """
    if not 0 <= n < 2**31:
        raise ValueError(f"n={n}; expected 0 <= n < 2^31")
    return stream(key, IDS).sample(n, k).astype(np.int32)


@lru_cache
def _key_type() -> type:
    """Return the type of a Philox generator's key, in the place of a random seed. numpy.random is loaded at the first
    draw, because it takes 2 MB.

    NumPy asks the system for a random seed where it is given a key alone, which takes six times as long.
    """
    from numpy.random.bit_generator import ISeedSequence

    class Key(ISeedSequence):
        def __init__(self, words: list[int]) -> None:
            self._words = np.array(words, np.uint64)

        def generate_state(self, n_words: int, dtype: npt.DTypeLike = np.uint32) -> npt.NDArray[np.uint64]:
            return self._words

    return Key


class Stream:
    """A position in one stream. Every draw moves the position forward by the number of words that the method states."""

    def __init__(self, bits: np.random.Philox) -> None:
        self._bits = bits

    def raw(self, n: int) -> npt.NDArray[np.uint64]:
        """Return the next n words."""
        return np.asarray(self._bits.random_raw(_count("n", n)), np.uint64)

    def key(self) -> int:
        """Return the next word as a Python int, which serves as a key for `sample_ids`."""
        return int(self.raw(1)[0])

    def uniform(self, n: int) -> npt.NDArray[np.float64]:
        """Return n numbers in [0, 1), multiples of 2^-53. Each is made of the upper 53 bits of one word."""
        return (self.raw(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, bounds: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return one integer in [0, bound) for each entry of `bounds`, in the shape of `bounds`. Each takes one word.

        The integer is floor(word * bound / 2^64), computed exactly. The probability of a value differs from 1 / bound
        by less than 2^-64.
        Raises  ValueError that names the first bound that is not an integer in [1, 2^63).
        """
        limits = np.asarray(bounds)
        if limits.size and limits.dtype.kind not in "iu":
            raise ValueError(f"bounds of type {limits.dtype}; expected integers below 2^63")
        wrong = (limits < 1) | (limits > np.iinfo(np.int64).max)
        if wrong.any():
            raise ValueError(f"bound {limits[wrong].flat[0]}; expected 1 <= bound < 2^63")
        words = self.raw(limits.size).reshape(limits.shape)
        return _high_product(words, limits.astype(np.uint64)).astype(np.int64)

    def permutation(self, n: int) -> npt.NDArray[np.int64]:
        """Return range(n) in random order, by a stable argsort of n words.

        Equal words, whose probability is below n^2 2^-65, keep the order.
        """
        return self.raw(n).argsort(kind="stable").astype(np.int64, copy=False)

    def sample(self, n: int, k: int) -> npt.NDArray[np.int64]:
        """Return k numbers of range(n), sorted: the first k of permutation(n). It takes n words for every k.

        Raises  ValueError unless 0 <= k <= n.
        """
        if not 0 <= _count("k", k) <= _count("n", n):
            raise ValueError(f"k={k} of n={n}; expected k <= n")
        words = self.raw(n)
        if 0 < k < n:  # the k smallest words are found without sorting the others
            among = np.flatnonzero(words <= np.partition(words, k - 1)[k - 1])
            return np.sort(among[np.argsort(words[among], kind="stable")[:k]])
        return np.arange(k, dtype=np.int64)

    def legacy(self) -> np.random.RandomState:
        """Return NumPy's frozen distributions (NEP 19) on this stream, for gamma, Dirichlet and log-normal draws.

        The result shares the position of this stream. Its draws are stable across NumPy versions. They use log and exp
        of the C library, so the last bit may differ between platforms.
        """
        return np.random.RandomState(self._bits)


def _high_product(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64] | np.uint64) -> npt.NDArray[np.uint64]:
    """Return the upper 64 bits of the 128-bit products a * b, computed from 32-bit halves.

    No partial sum exceeds 2^64 - 1.
    """
    a_high, a_low, b_high, b_low = a >> _HALF, a & _LOW, b >> _HALF, b & _LOW
    middle = a_high * b_low + (a_low * b_low >> _HALF)
    carry = a_low * b_high + (middle & _LOW)
    high: npt.NDArray[np.uint64] = a_high * b_high + (middle >> _HALF) + (carry >> _HALF)
    return high


def _word(name: str, value: int) -> int:
    number = _integer(name, value)
    if not 0 <= number < 2**64:
        raise ValueError(f"{name}={number}; expected 0 <= {name} < 2^64")
    return number


def _count(name: str, value: int) -> int:
    number = _integer(name, value)
    if number < 0:
        raise ValueError(f"{name}={number}; expected {name} >= 0")
    return number


def _integer(name: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name}={value!r}; expected an integer") from None
