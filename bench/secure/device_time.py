"""CPU time and bytes of one device in a round of secure aggregation, from its first step to its last one.

A whole round is played once. Then one device takes all its steps again and again from the same random bytes, so that
the recorded messages of the others fit. The bytes of its state are made after every step, as a device saves them.
`python -m bench.secure.device_time` prints the times as JSON, beside those of Flower's functions (flower_time.py) where
Flower is installed. Its environment needs numpy, msgspec and cryptography alone.
"""

from __future__ import annotations

import importlib.util
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.secure.played_round import NEVER, Federation, PlayedRound, view_of
from edgefl.protocol.secure.group_member import GroupMember
from edgefl.protocol.secure.group_sum_state import Phase
from edgefl.protocol.secure.group_terms import group_terms

VALUES = 100_000
LOST = 0.3
DEVICE = 0
TURN = {"edgefl": 8, "flower": 1}  # times of a side before the other one's turn


@dataclass(frozen=True)
class DeviceRound:
    """The messages to one device of a round, and how many bytes it sends."""

    played: PlayedRound
    keys: bytes
    shares: bytes
    answered: bytes
    consents: bytes
    sent: int

    @classmethod
    def of(cls, clients: int, colluders: int, is_late: bool) -> DeviceRound:
        """Play a round in which 30 % of the clients are lost.

        is_late  True loses them after their vectors, which costs a device most. False loses as many at each step
        """
        members, losses = list(range(clients)), int(LOST * clients)
        federation = Federation.of(members, 1)
        terms = group_terms(federation.roster, "run", 1, "draw", members, VALUES, 32, losses, colluders)
        vector = np.random.default_rng(1).integers(0, 2**32, VALUES, np.uint32)
        lost = {client: 3 if is_late else client % NEVER for client in members[-losses:]}
        played = PlayedRound(terms, federation, dict.fromkeys(members, vector), lost, seed=1)
        keys = played.until(Phase.SHARES).group.key_list()
        shares = played.until(Phase.VECTORS).group.shares_for(DEVICE)
        answered = played.until(Phase.CONSENTS).group.answered()
        consents = played.until(Phase.OPENINGS).group.consents_for(DEVICE)
        assert np.array_equal(played.until(Phase.CLOSED).group.opened(), played.expected())
        state = played.group.state
        parts = state.keys[DEVICE], state.openings[DEVICE]
        sent = sum(len(each.to_bytes()) for each in parts) + len(state.consents[DEVICE])
        sent += len(GroupMember.share(cls._begun(played), keys))
        return cls(played, keys, shares, answered, consents, sent)

    @staticmethod
    def _begun(played: PlayedRound) -> GroupMember:
        """Begin with the device's random bytes of the played round. It is the first of all clients that draws."""
        roster, identity = played.federation.roster, played.federation.identities[DEVICE]
        draw = random.Random(f"round {played.seed}").randbytes
        return GroupMember.begin(played.terms.to_bytes(), view_of(played.terms, DEVICE), identity, roster, draw)

    def take_part(self, vector: np.ndarray[Any, Any]) -> None:
        """Take all steps of the device, and mask the vector."""
        member = self._begun(self.played)
        for step in (
            member.round_keys,
            lambda: member.share(self.keys),
            lambda: member.receive(self.shares),
            lambda: member.mask(vector),
            lambda: member.consent(self.answered),
            lambda: member.open(self.consents),
        ):
            step()
            member.to_bytes()

    def bytes_times(self) -> float:
        """Return all bytes that the device sends and receives, as a multiple of its vector's bytes."""
        received = (self.played.terms.to_bytes(), self.keys, self.shares, self.answered, self.consents)
        unmasked = VALUES * 4
        return (unmasked + self.sent + sum(map(len, received))) / unmasked

    def counts(self) -> dict[str, int]:
        """Return how many clients took each step."""
        state = self.played.group.state
        taken = (state.keys, state.shares, state.vectors, state.consents, state.openings)
        return {phase.name.lower(): len(each) for phase, each in zip(Phase, taken)}


def rows(repeats: int) -> list[dict[str, Any]]:
    """Return a row for each size of group, with ours and Flower's times in turns."""
    cases = [(50, 0), (50, 10), (99, 0), (99, 19)]
    return [_row(*case, is_late, repeats) for case in cases for is_late in (False, True)]


def _row(clients: int, colluders: int, is_late: bool, repeats: int) -> dict[str, Any]:
    device = DeviceRound.of(clients, colluders, is_late)
    vector, terms = device.played.vectors[DEVICE], device.played.terms
    sides: dict[str, Callable[[], Any]] = {"edgefl": lambda: device.take_part(vector.copy())}
    if importlib.util.find_spec("flwr") is not None:
        flower = importlib.import_module("bench.secure.flower_time").FlowerDevice(device.played)
        sides["flower"] = lambda: flower.take_part(vector)
    row = {"clients": clients, "colluders": colluders, "threshold": terms.threshold, **device.counts()}
    row |= {"lost": "late" if is_late else "at every step", "bytes": round(device.bytes_times(), 3)}
    return {**row, **_times(sides, repeats)}


def _times(sides: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the least and the median CPU time of each side in milliseconds."""
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, act in sides.items():
            for _ in range(TURN[name]):
                start = time.process_time()
                act()
                spent[name].append(1000 * (time.process_time() - start))
    found = {f"{name}_least_ms": round(min(each), 2) for name, each in spent.items()}
    return found | {f"{name}_median_ms": round(statistics.median(each), 2) for name, each in spent.items()}


if __name__ == "__main__":
    print(json.dumps(rows(int(sys.argv[1]))))
