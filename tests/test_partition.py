"""Partitions: nobody shares an example, none is lost unless stated, proportions follow their law, draws are pinned."""

import hashlib
from collections.abc import Callable

import numpy as np
import pytest

from edgefl import partition
from edgefl.rng import PARTITION, SPLIT, Stream, stream

LABELS = np.repeat(np.arange(10), 123)  # 1230 examples, 10 classes

SCHEMES: dict[str, Callable[[np.ndarray, int, Stream], list[np.ndarray]]] = {
    "iid": partition.iid,
    "dirichlet": lambda labels, clients, draws: partition.dirichlet(labels, clients, draws, alpha=0.1),
    "dirichlet_classes": lambda labels, clients, draws: partition.dirichlet_classes(labels, clients, draws, alpha=0.5),
    "shards": partition.shards,
    "by_group": lambda labels, clients, draws: partition.by_group(np.arange(len(labels)) % clients, None, draws),
}
GOLDEN = {
    "iid": "8b3a566b8eac67f0",
    "dirichlet": "288a54ad4b00a2ec",
    "dirichlet_classes": "062cf6d014b0e5e3",
    "shards": "6ccaa908418f0837",
    "by_group": "b7f1a4b498736654",
}


def digest(shares: list[np.ndarray]) -> str:
    text = ";".join(",".join(map(str, share.tolist())) for share in shares)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("clients", [1, 7, 20])
def test_partition_disjoint_cover(scheme: str, clients: int) -> None:
    shares = SCHEMES[scheme](LABELS, clients, stream(1, PARTITION))
    assert len(shares) == clients
    for share in shares:
        assert share.dtype == np.int32 and (np.diff(share) > 0).all()
    used = np.concatenate(shares)
    lost = len(LABELS) % clients if scheme == "dirichlet" else 0
    assert len(np.unique(used)) == len(used) == len(LABELS) - lost
    assert used.min() >= 0 and used.max() < len(LABELS)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_draws_are_pinned(scheme: str) -> None:
    assert digest(SCHEMES[scheme](LABELS, 20, stream(42, PARTITION))) == GOLDEN[scheme]


def test_another_seed_deals_differently() -> None:
    for scheme in ("iid", "dirichlet", "dirichlet_classes", "shards"):
        one, two = (SCHEMES[scheme](LABELS, 20, stream(seed, PARTITION)) for seed in (1, 2))
        assert digest(one) != digest(two)


def test_iid_slices_are_equal() -> None:
    assert sorted(len(share) for share in partition.iid(LABELS, 20, stream(1, PARTITION))) == [61] * 10 + [62] * 10


@pytest.mark.parametrize("alpha", [1e-4, 0.1, 1e6])
def test_dirichlet_sizes_are_equal(alpha: float) -> None:
    assert {len(s) for s in partition.dirichlet(LABELS, 20, stream(1, PARTITION), alpha)} == {61}


def test_dirichlet_concentration() -> None:
    def classes_held(alpha: float) -> float:
        shares = partition.dirichlet(LABELS, 20, stream(1, PARTITION), alpha)
        return float(np.mean([len(np.unique(LABELS[share])) for share in shares]))

    assert classes_held(1e-4) < 6 < classes_held(1.0) < 9.5 < classes_held(100.0)  # used-up classes spread the rest


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_priors_are_dirichlet(alpha: float) -> None:
    """Mean 1/k and variance (1/k)(1 - 1/k) / (k alpha + 1) of every coordinate, within 5 standard errors."""
    k, rows = 4, 20_000
    prior = partition._dirichlet(alpha, rows, k, stream(1, PARTITION))
    assert np.allclose(prior.sum(axis=1), 1)
    variance = 1 / k * (1 - 1 / k) / (k * alpha + 1)
    assert np.allclose(prior.mean(axis=0), 1 / k, atol=5 * np.sqrt(variance / rows))
    squares = (prior - 1 / k) ** 2
    assert np.allclose(squares.mean(axis=0), variance, atol=5 * squares.std() / np.sqrt(rows))


def test_priors_of_tiny_alpha_are_one_hot() -> None:
    """All gamma(1e-5) variates of a row underflow in double precision; the prior must still sum to one."""
    prior = partition._dirichlet(1e-5, 100, 3, stream(1, PARTITION))
    assert (prior.max(axis=1) == 1).all() and set(prior.argmax(axis=1)) == {0, 1, 2}


