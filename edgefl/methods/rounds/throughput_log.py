"""The throughputs that clients have reported, and the round from which each report holds, for a server and for its
replay.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from edgefl.methods.throughput import Throughput


class ThroughputHistory:
    """All throughputs that clients have declared. `known`: by client and the round from which it holds."""

    def __init__(self, known: Mapping[tuple[int, int], Throughput]) -> None:
        self._declared: dict[int, list[tuple[int, Throughput]]] = {}
        for (client, since), throughput in sorted(known.items()):
            self.add(client, since, throughput)

    def add(self, client: int, since: int, throughput: Throughput) -> None:
        """From this round on, which is none that an earlier declaration of the client holds from."""
        self._declared.setdefault(client, []).append((since, throughput))

    def last(self, client: int) -> tuple[int, Throughput] | None:
        """The client's last declaration, and the round from which it holds."""
        return self._declared[client][-1] if client in self._declared else None

    def of(self, client: int, round: int) -> Throughput | None:
        """The throughput that holds in a round; None: nothing was declared by then."""
        declared = self._declared.get(client, [])
        at = bisect_right(declared, round, key=lambda pair: pair[0])
        return declared[at - 1][1] if at else None

    def __iter__(self) -> Iterator[int]:
        """The clients that have declared anything."""
        return iter(self._declared)

    def at(self, round: int) -> Mapping[int, Throughput]:
        """The throughputs that hold in a round, by client; declarations that are added later count as well."""
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
