"""The splits of all clients together, in a few arrays: a million clients need no million objects.

A client's split is what split.py makes of the client's samples alone. The clients that own equally many samples are
split together, which takes a small part of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from edgefl import rng
from edgefl.experiment.data.split import Indices, Split, counts_of, split

FEW = 64  # clients with equally many samples, below which the stream of each client is drawn alone
AT_ONCE = 1 << 16  # clients that are split in one go, at most


class ClientSplits(Sequence[Split]):
    """The splits of clients 0, 1, ... as a sequence, made when they are asked for.

    indices  int32: of each client in turn its training, its validation and its test samples, each part sorted
    ends     int64 [clients, 3]: where these parts end in `indices`
    """

    def __init__(self, indices: Indices, ends: NDArray[np.int64]) -> None:
        self._indices, self._ends = indices, ends

    @staticmethod
    def of(splits: Sequence[Split]) -> ClientSplits:
        """Return these splits together."""
        pieces = [part for each in splits for part in (each.train, each.validation, each.test)]
        ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64).reshape(-1, 3)
        return ClientSplits(np.concatenate(pieces) if pieces else np.empty(0, np.int32), ends)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, at: int) -> Split: ...
    @overload
    def __getitem__(self, at: slice) -> ClientSplits: ...
    def __getitem__(self, at: int | slice) -> Split | ClientSplits:
        if isinstance(at, slice):
            clients = range(len(self))[at]
            if clients.step == 1 and (not clients or not clients[0]):
                return ClientSplits(self._indices, self._ends[at])
            return ClientSplits.of([self[client] for client in clients])
        client = range(len(self))[at]
        start = self._ends[client - 1, 2] if client else 0
        train, validation, test = self._ends[client].tolist()
        return Split(self._indices[start:train], self._indices[train:validation], self._indices[validation:test])

    def __iter__(self) -> Iterator[Split]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClientSplits):
            return NotImplemented
        return np.array_equal(self._ends, other._ends) and np.array_equal(self._used(), other._used())

    __hash__ = None  # type: ignore[assignment]

    def training_counts(self) -> NDArray[np.int64]:
        """Return the number of training samples of each client."""
        return self._ends[:, 0] - np.concatenate([np.zeros(1, np.int64), self._ends[:-1, 2]])

    def _used(self) -> Indices:
        return self._indices[: self._ends[-1, 2]] if len(self) else self._indices[:0]


def training_counts(splits: Sequence[Split]) -> Sequence[int]:
    """Return the number of training samples of each client."""
    return splits.training_counts().tolist() if isinstance(splits, ClientSplits) else [len(s.train) for s in splits]


def split_clients(
    owned: Sequence[Indices], seed: int, train_share: float, validation_share: float, who: Callable[[int], str]
) -> ClientSplits:
    """Return for each client what `split` returns for the samples `owned[client]`.

    who     returns the name of a client in the error
    Raises  DataError if a client gets no training or no test samples.
    """
    sizes = np.array([len(each) for each in owned], np.int64)
    ends = np.cumsum(sizes)
    counts = np.array([counts_of(size, train_share, validation_share) for size in sizes.tolist()], np.int64)
    kept, carved = counts.reshape(-1, 2).T
    for client in np.flatnonzero((kept == carved) | (kept == sizes)).tolist():
        split(owned[client], seed, client, train_share, validation_share, who(client))  # raises
    indices = np.empty(int(sizes.sum()), np.int32)
    order = np.argsort(sizes, kind="stable")
    for clients in np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1):
        for first in range(0, len(clients), AT_ONCE):
            some = clients[first : first + AT_ONCE]
            size, outer, inner = sizes[some[0]], kept[some[0]], (kept - carved)[some[0]]
            rows = _shuffled([owned[client] for client in some], seed, some)
            for start, end in ((0, inner), (inner, outer), (outer, size)):
                rows[:, start:end].sort(axis=1)
            indices[(ends[some] - size)[:, None] + np.arange(size)] = rows
    starts = ends - sizes
    return ClientSplits(indices, np.stack([starts + kept - carved, starts + kept, ends], axis=1))


def _shuffled(owned: Sequence[Indices], seed: int, clients: NDArray[np.int64]) -> Indices:
    """Return the samples of these clients, who own equally many, each client's in the order of its own stream."""
    rows = np.stack(owned).astype(np.int32)
    if len(owned) < FEW:
        orders = [rng.stream(seed, rng.SPLIT, client=int(client)).permutation(rows.shape[1]) for client in clients]
        return np.take_along_axis(rows, np.stack(orders), axis=1)
    words = rng.words_of_clients(seed, rng.SPLIT, clients, rows.shape[1])
    return np.take_along_axis(rows, np.argsort(words, axis=1, kind="stable"), axis=1)