def test_dirichlet_goes_on_when_a_clients_classes_are_used_up() -> None:
    """Ten examples of class 0 and 1000 of class 1: at alpha 1e-4 half of the clients want class 0 only."""
    labels = np.repeat([0, 1], [10, 1000])
    shares = partition.dirichlet(labels, 10, stream(3, PARTITION), alpha=1e-4)
    assert {len(share) for share in shares} == {101}
    assert len(np.unique(np.concatenate(shares))) == 1010


def test_a_class_without_examples_is_no_obstacle() -> None:
    labels = np.repeat([0, 2, 5], 50)
    for scheme, deal in SCHEMES.items():
        assert sum(map(len, deal(labels, 3, stream(1, PARTITION)))) == 150, scheme


def test_dirichlet_classes_holds_the_minimum() -> None:
    for seed in range(10):
        shares = partition.dirichlet_classes(LABELS, 20, stream(seed, PARTITION), alpha=0.3, minimum=25)
        assert min(map(len, shares)) >= 25


def test_dirichlet_classes_gives_up_with_the_values() -> None:
    with pytest.raises(ValueError, match=r"alpha=0.001, clients=20: 1000 draws .* minimum=61; expected a larger alpha"):
        partition.dirichlet_classes(LABELS, 20, stream(1, PARTITION), alpha=0.001, minimum=61)


def test_two_shards_give_at_most_two_classes_when_blocks_divide_classes() -> None:
    labels = np.repeat(np.arange(10), 120)  # 40 blocks of 30: none crosses a class
    shares = partition.shards(labels, 20, stream(1, PARTITION))
    assert max(len(np.unique(labels[share])) for share in shares) == 2


def test_by_group_is_one_client_per_group_and_leaves_out_the_unknown() -> None:
    groups = np.array([7, -1, 3, 7, 3, 9])
    shares = partition.by_group(groups, None, stream(1, PARTITION))
    assert [share.tolist() for share in shares] == [[2, 4], [0, 3], [5]]
    chosen = partition.by_group(groups, 2, stream(1, PARTITION))
    assert len(chosen) == 2 and all(share.tolist() in ([2, 4], [0, 3], [5]) for share in chosen)


def test_split_of_ten() -> None:
    indices = np.arange(100, 110, dtype=np.int32)
    train, validation, test = partition.split(indices, stream(1, SPLIT), carve=0.2)
    assert (len(train), len(validation), len(test)) == (6, 1, 3)
    assert sorted([*train, *validation, *test]) == indices.tolist()


@pytest.mark.parametrize(("n", "counts"), [(0, (0, 0, 0)), (1, (0, 0, 1)), (2, (1, 0, 1)), (90, (57, 6, 27))])
def test_split_counts_are_floored(n: int, counts: tuple[int, int, int]) -> None:
    parts = partition.split(np.arange(n, dtype=np.int32), stream(1, SPLIT))
    assert tuple(map(len, parts)) == counts


def test_carving_leaves_the_test_part_alone() -> None:
    indices = np.arange(50, dtype=np.int32)
    without, carved = (partition.split(indices, stream(1, SPLIT), carve=carve) for carve in (0.0, 0.3))
    assert without[2].tolist() == carved[2].tolist()
    assert sorted([*carved[0], *carved[1]]) == without[0].tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda draws: partition.iid(LABELS, 0, draws), "clients=0; expected 1 <= clients <= 1230 examples"),
        (lambda draws: partition.dirichlet(LABELS, 2000, draws, 0.1), "clients=2000"),
        (lambda draws: partition.dirichlet(LABELS, 10, draws, 0.0), "alpha=0.0; expected 0 < alpha < inf"),
        (lambda draws: partition.dirichlet_classes(LABELS, 200, draws, 1.0), "minimum=10 for 200 clients"),
        (lambda draws: partition.shards(LABELS, 10, draws, 200), "per_client=200 for 10 clients"),
        (
            lambda draws: partition.by_group(np.array([1, 1, 2]), 3, draws),
            "clients=3; expected 1 <= clients <= 2 groups",
        ),
        (lambda draws: partition.split(np.arange(3), draws, train=1.2), "train=1.2"),
    ],
)
def test_wrong_values_are_named(call: Callable[[Stream], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(stream(1, PARTITION))
