"""A set of clients in ascending order, of which few are left out of many, without a step for every client.

A server with very many registered clients plans a round with it: the time for a set follows the number of clients that
are left out.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Set

import numpy as np
import numpy.typing as npt


class ClientSet(Set[int]):
    """The clients of `known`, except for the clients of `out`. Client number i of the set is `clients[i]`."""

    def __init__(self, known: range | array[int], out: Iterable[int] = ()) -> None:
        """Make the set. A client of `out` that is not in `known` has no effect.

        known  ids in ascending order, each once: a range of step 1, or an array of type "q" that nobody changes later
        """
        self._known = known
        places = ((client, bisect_left(known, client)) for client in sorted(set(out)))
        self._out = [at for client, at in places if at < len(known) and known[at] == client]
        self._before = [at - left_out for left_out, at in enumerate(self._out)]  # clients of the set below each

    @staticmethod
    def of(clients: Iterable[int]) -> ClientSet:
        """Return the set of these clients, which may come in any order."""
        return ClientSet(array("q", sorted(set(clients))))

    def without(self, out: Iterable[int]) -> ClientSet:
        """Return the clients of this set that are not in `out`."""
        return ClientSet(self._known, {*out, *(self._known[at] for at in self._out)})

    def __len__(self) -> int:
        return len(self._known) - len(self._out)

    def __getitem__(self, number: int) -> int:
        if not 0 <= number < len(self):
            raise IndexError(f"client number {number} of {len(self)}; expected 0 <= number < {len(self)}")
        return self._known[number + bisect_right(self._before, number)]

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids().tolist())

    def __contains__(self, client: object) -> bool:
        if not isinstance(client, int):
            return False
        at = bisect_left(self._known, client)
        return at < len(self._known) and self._known[at] == client and not _holds(self._out, at)

    def ids(self) -> npt.NDArray[np.int64]:
        """Return the ids of all clients of the set, ascending."""
        known = self._known
        every = np.arange(known.start, known.stop) if isinstance(known, range) else np.frombuffer(known, np.int64)
        return np.delete(every, self._out)

    @classmethod
    def _from_iterable(cls, clients: Iterable[int]) -> ClientSet:  # type: ignore[override]
        return cls.of(clients)


def _holds(places: list[int], place: int) -> bool:
    at = bisect_left(places, place)
    return at < len(places) and places[at] == place
