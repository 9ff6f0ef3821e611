"""Partitions of examples among clients: IID, two Dirichlet forms, shards, few classes, by group.

Everything is a function of labels and a stream: no files, no images. Shares are lists with one sorted int32 array of
example indices per client; no example is in two of them. Sources are named at each function.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefl.experiment.data.split import Indices
from edgefl.rng import Stream

Labels = npt.NDArray[np.integer[Any]]

_ATTEMPTS = 1000


def lognormal_sizes(total: int, clients: int, stream: Stream, sigma: float) -> list[int]:
    """The number of examples of every client, in proportions ~ LogNormal(0, sigma), rounded down; client 0 gets the
    remainder.

    Raises  ValueError unless 0 <= sigma < inf, or if a client is left without an example.
    Source  Acar et al., public code of FedDyn, also used by FedDC; sigma = 0.3 there.
    """
    if not 0 <= sigma < np.inf:
        raise ValueError(f"sigma={sigma}; expected 0 <= sigma < inf")
    shares = np.exp(sigma * stream.legacy().standard_normal(clients))
    sizes = (shares / shares.sum() * total).astype(int)
    sizes[0] += total - sizes.sum()
    if sizes.min() < 1:
        raise ValueError(f"sigma={sigma}, clients={clients}: a client gets 0 of {total} examples; expected at least 1")
    return [int(size) for size in sizes]


def lognormal(labels: Labels, clients: int, stream: Stream, sigma: float) -> list[Indices]:
    """IID labels and log-normal sizes. Every example is used. Raises ValueError as `lognormal_sizes` does."""
    _check(labels, clients)
    ends = np.cumsum(lognormal_sizes(len(labels), clients, stream, sigma))
    return [_sorted(part) for part in np.split(stream.permutation(len(labels)), ends[:-1])]


def iid(labels: Labels, clients: int, stream: Stream) -> list[Indices]:
    """A random permutation cut into equal slices (sizes differ by at most one). Every example is used."""
    _check(labels, clients)
    return [_sorted(part) for part in np.array_split(stream.permutation(len(labels)), clients)]


def dirichlet(labels: Labels, clients: int, stream: Stream, alpha: float, sigma: float | None = None) -> list[Indices]:
    """Client-prior form: every client gets n // clients examples, with class proportions q_k ~ Dir(alpha).

    sigma   of log-normal sizes in place of equal ones; then no example is left over

    A random client that is not full draws a class from its q_k and takes that class's next example, until all are full.
    Published code redraws while the class is used up, which can loop for ever; drawing from q_k restricted to the
    classes that are left is the same distribution. A client whose q_k has no mass left draws uniformly from them. The
    remainder n % clients belongs to nobody.
    Raises  ValueError unless 0 < alpha and 1 <= clients <= n.
    Source  Acar et al., "Federated learning based on dynamic regularization" (ICLR 2021), public code; used by FedSPU.
    """
    _check(labels, clients, alpha)
    pools = [list(pool) for pool in _shuffled_classes(labels, stream)]
    prior = _dirichlet(alpha, clients, len(pools), stream)
    cumulative = _restricted_cumulative(prior, pools)
    equal = [len(labels) // clients] * clients
    sizes = equal if sigma is None else lognormal_sizes(len(labels), clients, stream, sigma)
    shares: list[list[int]] = [[] for _ in range(clients)]
    unfilled = list(range(clients))
    draws = stream.uniform(2 * sum(sizes)).tolist()
    for pick, draw in zip(draws[::2], draws[1::2], strict=True):
        at = int(pick * len(unfilled))
        client = unfilled[at]
        chosen = bisect_right(cumulative[client], draw)
        shares[client].append(pools[chosen].pop())
        if not pools[chosen]:
            cumulative = _restricted_cumulative(prior, pools)
        if len(shares[client]) == sizes[client]:
            unfilled[at] = unfilled[-1]
            unfilled.pop()
    return [_sorted(client_samples) for client_samples in shares]


def dirichlet_classes(labels: Labels, clients: int, stream: Stream, alpha: float, minimum: int = 10) -> list[Indices]:
    """Class-split form: every class is cut among the clients in proportions ~ Dir(alpha). Every example is used.

    Sizes vary. Clients that already hold n / clients examples get nothing of later classes. Drawn again until everyone
    has `minimum`.
    Raises  ValueError unless 0 < alpha and clients * minimum <= n, or if 1000 draws leave some client with fewer.
    Source  Hsu et al., arXiv:1909.06335, in the form of FedML's "hetero" partition.
    """
    _check(labels, clients, alpha)
    if clients * minimum > len(labels):
        raise ValueError(
            f"minimum={minimum} for {clients} clients and {len(labels)} examples; expected clients * minimum <= n"
        )
    counts = np.bincount(labels)
    for _ in range(_ATTEMPTS):
        cuts = _class_cuts(counts, _dirichlet(alpha, len(counts), clients, stream))
        if np.diff(cuts, axis=1).sum(axis=0).min() >= minimum:
            break
    else:
        raise ValueError(f"alpha={alpha}, clients={clients}: {_ATTEMPTS} draws left a client below minimum={minimum}; "
                         "expected a larger alpha, fewer clients or a smaller minimum")  # fmt: skip
    classes = _shuffled_classes(labels, stream)
    pieces = [np.split(members, cut[1:-1]) for members, cut in zip(classes, cuts, strict=True)]
    return [_sorted(np.concatenate(client_samples)) for client_samples in zip(*pieces, strict=True)]


def shards(labels: Labels, clients: int, stream: Stream, per_client: int = 2) -> list[Indices]:
    """Examples sorted by label, cut into equal blocks, `per_client` random ones each. Every example is used.

    Raises  ValueError unless 1 <= clients * per_client <= n.
    Source  McMahan et al., arXiv:1602.05629; two blocks as in FedUmf.
    """
    _check(labels, clients)
    blocks = clients * per_client
    if not 1 <= blocks <= len(labels):
        raise ValueError(
            f"per_client={per_client} for {clients} clients and {len(labels)} examples; expected 1 <= blocks <= n"
        )
    cut = np.array_split(np.argsort(labels, kind="stable"), blocks)
    permuted = stream.permutation(blocks).reshape(clients, per_client)
    return [_sorted(np.concatenate([cut[block] for block in mine])) for mine in permuted]


def class_lists(classes: int, clients: int, stream: Stream, per_client: int) -> list[list[int]]:
    """The classes of every client: `per_client` distinct ones, drawn uniformly, sorted.

    If a class is drawn by nobody, the first classes // 2 clients get consecutive pairs of a permutation of all classes
    instead, whatever `per_client` is; the first of them gets three where their number is odd.
    Raises  ValueError unless 1 <= per_client <= classes, or if there are too few clients for the pairs.
    Source  PFLEGO, public code.
    """
    if not 1 <= per_client <= classes:
        raise ValueError(f"per_client={per_client}; expected 1 <= per_client <= {classes} classes")
    lists = [stream.sample(classes, per_client).tolist() for _ in range(clients)]
    if len({held for mine in lists for held in mine}) == classes:
        return lists
    pairs = classes // 2
    if not 1 <= pairs <= clients:
        raise ValueError(f"clients={clients} leave some of {classes} classes to nobody; expected at least {pairs}")
    order = stream.permutation(classes).tolist()
    first = 2 + classes % 2
    lists[:pairs] = [sorted(order[:first]), *(sorted(order[at : at + 2]) for at in range(first, classes, 2))]
    return lists


def round_robin(labels: Labels, lists: list[list[int]], stream: Stream) -> list[Indices]:
    """Every class is shuffled and partitioned one example at a time, in turn, to the clients that hold it, in client
    order.

    Every example is used; the holders' counts of a class differ by at most one. Labels of a test set dealt with the
    same lists give every client a test part of its own classes.
    Raises  ValueError naming a class that no client holds.
    Source  PFLEGO, public code.
    """
    shares: list[list[int]] = [[] for _ in lists]
    for label, members in enumerate(_shuffled_classes(labels, stream)):
        holders = [client for client, mine in enumerate(lists) if label in mine]
        if len(members) and not holders:
            raise ValueError(f"class {label} has {len(members)} examples and no client; expected one that holds it")
        for turn, client in enumerate(holders):
            shares[client].extend(members[turn :: len(holders)].tolist())
    return [_sorted(client_samples) for client_samples in shares]


def few_classes(labels: Labels, clients: int, stream: Stream, per_client: int) -> list[Indices]:
    """Every client holds `per_client` classes (`class_lists`), partitioned in turn (`round_robin`). Every example is
    used.
    """
    _check(labels, clients)
    return round_robin(labels, class_lists(int(labels.max()) + 1, clients, stream, per_client), stream)


def by_group(groups: Labels, clients: int | None, stream: Stream) -> list[Indices]:
    """One group, one client: its speaker, its alphabet. In order of group id; negative ids belong to nobody.

    clients   None takes every group; otherwise a uniformly drawn subset of that many
    Raises  ValueError if there are fewer groups than clients.
    """
    ids = np.unique(groups[groups >= 0])
    if clients is not None:
        if not 1 <= clients <= len(ids):
            raise ValueError(f"clients={clients}; expected 1 <= clients <= {len(ids)} groups")
        ids = ids[stream.sample(len(ids), clients)]
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts, ends = np.searchsorted(ordered, ids, "left"), np.searchsorted(ordered, ids, "right")
    return [_sorted(order[start:end]) for start, end in zip(starts, ends, strict=True)]


def _check(labels: Labels, clients: int, alpha: float = 1.0) -> None:
    if not 1 <= clients <= len(labels):
        raise ValueError(f"clients={clients}; expected 1 <= clients <= {len(labels)} examples")
    if not 0 < alpha < np.inf:
        raise ValueError(f"alpha={alpha}; expected 0 < alpha < inf")


def _sorted(indices: npt.ArrayLike) -> Indices:
    return np.sort(np.asarray(indices, np.int32))


def _shuffled_classes(labels: Labels, stream: Stream) -> list[Indices]:
    """The examples of class 0, 1, ... up to the largest label, each class in random order."""
    order = stream.permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    return np.split(by_class.astype(np.int32), np.cumsum(np.bincount(labels))[:-1])


def _dirichlet(alpha: float, rows: int, width: int, stream: Stream) -> npt.NDArray[np.float64]:
    """float64 [rows, width], rows ~ Dir(alpha) and summing to 1, for any alpha > 0.

    In logarithms, because all gamma(alpha) variates of a row may underflow for small alpha: if g ~ gamma(alpha + 1) and
    u ~ U(0, 1] then g u^(1/alpha) ~ gamma(alpha) (Marsaglia and Tsang 2000).
    """
    gamma = stream.legacy().standard_gamma(alpha + 1, (rows, width))
    logs = np.log(gamma) + np.log(1 - stream.uniform(rows * width)).reshape(rows, width) / alpha
    shares: npt.NDArray[np.float64] = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def _restricted_cumulative(prior: npt.NDArray[np.float64], pools: list[list[int]]) -> list[list[float]]:
    """Upper ends of the classes' intervals in [0, 1) for each client, classes that are used up left out."""
    left = np.array([bool(pool) for pool in pools])
    mass = np.where(left, prior, 0)
    mass = np.where(mass.sum(axis=1, keepdims=True) > 0, mass, left)
    ends = np.cumsum(mass, axis=1)
    ends /= np.maximum(ends[:, -1:], np.finfo(float).tiny)
    last = np.flatnonzero(left)[-1] if left.any() else -1
    ends[:, last:] = 1  # not 1 - 2^-53: every draw finds a class with examples
    return [list(row) for row in ends.tolist()]


def _class_cuts(counts: npt.NDArray[np.integer[Any]], shares: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """int64 [classes, clients + 1]: where each class is cut, 0 and its size included."""
    classes, clients = shares.shape
    cuts = np.zeros((classes, clients + 1), np.int64)
    held = np.zeros(clients, np.int64)
    for c in range(classes):
        hungry = held < counts.sum() / clients
        client_samples = np.where(hungry, shares[c], 0)
        client_samples = client_samples if client_samples.sum() > 0 else hungry.astype(float)
        cuts[c, 1:] = (np.cumsum(client_samples) / client_samples.sum() * counts[c]).astype(np.int64)
        cuts[c, -1] = counts[c]
        held += np.diff(cuts[c])
    return cuts
