"""The files and sockets that this process may have open, shared out: the store first, then devices, then strangers."""

from __future__ import annotations

from typing import NamedTuple

RESERVE = 64  # open files of database and log, arrays, the lock, the event loop and Python itself
FEWEST_STRANGERS = 16  # with fewer, no device would get in
OF_STRANGERS = 16  # one of so many connections is for strangers, as not all clients of a large run are there at once


class Share(NamedTuple):
    """The share of connections among the open files.

    connections  largest number of connections
    strangers    largest number of connections that have not enrolled
    problem      a sentence about missing files, or None
    """

    connections: int
    strangers: int
    problem: str | None


def provide(clients: int, strangers: int) -> Share:
    """Raise the soft limit of open files for so many devices and strangers, as far as the hard limit allows.

    The result is the share under the new limit.
    """
    import resource  # POSIX only

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = RESERVE + clients + strangers
    if soft != unlimited and soft < wanted:
        soft = wanted if hard == unlimited else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return share(wanted if soft == unlimited else soft, clients, strangers)


def share(limit: int, clients: int, strangers: int) -> Share:
    """Share out `limit` open files."""
    wanted = RESERVE + clients + strangers
    if limit >= wanted:
        return Share(limit - RESERVE, strangers, None)
    connections = max(limit - RESERVE, FEWEST_STRANGERS + 1)
    least = max(FEWEST_STRANGERS, min(strangers, connections // OF_STRANGERS))
    left = max(connections - clients, least)
    room = "" if left + clients <= connections else f"; at most {connections - left} of them can be connected at a time"
    return Share(
        connections,
        left,
        f"this process may open {limit} files (ulimit -Hn), so it takes {left} connections at a time from devices that "
        f"have not enrolled yet, beside {clients} clients{room}; expected {wanted} files",
    )
