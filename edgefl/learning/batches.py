"""Batches that are made when a step asks for them, so that a million epochs take no more memory than one epoch.

This module holds values only. A plain list of index arrays is a sequence of batches, too. `occurring` returns what a
learner checks beforehand, for either kind of sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int32]


class Keyed(NamedTuple):
    """The beginning of a fit's dropout stream: a 64-bit key, and the number of the first step."""

    key: int
    step: int = 0


class LazyBatches(Sequence[Index]):
    """Batches whose rows and sizes are known before any of them is made."""

    rows: Index

    @property
    def sizes(self) -> set[int]:
        """The lengths of the batches that occur, in rows."""
        raise NotImplementedError

    def _batch(self, which: int) -> Index:
        raise NotImplementedError

    def runs(self, steps: int) -> Iterator[Index]:
        """Yield the batches in order as int32 [count, size], at most `steps` of one size at a time. A run is made when
        the previous one is used up.
        """
        rest = iter(self)
        while piece := list(islice(rest, steps)):
            yield from of_one_size(piece)

    @overload
    def __getitem__(self, which: int) -> Index: ...
    @overload
    def __getitem__(self, which: slice) -> list[Index]: ...
    def __getitem__(self, which: Any) -> Any:
        positions = range(len(self))[which]
        return (
            [self._batch(position) for position in positions]
            if isinstance(positions, range)
            else self._batch(positions)
        )


@dataclass(frozen=True, eq=False)
class Minibatches(LazyBatches):
    """Passes over the same rows, each pass in an order of its own. The last, smaller batch of a pass is kept.

    rows     int32 [N], the rows of the samples that every pass goes over
    order    function of the number of a pass, counted from 0: int64 [N], a permutation of range(N)
    epochs   number of passes
    batch    rows in a batch
    dropout  beginning of the dropout stream, or the function that draws it, which is called for models with dropout.
             None: for models without dropout
    joins    whether a last batch of one row joins the batch before it
    """

    rows: Index
    order: Callable[[int], NDArray[np.int64]]
    epochs: int
    batch: int
    dropout: Keyed | Callable[[], Keyed | None] | None = None
    joins: bool = False

    @property
    def sizes(self) -> set[int]:
        whole, rest = divmod(len(self.rows), self.batch)
        if self._has_joined:
            whole, rest = whole - 1, self.batch + 1
        return {size for size in (self.batch if whole else 0, rest) if size and self.epochs}

    def __len__(self) -> int:
        return self.epochs * self._steps

    def __iter__(self) -> Iterator[Index]:
        for epoch in range(self.epochs):
            for block in self._pass(epoch):
                yield from block

    @property
    def _steps(self) -> int:
        """The number of batches in one pass."""
        return -(-len(self.rows) // self.batch) - self._has_joined

    @property
    def _has_joined(self) -> bool:
        """Return whether the last batch of a pass would be one row, and has joined the batch before it."""
        return self.joins and 1 < self.batch < len(self.rows) and len(self.rows) % self.batch == 1

    def runs(self, steps: int) -> Iterator[Index]:
        for epoch in range(self.epochs):
            for block in self._pass(epoch):
                for start in range(0, len(block), steps):
                    yield block[start : start + steps]

    def _pass(self, epoch: int) -> list[Index]:
        """Return the batches of one pass as int32 [count, size]: the whole ones, and the last one if it differs."""
        rows = self.rows[self.order(epoch)]
        whole = len(rows) // self.batch - self._has_joined
        end = whole * self.batch
        blocks = rows[:end].reshape(whole, self.batch), rows[end:].reshape(1, -1)
        return [block for block in blocks if block.size]

    def _batch(self, which: int) -> Index:
        epoch, step = divmod(which, self._steps)
        batches = [batch for block in self._pass(epoch) for batch in block]
        return batches[step]


@dataclass(frozen=True, eq=False)
class RepeatedBatch(LazyBatches):
    """A sequence that repeats one batch `times` times, for steps over all of the data."""

    rows: Index
    times: int

    @property
    def sizes(self) -> set[int]:
        return {len(self.rows)} if self.times else set()

    def __len__(self) -> int:
        return self.times

    def _batch(self, which: int) -> Index:
        return self.rows


class Listed(list[Index]):
    """A list of batches together with the beginning of the dropout stream over them."""

    def __init__(self, batches: Iterable[Index], dropout: Keyed) -> None:
        super().__init__(batches)
        self.dropout = dropout


def joined(batches: Sequence[Index]) -> Sequence[Index]:
    """Join every batch of one row with the batch before it, if the batch before it has more than one row.

    The result is `batches` itself where no batch has one row.
    """
    if isinstance(batches, Minibatches):
        return replace(batches, joins=True)
    if isinstance(batches, LazyBatches) or 1 not in set(map(len, batches)):
        return batches
    found: list[Index] = []
    for batch in batches:
        if len(batch) == 1 and found and len(found[-1]) > 1:
            found[-1] = np.concatenate([found[-1], batch])
        else:
            found.append(batch)
    dropout = keyed(batches)
    return found if dropout is None else Listed(found, dropout)


def keyed(batches: Sequence[Index]) -> Keyed | None:
    """Return the beginning of the dropout stream over these batches, or None if the batches do not carry it."""
    found: Keyed | Callable[[], Keyed | None] | None = getattr(batches, "dropout", None)
    return found() if callable(found) else found


def occurring(batches: Sequence[Index]) -> tuple[list[Index], set[int]]:
    """Return arrays that hold every row of the batches, and the set of the batches' lengths."""
    if isinstance(batches, LazyBatches):
        return [batches.rows], batches.sizes
    distinct = list({id(batch): batch for batch in batches}.values())  # one array may be there many times
    return distinct, set(map(len, distinct))


def runs(batches: Sequence[Index], steps: int) -> Iterator[Index]:
    """Yield the batches in order as int32 [count, size], at most `steps` of one size at a time."""
    if isinstance(batches, LazyBatches):
        yield from batches.runs(steps)
        return
    for start in range(0, len(batches), steps):
        yield from of_one_size(batches[start : start + steps])


def of_one_size(batches: Sequence[Index]) -> Iterator[Index]:
    """Yield batches that follow each other and are equally long, together."""
    for _, run in groupby(batches, key=len):
        yield np.stack(list(run))
