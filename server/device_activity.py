"""The present activity of every device of a served run, in one of a few words. The function has no I/O and no clock.

The words tell what the server knows: a device that was asked to train counts as training until its reply is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from edgefl.server.client_links import ClientConnection, Clients
from edgefl.server.round_sequence import RoundSequence

TRAINING, REPLIED = "training", "replied"
EVALUATING, EVALUATED = "evaluating", "evaluated"
IDLE, AWAY, REFUSED, MISSING = "idle", "away", "refused", "not enrolled"
AWAITED = "awaited, away"  # a device that is planned, or has to evaluate, and is not connected
PREPARING = "preparing"  # a planned and connected device that still owes its throughput or an earlier reply
WAITED_FOR = (TRAINING, EVALUATING, AWAITED, PREPARING)


def activities(clients: Clients, rounds: RoundSequence, more: Iterable[int] = ()) -> dict[int, str]:
    """Return the activity by client, for `more` and for clients that are connected, are planned or have refused.

    The other clients are left out, as a run may have very many of them. See `activity_of_others`.
    """
    planned: AbstractSet[int] = frozenset() if rounds.open is None else frozenset(rounds.open.clients)
    there = {link.client: link for link in clients.admitted()}
    shown = there.keys() | planned | rounds.refusing | set(more)
    return {client: _activity(client, there.get(client), client in planned, rounds) for client in sorted(shown)}


def activity_of_others(rounds: RoundSequence) -> str:
    """Return the activity of an enrolled client that is not connected, is not planned and has not refused."""
    return AWAY if rounds.evaluation is None else AWAITED


def _activity(client: int, link: ClientConnection | None, is_planned: bool, rounds: RoundSequence) -> str:
    if client in rounds.refusing:
        return REFUSED
    if rounds.open is not None and is_planned:
        if client in rounds.open.answers:
            return REPLIED
        if link is None:
            return AWAITED
        return TRAINING if link.asked == rounds.open.round_of(client) else PREPARING
    if rounds.evaluation is not None:
        if client in rounds.evaluation.answers:
            return EVALUATED
        return AWAITED if link is None else EVALUATING
    return AWAY if link is None else IDLE
