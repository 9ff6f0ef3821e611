"""Whether a device that joins holds what this run's log says that it holds, and in words what happened if not. It knows
no connections and no files.

What a client's device holds is named by the round it is of: that of its last reply that was accepted or came late, or
after a loss that was accepted the round that it went on from; 0 is nothing. A device that has not heard the verdict on
such a reply holds it all the same, as it gets that verdict first. A copy that holds the same is known by its life
(device/identity.py).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping

from edgefl.methods.rounds.participation import TRAINED
from edgefl.server.events import Claim, ClientStateLost

HasTrained = Callable[[int, int], bool]


class DeviceStateTracker:
    """The states that the clients' devices hold, by the log.

    lives      by client, the last life that was heard of
    accepting  clients whose next loss is accepted, once
    behind     clients that have lost what they kept, or some of it, and have not trained since
    """

    def __init__(
        self,
        has_trained: HasTrained,
        last: Mapping[int, int],
        losses: Mapping[tuple[int, int], int],
        lives: Mapping[int, bytes],
        accepting: Iterable[int] = (),
        keeps: bool = True,
    ) -> None:
        """`has_trained`: of (round, client), whether the client keeps what it trained, durably or not; `last`: the last
        such round of each client; `losses`: see Progress; `keeps`: the method's clients keep something, so that it can
        be lost.
        """
        self._has_trained, self._last, self._losses = has_trained, dict(last), dict(losses)
        self.lives, self.accepting, self._keeps = dict(lives), set(accepting), keeps
        self.behind = {client for client, after in losses if after == self._last.get(client, 0)}

    def judged(self, client: int, round: int, outcome: str) -> None:
        """A reply of the client has been judged, durably or not."""
        if outcome in TRAINED:
            self._last[client] = max(round, self._last.get(client, 0))
            self.behind.discard(client)

    def due(self, client: int) -> int:
        """The round whose state the client's device should hold."""
        last = self._last.get(client, 0)
        return self._losses.get((client, last), last)

    def found(self, client: int, claim: Claim) -> int:
        """The round whose state it holds."""
        return claim.pending if self._has_trained(claim.pending, client) else claim.round

    def problem(self, client: int, claim: Claim) -> str | None:
        """A sentence for the device's user about its state; None if the device may take part, with or
        without a loss.
        """
        found = self.found(client, claim)
        if found and not self._has_trained(found, client):
            return (
                f"the device of client {client} holds {_state(found)}, of which this run's log does not know: the run's"
                " directory is an older copy; restore the newer one, or begin with an empty directory of the device,"
                f" accepted by {_accepting(client)}"
            )
        if client in self.accepting or not self._keeps:
            return None
        return self._loss(client, claim) or self._copy(client, claim)

    def has_changed(self, client: int, claim: Claim) -> bool:
        """Whether it holds something else than it should."""
        return self.found(client, claim) != self.due(client)

    def lost(self, client: int, claim: Claim) -> ClientStateLost | None:
        """Accepts the device as it is; the loss to record, if there is one. The log knows of it from now on."""
        self.accepting.discard(client)
        if not self._keeps or not self.has_changed(client, claim):
            return None
        loss = ClientStateLost(client, self._last.get(client, 0), self.found(client, claim))
        self._losses[client, loss.after] = loss.kept
        self.behind.add(client)
        return loss

    def _loss(self, client: int, claim: Claim) -> str | None:
        if not self.has_changed(client, claim):
            return None
        found = self.found(client, claim)
        directory = "is an older copy, or others have gone on with a copy of it"
        if not found:
            directory = "was deleted, or is another one" if claim.is_new else "has lost local.safetensors, or is older"
        return (
            f"the device of client {client} holds {_state(found)}; by this run's log it holds"
            f" {_state(self.due(client))}: its state directory {directory}; start it with the newest one, or accept the"
            f" loss by {_accepting(client)}"
        )

    def _copy(self, client: int, claim: Claim) -> str | None:
        known = self.lives.get(client, b"")
        if not known or known in (claim.life, claim.before) or (claim.is_new and not claim.before):
            return None
        return (
            f"client {client} has taken part since this state directory was written: it is an older copy, or a copy is"
            " in use elsewhere, and a directory may be used in one place only; start it with the newest one, or accept"
            f" this one by {_accepting(client)}"
        )


def check_secret(client: int, known: bytes, given: bytes, accepting: Iterable[int]) -> str | None:
    """A sentence about a wrong secret of a device that enrols as a client that has enrolled; None if the secret is
    right.
    """
    if not known or hmac.compare_digest(known, given) or client in accepting:
        return None
    return (
        f"client {client} has enrolled before, with another secret: this is another device, or its state directory was"
        f" deleted; start it with the directory that it had, or accept this one by {_accepting(client)}"
    )


def _state(round: int) -> str:
    return f"what it kept after round {round}" if round else "nothing"


def _accepting(client: int) -> str:
    return f"serve --resume RUN --accept-loss {client}"
