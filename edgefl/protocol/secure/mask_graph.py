"""The neighbours of each client of a group. Two neighbours share a mask, and hold shares of each other's secrets.

A sparse graph is a ring in a random order, in which every client is a neighbour of the nearest clients on both sides.
The order follows from a digest of all signed round keys, so that the graph is fixed by what the clients sent.
Section 3 of Bell et al. 2020 has this graph as a Harary graph with random labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable


class MaskGraph:
    """The graph over those clients who sent round keys. It is complete where the degree allows it."""

    def __init__(self, clients: Collection[int], degree: int, digest: bytes) -> None:
        """Draw the graph.

        degree  number of neighbours of each client. It is even where it is below the number of other clients
        digest  SHA-256 of all signed round keys
        """
        is_sparse = degree < len(clients) - 1
        self._order = sorted(clients, key=_drawn_by(digest) if is_sparse else None)
        self._place = {client: place for place, client in enumerate(self._order)}
        self._reach = degree // 2 if is_sparse else len(self._order)

    def neighbours(self, client: int) -> list[int]:
        """Return the neighbours of a client by ascending ids."""
        count, place = len(self._order), self._place[client]
        if self._reach == count:
            return [other for other in self._order if other != client]
        steps = range(1, self._reach + 1)
        return sorted(self._order[(place + sign * step) % count] for step in steps for sign in (1, -1))

    def is_connected(self, clients: Iterable[int]) -> bool:
        """Return whether masks connect these clients to one group. Otherwise their masks would open several sums.

        Two clients that follow one another among these clients on the ring are neighbours, unless as many clients as
        half the degree are missing between them. One such gap leaves a chain. Two gaps leave two parts.
        """
        count = len(self._order)
        if self._reach == count:
            return True
        places = sorted(self._place[client] for client in clients)
        following = [*places[1:], places[0] + count] if places else []
        return sum(after - before > self._reach for before, after in zip(places, following)) < 2


def _drawn_by(digest: bytes) -> Callable[[int], bytes]:
    """Return the function by whose values clients are ordered at random, as the digest says."""
    return lambda client: hashlib.sha256(digest + client.to_bytes(8, "little")).digest()
