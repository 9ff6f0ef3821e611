"""The clients that a server waits for, in one line for people. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Collection, Set

MOST_NAMED = 8


def enrolments(enrolled: Set[int], wanted: int, clients: int) -> str:
    """Return the line for the time before round 1 may begin."""
    line = f"waiting for enrolments: {len(enrolled)} of {wanted}"
    if wanted == clients:
        missing = [client for client in range(clients) if client not in enrolled]
        return f"{line}; not enrolled yet: {named(missing)}"
    return f"{line}, of {clients} clients"


def replies(what: str, planned: Collection[int], answered: Set[int], connected: Set[int], left_s: float | None) -> str:
    """Return the line for an open round or evaluation. `left_s` is in seconds until its deadline, or None."""
    missing = [client for client in planned if client not in answered]
    away = [client for client in missing if client not in connected]
    parts = [f"{what} waits for {len(missing)} of {len(planned)} clients: {named(missing)}"]
    if away:
        parts.append("not connected: " + ("all of them" if away == missing else named(away)))
    parts.append("it has no deadline" if left_s is None else f"closes in {left_s:.0f} s")
    return "; ".join(parts)


def missing(round: int, clients: list[int]) -> str:
    """Return the line for a round that is closed without the replies of these clients."""
    whose = f"the replies of clients {named(clients)}" if len(clients) > 1 else f"the reply of client {clients[0]}"
    return f"round {round} is closed without {whose}"


def candidates(round: int, seen_s: float) -> str:
    """Return the line for the time in which nobody is there who could be chosen."""
    return f"round {round} waits for clients: no client that it may choose was seen in the last {seen_s:g} s"


def condition(round: int, text: str) -> str:
    """Return the line for the time in which no client fulfils the condition on which clients are chosen."""
    return f"round {round} waits for clients: no enrolled client fulfils {text}"


def paused(round: int) -> str:
    """Return the line for the time in which the operator lets no round open."""
    return f"round {round} waits for the operator: the run is paused, until `edgefl control RUN resume`"


def refusals(round: int, refusing: Set[int]) -> str:
    """Return the line for the time in which every device has refused or left."""
    return (
        f"round {round} waits for a device that takes part; clients that refuse or have left: {named(sorted(refusing))}"
    )


def named(clients: list[int]) -> str:
    """Return the first few clients as text, and the number of the others."""
    more = len(clients) - MOST_NAMED
    listed = ", ".join(map(str, clients[:MOST_NAMED]))
    return f"{listed} and {more} more" if more > 0 else listed
