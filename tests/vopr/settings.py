"""An operator may change rules of rounds, keys and accepted losses between two lives of the server."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from edgefl.server.round_deadline import AdaptiveDeadline
from edgefl.server.round_rules import Rules

KEPT_ROUNDS = (2, 1000)  # rounds of which the log keeps all metrics
REVOKED_S = 120.0  # deadline once a client is gone for good, so that no round waits for it


@dataclass
class Settings:
    """The present settings. A life of the server has those of its beginning.

    keys       valid keys of every client, or None in a run without keys
    accepting  clients whose next loss is accepted
    revoked    by client, the keys that were withdrawn
    """

    rules: Rules
    keys: dict[int, tuple[bytes, ...]] | None
    keep_rounds: int = KEPT_ROUNDS[-1]
    accepting: set[int] = field(default_factory=set)
    revoked: dict[int, tuple[bytes, ...]] = field(default_factory=dict)

    def change(self, stream: random.Random, devices: int, per_round: int) -> None:
        """Draw other rules and another number of kept rounds."""
        self.rules = drawn_rules(self.rules, stream, devices, per_round)
        self.keep_rounds = stream.choice(KEPT_ROUNDS)
        if self.rules.asynchronous is not None:
            self.keep_rounds = max(self.keep_rounds, self.rules.asynchronous.max_staleness + 1)
        if self.revoked:
            self._wait_for_nobody()

    def revoke(self, client: int) -> None:
        """Withdraw a client's key."""
        assert self.keys is not None
        self.revoked[client] = self.keys.pop(client)
        self.accepting.discard(client)
        self._wait_for_nobody()

    def _wait_for_nobody(self) -> None:
        """Let no round and no evaluation wait for a client that does not come back."""
        limits = {"deadline_s": self.rules.deadline_s or REVOKED_S, "evaluation_deadline_s": REVOKED_S, "wait_for": 1}
        self.rules = replace(self.rules, **limits)


def drawn_rules(rules: Rules, stream: random.Random, devices: int, per_round: int) -> Rules:
    """Return the rules with others that an operator chooses. Asynchronous rounds have no quorum."""
    chosen: dict[str, Any] = {
        "quorum": stream.choice((None, None, max(1, per_round - 1))),
        "deadline_s": stream.choice((None, 120.0, AdaptiveDeadline(300.0, 30.0))),
        "evaluation_deadline_s": stream.choice((None, 120.0)),
        "wait_for": stream.choice((1, devices)),
        "seen_s": stream.choice((None, None, 300.0)),
    }
    return replace(rules, **chosen) if rules.asynchronous is None else replace(rules, **{**chosen, "quorum": None})
