"""The report of what the server knows of its devices, for observers. It writes the state once a second.

The report is a part of the event loop, without `await`. It reads the coordinator and the connections, and changes
nothing.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

from edgefl.server.coordinator import Coordinator
from edgefl.server.live_file import BEAT_S, EVERY_S, as_gone, write_live
from edgefl.server.live_state import LiveDevice, LiveState
from edgefl.server.peer import Peer

LATELY = 1000  # number of clients that left last, which are shown beside the connected ones


class LiveReport:
    """The states of one server. Use it inside the event loop.

    peers  open connections by number, which the owner changes
    """

    def __init__(self, run: Path, coordinator: Coordinator, peers: Mapping[int, Peer]) -> None:
        self._run, self._coordinator, self._peers = run, coordinator, peers
        # by client, time and address of the last bytes over connections that are gone. Who left first comes first
        self._left: OrderedDict[int, tuple[float, str]] = OrderedDict()
        self._has_changed, self._told_at = True, float("-inf")
        self._writing: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Report from now on, until `end`."""
        self._loop = asyncio.get_running_loop()
        self._tell()

    def changed(self) -> None:
        """Note that something has happened that the next state may show."""
        self._has_changed = True

    def left(self, peer: Peer) -> None:
        """Note that the connection of a client is gone."""
        if peer.client is not None:
            self._left[peer.client] = peer.heard_at, peer.address
            self._left.move_to_end(peer.client)
            if len(self._left) > LATELY:
                self._left.popitem(last=False)
            self._has_changed = True

    def end(self) -> None:
        """Leave a last state, of a server that has ended by itself."""
        if self._timer is not None:
            self._timer.cancel()
        write_live(self._run, as_gone(self.state()))

    def _tell(self) -> None:
        now = self._loop.time()
        is_due = now - self._told_at >= (EVERY_S if self._has_changed else BEAT_S) - 1e-3
        if is_due and (self._writing is None or self._writing.done()):
            self._has_changed, self._told_at = False, now
            self._writing = self._loop.run_in_executor(None, write_live, self._run, self.state())
        self._timer = self._loop.call_later(EVERY_S, self._tell)

    def state(self) -> LiveState:
        """Return the present state."""
        now, wall = self._loop.time(), time.time()
        there = {peer.client: peer for peer in self._peers.values() if peer.client is not None}
        devices = {
            client: self._device(client, there.get(client), doing, wall - now)
            for client, doing in self._coordinator.activities(self._left).items()
        }
        opened_at, left_s = self._coordinator.opened_at, self._coordinator.left_s(now)
        return LiveState(
            wall,
            os.getpid(),
            self._coordinator.phase,
            self._coordinator.round + (self._coordinator.phase == "training"),
            None if opened_at is None else opened_at + wall - now,
            None if left_s is None else wall + left_s,
            self._coordinator.awaited(now) or "",
            devices,
            self._coordinator.activity_of_others,
        )

    def _device(self, client: int, peer: Peer | None, doing: str, to_wall_s: float) -> LiveDevice:
        """Return the state of a device. `to_wall_s` is the difference from the loop's time to seconds since 1970."""
        heard_at, address = self._left.get(client, (None, "")) if peer is None else (peer.heard_at, peer.address)
        heard = None if heard_at is None else round(heard_at + to_wall_s, 3)
        return LiveDevice(peer is not None, heard, doing, address)
