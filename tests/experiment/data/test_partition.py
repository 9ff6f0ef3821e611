"""Partitions: nobody shares an example, none is lost unless stated, proportions follow their law, draws are pinned."""

import hashlib
from collections.abc import Callable

import numpy as np
import pytest

from edgefl.experiment.data import partition
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.partition_by_name import partition_samples
from edgefl.rng import PARTITION, Stream, stream

LABELS = np.repeat(np.arange(10), 123)  # 1230 examples, 10 classes

SCHEMES: dict[str, Callable[[np.ndarray, int, Stream], list[np.ndarray]]] = {
    "iid": partition.iid,
    "dirichlet": lambda labels, clients, draws: partition.dirichlet(labels, clients, draws, alpha=0.1),
    "dirichlet_classes": lambda labels, clients, draws: partition.dirichlet_classes(labels, clients, draws, alpha=0.5),
    "lognormal": lambda labels, clients, draws: partition.lognormal(labels, clients, draws, sigma=0.3),
    "dirichlet_lognormal": lambda labels, clients, draws: partition.dirichlet(labels, clients, draws, 0.6, sigma=0.3),
    "shards": partition.shards,
    "few_classes": lambda labels, clients, draws: partition.few_classes(labels, clients, draws, per_client=2),
    "by_group": lambda labels, clients, draws: partition.by_group(np.arange(len(labels)) % clients, None, draws),
}
GOLDEN = {
    "iid": "8b3a566b8eac67f0",
    "dirichlet": "288a54ad4b00a2ec",
    "dirichlet_classes": "062cf6d014b0e5e3",
    "lognormal": "59d1db8651bb9b66",
    "dirichlet_lognormal": "1195cf77c63f2457",
    "few_classes": "167be632c1ebca6b",
    "shards": "6ccaa908418f0837",
    "by_group": "b7f1a4b498736654",
}


def digest(partitions: list[np.ndarray]) -> str:
    text = ";".join(",".join(map(str, share.tolist())) for share in partitions)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("clients", [1, 7, 20])
def test_partition_disjoint_cover(scheme: str, clients: int) -> None:
    if scheme == "few_classes" and clients == 1:
        with pytest.raises(
            ValueError, match=r"clients=1 leave some of 10 classes without a client; expected at least 5"
        ):
            SCHEMES[scheme](LABELS, clients, stream(1, PARTITION))
        return
    partitions = SCHEMES[scheme](LABELS, clients, stream(1, PARTITION))
    assert len(partitions) == clients
    for share in partitions:
        assert share.dtype == np.int32 and (np.diff(share) > 0).all()
    used = np.concatenate(partitions)
    lost = len(LABELS) % clients if scheme == "dirichlet" else 0
    assert len(np.unique(used)) == len(used) == len(LABELS) - lost
    assert used.min() >= 0 and used.max() < len(LABELS)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_draws_are_pinned(scheme: str) -> None:
    assert digest(SCHEMES[scheme](LABELS, 20, stream(42, PARTITION))) == GOLDEN[scheme]


def test_another_seed_partitions_differently() -> None:
    for scheme in SCHEMES.keys() - {"by_group"}:
        one, two = (SCHEMES[scheme](LABELS, 20, stream(seed, PARTITION)) for seed in (1, 2))
        assert digest(one) != digest(two)


def test_iid_slices_are_equal() -> None:
    assert sorted(len(share) for share in partition.iid(LABELS, 20, stream(1, PARTITION))) == [61] * 10 + [62] * 10


@pytest.mark.parametrize("alpha", [1e-4, 0.1, 1e6])
def test_dirichlet_sizes_are_equal(alpha: float) -> None:
    assert {len(s) for s in partition.dirichlet(LABELS, 20, stream(1, PARTITION), alpha)} == {61}


