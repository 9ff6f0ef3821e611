"""The throughputs that clients have reported, and the round from which each report holds, for a server and
its replay.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from edgefl.methods.throughput import Throughput


class ThroughputHistory:
    """The throughputs that clients have declared. `known` has them by client and the round from which each holds."""

    def __init__(self, known: Mapping[tuple[int, int], Throughput]) -> None:
        self._declared: dict[int, list[tuple[int, Throughput]]] = {}
        for (client, since), throughput in sorted(known.items()):
            self.add(client, since, throughput)

    def add(self, client: int, since: int, throughput: Throughput) -> None:
        """Add a throughput that holds from round `since` on. No earlier declaration of the client holds from that
        round.
        """
        self._declared.setdefault(client, []).append((since, throughput))

    def last(self, client: int) -> tuple[int, Throughput] | None:
        """Return the round from which the client's last declaration holds, and the declared throughput."""
        return self._declared[client][-1] if client in self._declared else None

    def of(self, client: int, round: int) -> Throughput | None:
        """Return the throughput that holds in a round, or None if nothing was declared by then."""
        declared = self._declared.get(client, [])
        at = bisect_right(declared, round, key=lambda pair: pair[0])
        return declared[at - 1][1] if at else None

    def __iter__(self) -> Iterator[int]:
        """Iterate over the clients that have declared a throughput."""
        return iter(self._declared)

    def at(self, round: int) -> Mapping[int, Throughput]:
        """Return the throughputs that hold in a round, by client. The mapping includes declarations that are added
        later.
        """
        return _ThroughputAtRound(self, round)


class _ThroughputAtRound(Mapping[int, Throughput]):
    def __init__(self, throughputs: ThroughputHistory, round: int) -> None:
        self._throughputs, self._round = throughputs, round

    def __getitem__(self, client: int) -> Throughput:
        found = self._throughputs.of(client, self._round)
        if found is None:
            raise KeyError(client)
        return found

    def __iter__(self) -> Iterator[int]:
        return (client for client in self._throughputs if self._throughputs.of(client, self._round) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
