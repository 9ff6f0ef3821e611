"""The network of the simulator: a socket tells an error as the system's sockets do."""

from __future__ import annotations

import pytest

from tests.vopr.network import Network, ServerWire
from tests.vopr.schedule import Schedule


class Living:
    """A process that lives."""

    is_alive, halted_until, failed_sync = True, 0.0, ""


class Idle:
    """A fiber that nothing wakes."""

    def wake(self) -> None: ...


def test_a_lost_connection_is_told_once_and_is_at_its_end_then() -> None:
    """An agent takes a TimeoutError for the end of its own wait and asks for bytes again, without end if it repeats."""
    link = ServerWire(Network(Schedule(0)), 0, Living(), Living()).device_end  # type: ignore[arg-type]
    link.fiber = Idle()  # type: ignore[assignment]
    link.arrived(TimeoutError("the connection was lost"))
    with pytest.raises(TimeoutError, match="the connection was lost"):
        link.recv(1)
    assert link.recv(1) == b""
    with pytest.raises(BrokenPipeError):
        link.sendall(b"x")
