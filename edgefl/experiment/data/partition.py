"""Partitions of examples among clients: IID, two Dirichlet forms, shards, few classes, by group.

Everything is a function of labels and a stream: no files, no images. A partition is a list with one sorted int32 array
of example indices per client, and no example is in two of the arrays. Each function names its source.
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
    """Return the number of examples of every client, in proportions ~ LogNormal(0, sigma), rounded down. Client 0 gets
    the remainder.

    Raises  ValueError unless 0 <= sigma < inf, or if a client is left without an example.
    Source  Acar et al., public code of FedDyn, also used by FedDC, with sigma = 0.3.
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
    """Partition examples with IID labels and log-normal sizes. All are used. Raises ValueError as `lognormal_sizes`."""
    _check(labels, clients)
    ends = np.cumsum(lognormal_sizes(len(labels), clients, stream, sigma))
    return [_sorted(part) for part in np.split(stream.permutation(len(labels)), ends[:-1])]


def iid(labels: Labels, clients: int, stream: Stream) -> list[Indices]:
    """Cut a random permutation into equal slices, whose sizes differ by at most one. Every example is used."""
    _check(labels, clients)
    return [_sorted(part) for part in np.array_split(stream.permutation(len(labels)), clients)]


def dirichlet(labels: Labels, clients: int, stream: Stream, alpha: float, sigma: float | None = None) -> list[Indices]:
    """Client-prior form: every client gets n // clients examples, with class proportions q_k ~ Dir(alpha).

    sigma   parameter of log-normal sizes in place of equal sizes, which leave no example over

    A random client that is not full draws a class from its q_k and takes that class's next example, until all are full.
    The published code draws again while the class is used up, which can loop for ever. Drawing from q_k restricted to
    the remaining classes has the same distribution. A client whose q_k has no mass left draws uniformly from these
    classes. The remainder n % clients belongs to nobody.
    Raises  ValueError unless 0 < alpha and 1 <= clients <= n.
    Source  Acar et al., "Federated learning based on dynamic regularization" (ICLR 2021), public code, used by FedSPU.
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

    Sizes vary. Clients that already hold n / clients examples get nothing of later classes. The draw is repeated until
    every client has `minimum` examples.
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
    """Sort examples by label, cut them into equal blocks, and give each client `per_client` random blocks.

    Every example is used.
    Raises  ValueError unless 1 <= clients * per_client <= n.
    Source  McMahan et al., arXiv:1602.05629, and two blocks as in FedUmf.
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
    """Return the classes of every client: `per_client` distinct classes, drawn uniformly, sorted.

    If no client draws some class, the first classes // 2 clients get consecutive pairs of a permutation of all classes
    instead, whatever `per_client` is. If the number of classes is odd, the first client gets three.
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
        raise ValueError(
            f"clients={clients} leave some of {classes} classes without a client; expected at least {pairs} clients"
        )
    order = stream.permutation(classes).tolist()
    first = 2 + classes % 2
    lists[:pairs] = [sorted(order[:first]), *(sorted(order[at : at + 2]) for at in range(first, classes, 2))]
    return lists


def round_robin(labels: Labels, lists: list[list[int]], stream: Stream) -> list[Indices]:
    """Shuffle every class, and give its examples one at a time, in turn, to the clients that hold the class, in client
    order.

    Every example is used, and the holders' counts of a class differ by at most one. If the labels of a test set are
    partitioned with the same lists, every client gets a test part of its own classes.
    Raises  ValueError naming a class that no client holds.
    Source  PFLEGO, public code.
    """
    shares: list[list[int]] = [[] for _ in lists]
    for label, members in enumerate(_shuffled_classes(labels, stream)):
        holders = [client for client, mine in enumerate(lists) if label in mine]
        if len(members) and not holders:
            raise ValueError(
                f"class {label} has {len(members)} examples and no client; expected a client that holds the class"
            )
        for turn, client in enumerate(holders):
            shares[client].extend(members[turn :: len(holders)].tolist())
    return [_sorted(client_samples) for client_samples in shares]


def few_classes(labels: Labels, clients: int, stream: Stream, per_client: int) -> list[Indices]:
    """Give every client `per_client` classes (`class_lists`), whose examples are partitioned in turn (`round_robin`).
    Every example is used.
    """
    _check(labels, clients)
    return round_robin(labels, class_lists(int(labels.max()) + 1, clients, stream, per_client), stream)


def by_group(groups: Labels, clients: int | None, stream: Stream) -> list[Indices]:
    """Give each client one group, for example a speaker, in order of group id. Negative ids belong to nobody.

    clients   number of groups, drawn uniformly. None takes every group
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
    indices = order.astype(np.int32)  # stable, so that the samples of a group are in order
    return [indices[start:end] for start, end in zip(starts, ends, strict=True)]


def _check(labels: Labels, clients: int, alpha: float = 1.0) -> None:
    if not 1 <= clients <= len(labels):
        raise ValueError(f"clients={clients}; expected 1 <= clients <= {len(labels)} examples")
    if not 0 < alpha < np.inf:
        raise ValueError(f"alpha={alpha}; expected 0 < alpha < inf")


def _sorted(indices: npt.ArrayLike) -> Indices:
    return np.sort(np.asarray(indices, np.int32))


def _shuffled_classes(labels: Labels, stream: Stream) -> list[Indices]:
    """Return the examples of class 0, 1, ... up to the largest label, each class in random order."""
    order = stream.permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    return np.split(by_class.astype(np.int32), np.cumsum(np.bincount(labels))[:-1])


def _dirichlet(alpha: float, rows: int, width: int, stream: Stream) -> npt.NDArray[np.float64]:
    """Return float64 [rows, width], rows ~ Dir(alpha) and summing to 1, for any alpha > 0.

    The draw uses logarithms, because all gamma(alpha) variates of a row may underflow for small alpha. The product of a
    gamma(alpha + 1) variate and u^(1/alpha) with u ~ U(0, 1] is a gamma(alpha) variate (Marsaglia and Tsang 2000).
    """
    gamma = stream.legacy().standard_gamma(alpha + 1, (rows, width))
    logs = np.log(gamma) + np.log(1 - stream.uniform(rows * width)).reshape(rows, width) / alpha
    shares: npt.NDArray[np.float64] = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def _restricted_cumulative(prior: npt.NDArray[np.float64], pools: list[list[int]]) -> list[list[float]]:
    """Return the upper ends of the classes' intervals in [0, 1) for each client, without classes that are used up."""
    left = np.array([bool(pool) for pool in pools])
    mass = np.where(left, prior, 0)
    mass = np.where(mass.sum(axis=1, keepdims=True) > 0, mass, left)
    ends = np.cumsum(mass, axis=1)
    ends /= np.maximum(ends[:, -1:], np.finfo(float).tiny)
    last = np.flatnonzero(left)[-1] if left.any() else -1
    ends[:, last:] = 1  # exactly 1, not 1 - 2^-53: every draw finds a class with examples
    return [list(row) for row in ends.tolist()]


def _class_cuts(counts: npt.NDArray[np.integer[Any]], shares: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return int64 [classes, clients + 1]: the positions where each class is cut, with 0 and the class's size."""
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
