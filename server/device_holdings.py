"""The check whether a joining device holds what this run's log says, and what happened if not, in words.

The state of a client's device is named by its round. It is the round of the last reply that was accepted or came late.
After a loss that was accepted, it is the round from which the client went on. 0 means no state. A device that has not
heard the verdict on such a reply holds the state already, because it gets that verdict first. A copy in the same state
is known by its life (device/identity.py). The module knows no connections and no files.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping

from edgefl.methods.rounds.participation import TRAINED
from edgefl.server.events import Claim, ClientStateLost

HasTrained = Callable[[int, int], bool]


class DeviceStateTracker:
    """The states that the clients' devices hold, by the log.

    lives      last known life by client
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
        """Begin with the log. `has_trained`, of (round, client), tells whether the client keeps what it trained,
        durably or not. `last` is the last such round of each client, and `losses` is as in Progress. `keeps` tells
        whether the method's clients keep a state that can be lost.
        """
        self._has_trained, self._last, self._losses = has_trained, dict(last), dict(losses)
        self.lives, self.accepting, self._keeps = dict(lives), set(accepting), keeps
        self.behind = {client for client, after in losses if after == self._last.get(client, 0)}

    def judged(self, client: int, round: int, outcome: str) -> None:
        """Note that a reply of the client has been judged, durably or not."""
        if outcome in TRAINED:
            self._last[client] = max(round, self._last.get(client, 0))
            if (client, self._last[client]) not in self._losses:  # a loss after this round may be known already
                self.behind.discard(client)

    def due(self, client: int) -> int:
        """Return the round whose state the client's device should hold."""
        last = self._last.get(client, 0)
        return self._losses.get((client, last), last)

    def found(self, client: int, claim: Claim) -> int:
        """Return the round whose state the device holds."""
        return claim.pending if self._has_trained(claim.pending, client) else claim.round

    def problem(self, client: int, claim: Claim) -> str | None:
        """Return a sentence for the device's user about its state, or None if the device may take part as it is."""
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
        """Return whether the device holds another state than it should."""
        return self.found(client, claim) != self.due(client)

    def lost(self, client: int, claim: Claim) -> ClientStateLost | None:
        """Accept the device as it is. Return the loss to record, which the log knows from now on, or None."""
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
    """Return a sentence about the wrong secret of a device that enrols as an enrolled client, or None if it fits."""
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