def test_dirichlet_concentration() -> None:
    def classes_held(alpha: float) -> float:
        partitions = partition.dirichlet(LABELS, 20, stream(1, PARTITION), alpha)
        return float(np.mean([len(np.unique(LABELS[share])) for share in partitions]))

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
    """All gamma(1e-5) variates of a row underflow in double precision, and the prior must still sum to one."""
    prior = partition._dirichlet(1e-5, 100, 3, stream(1, PARTITION))
    assert (prior.max(axis=1) == 1).all() and set(prior.argmax(axis=1)) == {0, 1, 2}


def test_dirichlet_goes_on_when_a_clients_classes_are_used_up() -> None:
    """Ten examples of class 0 and 1000 of class 1: at alpha 1e-4 half of the clients want class 0 only."""
    labels = np.repeat([0, 1], [10, 1000])
    partitions = partition.dirichlet(labels, 10, stream(3, PARTITION), alpha=1e-4)
    assert {len(share) for share in partitions} == {101}
    assert len(np.unique(np.concatenate(partitions))) == 1010


def test_a_class_without_examples_is_no_obstacle() -> None:
    labels = np.repeat([0, 2, 5], 50)
    for scheme, shares_of in SCHEMES.items():
        assert sum(map(len, shares_of(labels, 3, stream(1, PARTITION)))) == 150, scheme


def test_dirichlet_classes_holds_the_minimum() -> None:
    for seed in range(10):
        partitions = partition.dirichlet_classes(LABELS, 20, stream(seed, PARTITION), alpha=0.3, minimum=25)
        assert min(map(len, partitions)) >= 25


def test_dirichlet_classes_gives_up_with_the_values() -> None:
    with pytest.raises(ValueError, match=r"alpha=0.001, clients=20: 1000 draws .* minimum=61; expected a larger alpha"):
        partition.dirichlet_classes(LABELS, 20, stream(1, PARTITION), alpha=0.001, minimum=61)


def test_two_shards_give_at_most_two_classes_when_blocks_divide_classes() -> None:
    labels = np.repeat(np.arange(10), 120)  # 40 blocks of 30: none crosses a class
    partitions = partition.shards(labels, 20, stream(1, PARTITION))
    assert max(len(np.unique(labels[share])) for share in partitions) == 2


