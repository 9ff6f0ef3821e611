"""The server as a process of a simulation: the real server over the virtual event loop and network."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass

from edgefl.experiment.data_record import DataRecord
from edgefl.experiment.run_json import EXPERIMENT, check_data, open_run
from edgefl.protocol.wire.messages import ComeAgain, DeviceNotice, Finished, Message, Train, Verdict
from edgefl.server.event_loop import LINGER_S, Server
from edgefl.server.events import Action, Admit, Close, RoundClosed, Save, Send
from edgefl.server.listener import ListenAddress
from edgefl.server.member_records import AnswerOperator, CommandGiven
from edgefl.server.peer import ConnectionTerms, Patience, Peer
from edgefl.server.schema import DATABASE
from edgefl.server.server_setup import staff
from edgefl.server.store import Store
from tests.vopr.absences import Absences
from tests.vopr.buffer_watch import BufferWatch
from tests.vopr.command_watch import CommandWatch
from tests.vopr.disk import Disk
from tests.vopr.federation import Members
from tests.vopr.ids import Ids
from tests.vopr.ledger import BrokenPromiseError, Ledger
from tests.vopr.member_watch import MemberWatch
from tests.vopr.network import Listener, Network
from tests.vopr.process import KilledError, Process
from tests.vopr.round_watch import RoundWatch
from tests.vopr.schedule import Schedule
from tests.vopr.server_loop import ServerLoop
from tests.vopr.settings import Settings

HOST = "10.1.0.1"  # address of the server
RUN = "run"  # folder of the run on the server's disk


@dataclass(frozen=True)
class Service:
    """This has what every life of the server shares.

    over  called when a life ends by itself: with None after the end of the run, or with the error
    """

    members: Members
    settings: Settings
    ledger: Ledger
    network: Network
    absences: Absences
    ids: Ids
    over: Callable[[BaseException | None], None]


class WatchedServer(Server):
    """A server of which the ledger hears what it says.

    stood  the phase and the last closed round, and the virtual time since which they are these
    """

    stood: tuple[tuple[str, int], float] = ("", 0), math.inf
    ledger: Ledger
    rounds: RoundWatch | BufferWatch
    commands: CommandWatch
    members: MemberWatch
    ids: Ids
    settings: Settings

    @property
    def is_serving(self) -> bool:
        """True if the server has begun to serve."""
        return hasattr(self, "_entrance")

    def _carry_out(self, actions: list[Action]) -> None:
        if self._coordinator.phase != "waiting":  # an operator may want more clients to enrol first
            self.rounds.begin()
        if self._coordinator.stage != self.stood[0]:
            self.stood = self._coordinator.stage, self._loop.time()
        for action in actions:
            if isinstance(action, Admit):
                self.members.admits(action.client)
            elif isinstance(action, Save):
                if isinstance(action.record, RoundClosed):
                    self.ledger.replies.closes(action.record)
                self.commands.saves(action.record)
                self.members.saves(action.record)
                self.rounds.saves(action.record)
            elif isinstance(action, AnswerOperator):
                self.ledger.answer(action, self._store)
        super()._carry_out(actions)

    def received(self, peer: Peer, message: Message) -> None:
        link = self._coordinator._clients.link(peer.link)
        if isinstance(message, DeviceNotice) and link is not None and link.admitted:
            self.members.hears(link.client, message)
        super().received(peer, message)

    def _tell(self, peer: Peer, action: Admit | Send | Close) -> None:
        if isinstance(action, Admit):
            self.ids.admits(peer.address, action.client)
            if action.client in self.settings.accepting:
                self.settings.accepting.remove(action.client)
                self.ledger.forget(action.client)
        if isinstance(action, Send) and peer.client is not None:
            self._hear(peer.client, action.message)
        super()._tell(peer, action)

    def _hear(self, client: int, message: Message) -> None:
        """Let the watches hear what a client is told."""
        if isinstance(message, Verdict):
            self.ledger.tell(client, message, self._store)
        elif isinstance(message, Train):
            self.ledger.opened(message.round)
            self.rounds.asks(message)
        elif isinstance(message, ComeAgain):
            self.members.sends_away(client, message.seconds, self._loop.time())
        elif isinstance(message, Finished) and self._coordinator.phase != "over":
            self.members.finishes(client, self._loop.time())


class ServerProcess(Process):
    """One life of the server.

    interrupt  stops it as SIGTERM does. Before it listens it is killed
    """

    def __init__(
        self, schedule: Schedule, disk: Disk, on_death: Callable[[Process, bool], None], service: Service
    ) -> None:
        super().__init__("server", schedule, disk, on_death)
        self._service, self._store = service, None
        self.server: WatchedServer | None = None
        self.interrupt: Callable[[], None] = lambda: self.kill(loses_power=False)
        self._tasks: list[asyncio.Task[object]] = []
        schedule.after(0.0, self._begin, self)

    def _begin(self) -> None:
        try:
            self._open()
        except KilledError:
            return
        except BrokenPromiseError:
            raise
        except Exception as error:
            self.end(error)

    def _open(self) -> None:
        service, path = self._service, self.disk.home / RUN
        experiment, federation = service.members.assembled.experiment, service.members.assembled.federation
        trains_on = DataRecord.of_federation(federation)
        if not (path / EXPERIMENT).exists():
            open_run(path, experiment.to_json(), trains_on=trains_on)
        settings = service.settings
        self._store = store = Store(path, settings.keep_rounds)
        open_run(path, experiment.to_json())
        check_data(path, trains_on)
        how = settings.rules.asynchronous
        progress = store.load(max_staleness=None if how is None else how.max_staleness)
        if self.failed_sync:
            raise BrokenPromiseError(f"the server starts although the fsync of {self.failed_sync} has failed")
        service.ledger.resumed(progress, store)
        keys = None if settings.keys is None else dict(settings.keys)
        coordinator, offer = staff(service.members.assembled, store, settings.rules, keys, sorted(settings.accepting))
        terms = ConnectionTerms(**vars(offer), patience=Patience())
        self.server = WatchedServer(coordinator, store, terms, self._say, lambda record: None)
        self.server.ledger, self.server.settings, self.server.ids = service.ledger, settings, service.ids
        ((_, algorithm),) = service.members.assembled.algorithms.items()
        self.server.commands = commands = CommandWatch(settings.rules, progress, algorithm.asks_all)
        seen = frozenset(settings.revoked), progress, self
        self.server.rounds = RoundWatch(commands, *seen) if how is None else BufferWatch(commands, how, *seen)
        self.server.members = MemberWatch(service.absences, commands, self.server.rounds, progress)
        loop, listener = ServerLoop(self, self.end), Listener(self)
        self.interrupt = loop.interrupt
        loop.began = self._tasks
        service.network.listener = listener
        tls = None if service.network.contexts is None else service.network.contexts.server
        address = ListenAddress(HOST, 1, tls, sockets=(listener,))  # type: ignore[arg-type]
        task = loop.create_task(self.server.run(address, lambda host, port: nullcontext(), LINGER_S))
        task.add_done_callback(self._ended)

    def hand(self, command: CommandGiven) -> None:
        """Hand an operator's command to the server, if it serves."""
        if self.server is not None and self.server.is_serving:
            self.server._loop.call_soon(self.server._handle, command)

    def awaited(self) -> str | None:
        """Return for whom the server waits, or None."""
        return None if self.server is None else self.server._coordinator.awaited(self.schedule.now)

    def stands_in(self, least_s: float) -> tuple[str, int] | None:
        """Return the phase of the run and the last closed round, if they are these for so long. Otherwise None."""
        stage, since_s = (None, 0.0) if self.server is None else self.server.stood
        return stage if self.schedule.now - since_s >= least_s else None

    def _say(self, line: str) -> None:
        if self.is_alive:
            self.schedule.note(f"server: {line}")

    def _ended(self, task: asyncio.Task[object]) -> None:
        if self.is_alive:
            self.end(None if task.cancelled() else task.exception())

    def end(self, error: BaseException | None) -> None:
        """End this life by itself."""
        if not self.is_alive:
            return
        self.is_alive = False
        if self._service.network.listener is not None and self._service.network.listener.server is self:
            self._service.network.listener = None
        self.schedule.note(f"server ends: {error!r}")
        self.dispose()
        if (database := self.disk.home / RUN / DATABASE).exists():
            self.disk.sync_own(database)  # the last connection has made a checkpoint
        self._service.over(error)

    def dispose(self) -> None:
        """Close the files of this life, and the code that would still run in it."""
        if self._store is not None:
            with suppress(Exception):
                self._store.close()
        for task in self._tasks:
            with suppress(RuntimeError, ValueError):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                task.get_coro().close()  # type: ignore[union-attr]
