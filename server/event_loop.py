"""The server's event loop between connections, Coordinator and Store. It decides nothing, and only it and
record_queue.py have an `await`.

One thread runs everything but the store, which has a thread of its own (record_queue.py). Each record comes back to the
coordinator as an event once it is durable. Until then nobody is told that it happened.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import cast

from edgefl.protocol.wire.attendance_messages import ComeAgain
from edgefl.protocol.wire.messages import Message
from edgefl.server import file_descriptors, trust_files
from edgefl.server.command_folder import CommandFolder
from edgefl.server.coordinator import Coordinator
from edgefl.server.events import (
    Action,
    Admit,
    Close,
    DeviceJoined,
    DeviceLeft,
    DeviceMessage,
    DeviceRefused,
    Event,
    KeyChanged,
    MessageReceived,
    Record,
    RecordSaved,
    RoundClosed,
    RoundEvaluated,
    RunCompleted,
    RunDrained,
    Save,
    Say,
    Send,
    Tick,
    Traffic,
    WakeAt,
)
from edgefl.server.listener import Entrance, ListenAddress
from edgefl.server.live_report import LiveReport
from edgefl.server.member_records import AnswerOperator, CommandGiven
from edgefl.server.peer import ConnectionTerms, Peer
from edgefl.server.record_queue import RecordQueue
from edgefl.server.reminder import Reminder
from edgefl.server.server_log import Log
from edgefl.server.store import Store
from edgefl.server.trust_files import TrustFiles
from edgefl.system.log_lines import Detail, LogLine, kind_of

LINGER_S = 45.0  # seconds at the end. A device that is away tries again after at most 30 s and needs 10 s to connect
LOOK_EVERY_S = 5.0  # seconds between looks whether the server has waited for long
SOON_S = 1.0  # seconds for connected devices to hear of the end
LAST_SAVE_S = 10.0  # seconds at the end for records that a slow or full disk has not taken yet


Ready = Callable[[str, int], AbstractContextManager[None]]


def serve(server: Server, address: ListenAddress, ready: Ready, linger_s: float = LINGER_S) -> bool:
    """Run a server until its run is over, or until the operator ends the server between two rounds. Return whether the
    run is over.

    ready     called with host and port once the server listens. The returned context is entered until it no longer does
    linger_s  seconds at the end in which devices may hear of it
    Raises    OSError if it cannot listen there, RunError if the run contradicts what is stored, KeyboardInterrupt on
              SIGINT or SIGTERM.
    """
    asyncio.run(server.run(address, ready, linger_s))
    return not server.is_drained


class Server:
    """One run, served until it is over.

    say         takes lines for people
    watch       takes every record once it is durable
    is_drained  whether the operator has ended the server between two rounds
    """

    def __init__(
        self,
        coordinator: Coordinator,
        store: Store,
        service: ConnectionTerms,
        say: Callable[[str], None],
        watch: Callable[[Record], None],
        trust: TrustFiles | None = None,
        drain_s: float = 0.0,
    ) -> None:
        """Make the server.

        trust    files that are read again when they change, or None
        drain_s  seconds after SIGTERM in which the open round may end
        """
        self._coordinator, self._store, self.service = coordinator, store, service
        self._log, self._watch, self._trust = Log(say), watch, trust
        self._commands, self._drain_s, self.is_drained = CommandFolder(store.path), drain_s, False
        self._peers: dict[int, Peer] = {}
        self._links = 0
        self._past = Traffic(0)  # bytes of connections that are gone
        self._heard: set[int] = set()  # clients that were told of the end
        self._wake: asyncio.TimerHandle | None = None
        self._reminder = Reminder()
        self._live = LiveReport(store.path, coordinator, self._peers)

    async def run(self, address: ListenAddress, ready: Ready, linger_s: float) -> None:
        """Listen, serve the run to its end, and leave the devices `linger_s` seconds to hear of it."""
        self._loop = asyncio.get_running_loop()
        self._records = RecordQueue(self._store, self.say, self._record_saved)
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._gone = asyncio.Event()
        self._loop.add_signal_handler(signal.SIGTERM, self._terminate)
        self._entrance = self._open(address)
        storing = self._loop.create_task(self._records.keep_saving())
        storing.add_done_callback(self._storing_ended)
        self._looking = self._loop.call_later(LOOK_EVERY_S, self._remind)
        self._trusting = self._loop.call_later(trust_files.LOOK_EVERY_S, self._look_at_files)
        try:
            with ready(*self._entrance.name):
                self._carry_out(self._coordinator.start(self._loop.time()))
                self._live.begin()
                self._remind()
                await self._over
                if not self.is_drained:
                    await self._linger(linger_s)
                await self._wait_for_records(storing)
        finally:
            self._wake_at(None)
            self._looking.cancel()
            self._trusting.cancel()
            storing.cancel()
            self._entrance.close()
            for peer in list(self._peers.values()):
                if peer.client is not None:
                    peer.close()
            self._live.end()
            self._log.end()

    def _remind(self) -> None:
        """Say for whom the server waits, when it has waited for a while."""
        now = self._loop.time()
        if self._reminder.is_due(self._coordinator.stage, now) and (line := self._coordinator.awaited(now)) is not None:
            self.say(line, "waiting")
        self._looking.cancel()
        self._looking = self._loop.call_later(LOOK_EVERY_S, self._remind)

    def _look_at_files(self) -> None:
        """Take the operator's commands. Read the keys and the certificate again where their files have changed."""
        for command in self._commands.look():
            self._handle(command)
        for found in () if self._trust is None else self._trust.look():
            if isinstance(found, KeyChanged):
                self._handle(found)
            else:
                self.say(found)
        self._trusting = self._loop.call_later(trust_files.LOOK_EVERY_S, self._look_at_files)

    def _terminate(self) -> None:
        """End at once, or after the open round if there is time for it. A second signal ends the server at once."""
        if not self._drain_s or self._over.done():
            self._fail(KeyboardInterrupt())
            return
        self.say(f"SIGTERM: ending after the open round, in at most {self._drain_s:g} s")
        self._loop.call_later(self._drain_s, self._fail, KeyboardInterrupt())
        self._drain_s = 0.0
        self._handle(CommandGiven(f"sigterm-{time.time_ns()}", time.time(), ("drain",)))

    def _open(self, address: ListenAddress) -> Entrance:
        """Listen, with as many descriptors as this process may have."""
        shared = file_descriptors.provide(self.service.clients, address.caps.strangers)
        entrance = Entrance(self, address, address.caps.within(shared.strangers), shared.connections)
        if shared.problem is not None:
            self.say(shared.problem)
        return entrance

    async def _linger(self, seconds: float) -> None:
        """Wait until every client has heard of the end, but at most this number of seconds."""
        self._end_if_all_have_heard()
        gone = self._loop.create_task(self._gone.wait())
        await asyncio.wait([gone], timeout=min(seconds, SOON_S))
        if not gone.done() and seconds > SOON_S:
            away = len(self._coordinator.enrolled - self._heard)
            self.say(f"the run is over; waiting up to {seconds:g} s to tell {away} disconnected clients")
            await asyncio.wait([gone], timeout=seconds - SOON_S)

    def _end_if_all_have_heard(self) -> None:
        devices = any(peer.client is not None for peer in self._peers.values())
        if self._over.done() and not devices and self._coordinator.enrolled <= self._heard:
            self._gone.set()

    # Calls from connections (peer.Hub, listener.Owner).

    def say(self, line: str, kind: str = "server") -> None:
        """Show a line to people, unless there have been many of its kind."""
        self._log.say(line, kind_of(line, kind) if kind == "server" else kind, self._loop.time())

    @property
    def handshake_s(self) -> float:
        return self.service.patience.handshake_s

    def enrol(self, peer: Peer, joined: DeviceJoined) -> None:
        self._handle(joined)

    def secret_of(self, client: int) -> bytes | None:
        return self._coordinator.secret_of(client)

    def received(self, peer: Peer, message: Message) -> None:
        self._handle(
            MessageReceived(peer.link, cast(DeviceMessage, message))
        )  # the state table lets in no other messages

    def arrived(self, name: str) -> Peer:
        """Take a new connection, which has not greeted yet."""
        self._links += 1
        peer = self._peers[self._links] = Peer(self._links, self.service, self, name)
        self.say(Detail(f"a connection from {name}", "connect"), "connections")
        return peer

    def refused(self, peer: Peer, reason: str) -> None:
        self._handle(DeviceRefused(peer.link, reason))

    def left(self, peer: Peer) -> None:
        del self._peers[peer.link]
        self._entrance.leave(peer.link)
        self._past = _added(self._past, peer)
        self._live.left(peer)
        self._say_gone(peer)
        if peer.client is not None and peer.connection.state == "finished" and not peer.is_broken:
            self._heard.add(peer.client)
        self._handle(DeviceLeft(peer.link))
        self._end_if_all_have_heard()

    def _say_gone(self, peer: Peer) -> None:
        if peer.client is None:
            self.say(
                Detail(f"the connection from {peer.address} has ended before it enrolled", "gone"), "strangers gone"
            )
        elif not self._over.done():
            line = f"client {peer.client} is disconnected: its connection from {peer.address} has ended"
            self.say(LogLine(line, "gone", peer.client))

    # The coordinator.

    def _handle(self, event: Event) -> None:
        self._live.changed()
        try:
            self._carry_out(self._coordinator.handle(event, self._loop.time()))
        except Exception as error:  # a mistake of ours ends this process, and the run resumes from what is stored
            self._fail(error)

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Save):
                self._records.add(action.record)
            elif isinstance(action, WakeAt):
                self._wake_at(action.time)
            elif isinstance(action, Say):
                self.say(action.line)
            elif isinstance(action, AnswerOperator):
                self._commands.answer(action)
            elif isinstance(action, RunDrained | RunCompleted):
                self.is_drained = isinstance(action, RunDrained)
                if not self._over.done():
                    self._over.set_result(None)
            elif (peer := self._peers.get(action.link)) is not None:
                self._tell(peer, action)

    def _tell(self, peer: Peer, action: Admit | Send | Close) -> None:
        if isinstance(action, Admit):
            self._entrance.know(peer.link)
            peer.welcome(action.client)
            self.say(LogLine(f"client {action.client} is connected from {peer.address}", "connect", action.client))
        elif isinstance(action, Send):
            peer.send(action.message)
            if isinstance(action.message, ComeAgain):
                peer.close()
        else:
            peer.refuse(action.reason)

    def _wake_at(self, time: float | None) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake = None if time is None else self._loop.call_at(time, self._handle, Tick())

    def _fail(self, error: BaseException) -> None:
        if not self._over.done():
            self._over.set_exception(error)

    # The store.

    def _record_saved(self, record: Record) -> None:
        self._watch(record)
        if isinstance(record, RoundClosed | RoundEvaluated):  # before the next round adds to it
            self._records.add(self._traffic(record.round))
        if not isinstance(record, Traffic):
            self._handle(RecordSaved(record))

    async def _wait_for_records(self, storing: asyncio.Task[None]) -> None:
        """Wait until the last records are saved. The record that ends the run adds the traffic of the last round."""
        last = self._loop.create_task(self._records.wait())
        await asyncio.wait([last, storing], timeout=LAST_SAVE_S, return_when=asyncio.FIRST_COMPLETED)
        if not last.done():
            last.cancel()
            self.say(f"the traffic of the last round is not stored: the disk has not taken it in {LAST_SAVE_S:g} s")

    def _storing_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _traffic(self, round: int) -> Traffic:
        """Return the number of bytes that went through the sockets since this process started."""
        total = replace(self._past, round=round)
        for peer in self._peers.values():
            total = _added(total, peer)
        return total


def _added(total: Traffic, peer: Peer) -> Traffic:
    connection = peer.connection
    return Traffic(
        total.round,
        total.sent + connection.sent_bytes,
        total.received + connection.received_bytes,
        total.sent_headers + connection.sent_header_bytes,
        total.received_headers + connection.received_header_bytes,
    )