def test_by_group_is_one_client_per_group_and_leaves_out_the_unknown() -> None:
    groups = np.array([7, -1, 3, 7, 3, 9])
    partitions = partition.by_group(groups, None, stream(1, PARTITION))
    assert [share.tolist() for share in partitions] == [[2, 4], [0, 3], [5]]
    chosen = partition.by_group(groups, 2, stream(1, PARTITION))
    assert len(chosen) == 2 and all(share.tolist() in ([2, 4], [0, 3], [5]) for share in chosen)


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
    ],
)
def test_wrong_values_are_named(call: Callable[[Stream], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(stream(1, PARTITION))


def test_rr_balance() -> None:
    """Holders of a class have counts that differ by at most one, and nobody else has any of it."""
    lists = partition.class_lists(10, 20, stream(3, PARTITION), per_client=3)
    partitions = partition.round_robin(LABELS, lists, stream(4, PARTITION))
    counts = np.array([np.bincount(LABELS[share], minlength=10) for share in partitions])
    for label in range(10):
        holders = [client for client, mine in enumerate(lists) if label in mine]
        held = counts[holders, label]
        assert held.max() - held.min() <= 1
        assert held.sum() == counts[:, label].sum() == 123


def test_few_classes_gives_every_client_k_classes() -> None:
    for per_client in (2, 5, 10):
        partitions = partition.few_classes(LABELS, 40, stream(5, PARTITION), per_client)
        assert {len(np.unique(LABELS[share])) for share in partitions} == {per_client}


@pytest.mark.parametrize(("classes", "sizes"), [(10, [2, 2, 2, 2, 2]), (7, [3, 2, 2])])
def test_classes_that_nobody_drew_are_partitioned_in_pairs(classes: int, sizes: list[int]) -> None:
    """One class each for as many clients as there are pairs cannot cover all: the pairs do, whatever K is."""
    lists = partition.class_lists(classes, len(sizes), stream(1, PARTITION), per_client=1)
    assert [len(mine) for mine in lists] == sizes
    assert sorted(held for mine in lists for held in mine) == list(range(classes))


def test_a_test_set_partitioned_with_the_same_lists_has_the_same_classes() -> None:
    lists = partition.class_lists(10, 20, stream(6, PARTITION), per_client=2)
    train, test = (partition.round_robin(y, lists, stream(7, PARTITION)) for y in (LABELS, LABELS[::5]))
    assert [set(LABELS[a]) for a in train] == [set(LABELS[::5][b]) for b in test]


def test_a_class_without_a_holder_is_named() -> None:
    with pytest.raises(ValueError, match=r"class 1 has 123 examples and no client"):
        partition.round_robin(LABELS, [[0]], stream(1, PARTITION))


def test_log_normal_sizes_follow_their_law() -> None:
    sizes = np.array(partition.lognormal_sizes(1_000_000, 2000, stream(1, PARTITION), sigma=0.3))
    assert sizes.sum() == 1_000_000
    logs = np.log(sizes[1:])
    assert abs(logs.std() - 0.3) < 4 * 0.3 / np.sqrt(2 * 2000)
    assert partition.lognormal_sizes(100, 20, stream(1, PARTITION), sigma=0.0) == [5] * 20


def test_the_sizes_of_both_log_normal_forms_vary_and_the_labels_of_one_do() -> None:
    alike, skewed = (SCHEMES[name](LABELS, 10, stream(1, PARTITION)) for name in ("lognormal", "dirichlet_lognormal"))
    for partitions in (alike, skewed):
        assert len({len(share) for share in partitions}) > 5
    most = [
        max(np.bincount(LABELS[share]).max() / len(share) for share in partitions) for partitions in (alike, skewed)
    ]
    assert most[0] < 0.25 < most[1]


@pytest.mark.parametrize(
    ("sigma", "clients", "message"),
    [(-1.0, 5, r"sigma=-1.0; expected 0 <= sigma"), (9.0, 50, r"sigma=9.0, clients=50: a client gets 0 of 1230")],
)
def test_log_normal_sizes_that_cannot_be_are_named(sigma: float, clients: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        partition.lognormal(LABELS, clients, stream(1, PARTITION), sigma)


@pytest.mark.parametrize(
    ("how", "share"),
    [
        ("iid", lambda y, draws: partition.iid(y, 8, draws)),
        ("lognormal:0.3", lambda y, draws: partition.lognormal(y, 8, draws, 0.3)),
        ("dirichlet:0.6", lambda y, draws: partition.dirichlet(y, 8, draws, 0.6)),
        ("dirichlet:0.6:0.3", lambda y, draws: partition.dirichlet(y, 8, draws, 0.6, 0.3)),
        ("dirichlet-classes:0.6", lambda y, draws: partition.dirichlet_classes(y, 8, draws, 0.6)),
        ("shards:2", lambda y, draws: partition.shards(y, 8, draws, 2)),
        ("classes:2", lambda y, draws: partition.few_classes(y, 8, draws, 2)),
    ],
)
def test_the_command_line_names_every_partition(how: str, share: Callable[..., list[np.ndarray]]) -> None:
    digits = load("digits")
    expected = share(digits.y, stream(3, PARTITION))
    assert digest(partition_samples(digits, how, 8, 3)) == digest(expected)


@pytest.mark.parametrize("how", ["fair", "iid:1", "shards:2.5", "classes", "dirichlet:1:2:3", "lognormal:x", "group:2"])
def test_a_partition_that_does_not_exist_is_named(how: str) -> None:
    with pytest.raises(ValueError, match=rf"partition={how}; expected iid, dirichlet:ALPHA, "):
        partition_samples(load("digits"), how, 8, 3)
