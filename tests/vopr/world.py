"""A whole simulation: one server, its devices, and the faults that come to them, from the first event to the verdict.

Faults come for the given hours. Then everything is started again and nothing fails any more. The run has to end then,
every device has to hear of it, and a replay of the run has to end with its parameters.
"""

from __future__ import annotations

import traceback
from pathlib import Path

from edgefl.experiment.asynchronous_settings import asynchronous_rounds
from edgefl.experiment.client_dataset import partition_file, write_partition
from edgefl.server.round_rules import Rules
from tests.vopr import faults, federation, savings, seams, watch
from tests.vopr.absences import Absences
from tests.vopr.agent import AgentProcess, Machine
from tests.vopr.case import Case
from tests.vopr.commands import Commands
from tests.vopr.departing_device import DepartingProcess
from tests.vopr.device import DeviceProcess
from tests.vopr.disk import Disk
from tests.vopr.early_end import arm_early
from tests.vopr.faults import Fault
from tests.vopr.habits import Habits
from tests.vopr.ids import Ids
from tests.vopr.ledger import BrokenPromiseError, Ledger, check_end
from tests.vopr.network import Network
from tests.vopr.operator import Operator
from tests.vopr.process import Process
from tests.vopr.replay import check_replay
from tests.vopr.rows import rows_of
from tests.vopr.schedule import Schedule
from tests.vopr.server import HOST, RUN, ServerProcess, Service
from tests.vopr.settings import Settings, drawn_rules
from tests.vopr.tls import contexts
from tests.vopr.watch import Watch

ROUND_S = 60.0  # seconds that a round takes, more or less
CALM_H = 6.0  # most hours that a run may take once nothing fails any more
MOST_EVENTS = 10_000  # events at one time
RESTART_S = 60.0  # most seconds until somebody starts a process again


class World:
    """One simulation."""

    def __init__(self, case: Case, root: Path) -> None:
        self.schedule = schedule = Schedule(case.seed, str(root))
        self._case, self._root, devices, stream = case, root, case.devices, schedule.stream("settings")
        self._stream = schedule.stream("restarts")
        self._early = self._stream.choice(faults.EARLY)
        per_round = max(1, round(devices * stream.choice((0.3, 0.5, 1.0))))
        rounds = max(2, round(case.hours * 3600 / ROUND_S))
        self.members = federation.made(case.seed, case.method, devices, per_round, rounds, case.buffer)
        tls = contexts(HOST) if case.transport == "tls" else None
        self.network, self.ledger, self.absences = Network(schedule, tls), Ledger(), Absences()
        self.network.flips = stream.choice((0.0, 0.0, 1e-2))
        keys = {client: (stream.randbytes(32),) for client in range(devices)} if stream.random() < 0.5 else None
        eval_every = self.members.assembled.experiment.eval_interval
        asynchronous = asynchronous_rounds(self.members.assembled.experiment)
        rules = Rules(rounds, eval_every, max_empty_rounds=1 << 20, asynchronous=asynchronous)
        ((_, algorithm),) = self.members.assembled.algorithms.items()
        self._member_stream = schedule.stream("members")
        self.habits = habits = Habits.drawn(self._member_stream, devices, case.hours, algorithm.asks_all)
        self._settings = Settings(drawn_rules(habits.ruled(rules), stream, devices, per_round), keys)
        self._operator = Operator(schedule.stream("operator"), self._settings, devices, per_round)
        liars, agents = schedule.stream("liars"), schedule.stream("agents")
        self._liars = {client for client in range(devices) if liars.random() < 0.3} if liars.random() < 0.3 else set()
        share = agents.choice((0.0, 0.0, 0.5))
        self._operator.agents = {client for client in range(devices) if agents.random() < share} - self._liars
        self._ids = Ids(devices, habits.is_nameless and keys is None and not self._operator.agents)
        shared = self._settings, self.ledger, self.network, self.absences, self._ids
        self._service = Service(self.members, *shared, self._server_over)
        self._watch = Watch(devices, schedule)
        words = schedule.stream("words of commands")
        self._commands = Commands(schedule, words, self.ledger, lambda: self.server, habits)
        self.failure: str | None = None
        self._moved = 0.0, 0  # time of the last event, and the number of events before it
        self.rounds, self.befallen = 0, list[tuple[int, float, Fault]]()
        self.crashes, self.heard, self._is_calm, self._rots_at_end = 0, set[int](), False, False
        self._unsynced = set[str]()  # names of processes that were killed between two steps of a write
        self._machines = {
            client: Machine(root / f"machine-{client}", schedule) for client in sorted(self._operator.agents)
        }
        self._disks = {
            client: Disk(root / f"device-{client}", schedule.stream(f"disk {client}")) for client in range(devices)
        }
        self._server_disk = Disk(root / "server", schedule.stream("disk server"))
        self._server_disk.writing_s = schedule.stream("slow disks").choice(faults.WRITING_S)
        self.server: ServerProcess | None = None
        self.devices: dict[int, DeviceProcess] = {}

    def run(self) -> None:
        """Simulate until the end, or until a promise is broken."""
        hours, kept = self._case.hours, self._case.kept
        smaller = savings.made(self._case.training), federation.in_pieces()
        with seams.placed(self.schedule), smaller[0], smaller[1], self._watch.bounds.counted():
            self._start_server()
            for client in self._disks:
                begin_s = self._stream.random() * ROUND_S + self.habits.late_s.get(client, 0.0)
                self.schedule.after(begin_s, lambda client=client: self._start_device(client))
            planned = faults.planned(self.schedule, hours, self._case.devices, self._case.often)
            for number, (time, fault) in enumerate(planned):
                if kept is None or number in kept:
                    self.schedule.at(time, lambda number=number, fault=fault: self._befall(number, fault))
            self.schedule.at(hours * 3600, self._calm)
            self.schedule.after(watch.EVERY_S, self._look)
            try:
                self._go()
                self.schedule.settle()
                if self.failure is None:
                    self._stop()
                    self._watch.end(any(disk.has_failed for disk in (self._server_disk, *self._disks.values())))
                    self.rounds = check_replay(self._server_disk.home / RUN, self._ids.placed(self.members))
                    self.ledger.check_replies()
                    check_end(self.rounds, self._settings.rules.rounds, self.members)
            except BrokenPromiseError as error:
                self.failure = str(error)
            except Exception as error:
                self.failure = f"an error that nothing has caught: {error!r}"
                self.schedule.trace.extend(traceback.format_exc().splitlines())
            finally:
                self._stop()

    def _go(self) -> None:
        limit = (self._case.hours + CALM_H) * 3600
        while self.failure is None and len(self.heard) < len(self._disks):
            self._check_progress()
            if not self.schedule.step() or self.schedule.now > limit:
                waits = None if self.server is None else self.server.awaited()
                missing = sorted(self._disks.keys() - self.heard)
                self.failure = (
                    f"the run has not ended {CALM_H:g} h after the last fault; the server waits for"
                    f" {waits or 'nobody'}, and the devices {missing} have not heard of the end"
                )

    def _check_progress(self) -> None:
        """Raise BrokenPromiseError if very many events follow one another while no time passes."""
        if self.schedule.now > self._moved[0]:
            self._moved = self.schedule.now, self.schedule.events
        elif self.schedule.events > self._moved[1] + MOST_EVENTS:
            raise BrokenPromiseError(f"{MOST_EVENTS} events follow one another at {self._moved[0]:.3f} s")

    # Processes.

    def _start_server(self) -> None:
        if self.server is None:
            self._watch.begins(self._server_disk.home)
            self._server_disk.drop_old()
            self.server = ServerProcess(self.schedule, self._server_disk, self._died, self._service)
            self._strike_early(self.server)

    def _start_device(self, client: int, departs: bool = False) -> None:
        if client in self.devices or client in self.heard:
            return
        keys, disk = self._settings.keys, self._disks[client]
        key = None if keys is None else {**keys, **self._settings.revoked}[client][-1]  # the newest
        self._watch.begins(disk.home)
        disk.drop_old()
        kind = DepartingProcess if departs else AgentProcess if client in self._machines else DeviceProcess
        self.devices[client] = device = kind(
            client,
            self.schedule,
            disk,
            self._died,
            self.members,
            key,
            self.network,
            self.ledger,
            self._device_over,
            client in self._liars,
            lambda: self._ids.of(client) in self._settings.accepting,
        )
        device.ids = self._ids
        device.tags, device.sleeps = self.habits.tags(client, self._member_stream), client in self.habits.sleepers
        if isinstance(device, AgentProcess):
            device.machine, device.samples = self._machines[client], self._samples(client)
            device.reads = lambda line: self._operator.restore(device, line) and None
        self._strike_early(device)

    def _samples(self, client: int) -> Path:
        """Return the file of a client's samples, which its agent reads."""
        file = partition_file(self._root, client)
        if not file.exists():
            write_partition(file, self.members.assembled.federation, client)
        return file

    def _strike_early(self, process: Process) -> None:
        """Let a process that starts sometimes be killed, or lose its power, before it has done much."""
        is_unsynced = process.name in self._unsynced
        self._unsynced.discard(process.name)
        if not self._is_calm:
            arm_early(process, self._stream, self._early, is_unsynced)

    def _died(self, process: Process, loses_power: bool) -> None:
        self.crashes += 1
        if process.is_struck and not loses_power:
            self._unsynced.add(process.name)
        self.network.died(process, loses_power)
        if loses_power and isinstance(process, ServerProcess):
            self.ledger.rows = None  # commits that nobody has synced may be gone
        seconds = min(faults.away_s(self._stream), RESTART_S if self._is_calm else faults.LONGEST_S)
        if isinstance(process, DeviceProcess):
            del self.devices[process.client]
            self.schedule.after(seconds, lambda: self._start_device(process.client))
        else:
            self.server, self.network.listener = None, None
            self.schedule.after(seconds, self._start_server)

    def _server_over(self, error: BaseException | None) -> None:
        process, self.server = self.server, None
        if error is not None and process is not None:
            self.failure = self.failure or self._operator.blame(process, error)
            if self._rots_at_end:
                self._rot(process)
        self._watch.ended(self._server_disk.home)
        self.schedule.after(RESTART_S, self._start_server)  # somebody resumes it for the devices that were away

    def _device_over(self, client: int, error: Exception | None) -> None:
        process = self.devices.pop(client)
        if error is None and isinstance(process, DepartingProcess):
            self.schedule.after(process.away_s, lambda: self._start_device(client))
        elif error is None or self._operator.is_out(client, error):
            self.heard.add(client)
        else:
            self.failure = self.failure or self._operator.blame(process, error)
            self.schedule.after(RESTART_S, lambda: self._start_device(client))
        self._watch.ended(self._disks[client].home)

    # Faults.

    def _befall(self, number: int, fault: Fault) -> None:
        self.befallen.append((number, self.schedule.now, fault))
        what, _, whom = fault.kind.partition(" ")
        process = self.server if whom == "server" else self.devices.get(fault.client)
        self.schedule.note(f"fault: {fault}")
        if what == "cut":
            self.network.cut(fault.client, fault.seconds)
        elif what == "reset":
            self.network.reset(fault.client)
        elif fault.kind in faults.OPERATIONS:
            self._operate(what, fault.client)
        elif what == "command":
            self._commands.give(fault.client)
        elif what == "leave":
            self._leave(fault.client, fault.seconds)
        elif what == "clock":
            disk = self._server_disk if whom == "server" else self._disks[fault.client]
            disk.clock_s, disk.leapt_at = disk.clock_s + fault.leap_s, self.schedule.now
        elif what == "mains":
            if fault.client in self._machines:
                self._machines[fault.client].unplug(fault.seconds)
        elif process is None:
            return
        elif what == "halt":
            process.halted_until = max(process.halted_until, self.schedule.now + fault.seconds)
        elif what == "full":
            process.full_until = self.schedule.now + min(fault.seconds, faults.FULL_S)
        elif what == "error":
            if fault.seams % 2:  # the next life begins with it
                process.kill(loses_power=False)
            process.disk.calls_left = fault.calls
        elif what == "rot" and fault.seams % 2 == 0 and isinstance(process, ServerProcess):
            self._rots_at_end = True  # SQLite's log is empty then, and every row is in the file whose bit changes
            process.interrupt()
        elif what == "rot":
            process.kill(loses_power=False)
            self._rot(process)
        elif fault.seams:
            process.arm(1 if fault.at else fault.seams, loses_power=what == "power", at=fault.at)
        else:
            process.kill(loses_power=what == "power")

    def _rot(self, process: Process) -> None:
        """Let a bit change on the disk of a process that is down."""
        if isinstance(process, ServerProcess):
            self._rots_at_end = False
            self.ledger.rows = self.ledger.rows or rows_of(process.disk.home / RUN)
        self._operator.rot(process)

    def _operate(self, what: str, client: int) -> None:
        """Let an operator stop the server and change its settings. A device may be another one then."""
        if (who := self._ids.of(client)) is None or not self._operator.change(what, who):
            return
        if self.server is not None and self.server.halted_until > self.schedule.now:
            self.server.kill(loses_power=False)
        elif self.server is not None:
            self.server.interrupt()
        device, disk = self.devices.get(client), self._disks[client]
        if what in ("rotate", "replace") and device is not None:
            device.kill(loses_power=False)
        if what == "replace":
            self._ids.ask(client)
            self._watch.forget(disk.home)
            disk.empty()

    def _leave(self, client: int, seconds: float) -> None:
        """Let a device leave the run, and come back after so many seconds."""
        device = self.devices.get(client)
        if client in self._machines or client in self.heard or isinstance(device, DepartingProcess):
            return
        if device is not None:
            device.kill(loses_power=False)
        self._start_device(client, departs=True)
        departing = self.devices[client]
        assert isinstance(departing, DepartingProcess)
        departing.away_s = seconds

    def _calm(self) -> None:
        self._is_calm, self._rots_at_end = True, False
        self.network.flips = 0.0
        for disk in (self._server_disk, *self._disks.values()):
            disk.calls_left = -1
        for process in (self.server, *self.devices.values()):
            if process is not None:
                process.disarm()
        self._commands.calm()

    def _look(self) -> None:
        self._watch.look(self.server, len(self.devices), self.ledger.verdicts)
        self.absences.look(self.schedule.now, self._settings.revoked.keys())
        self.schedule.after(watch.EVERY_S, self._look)

    @property
    def members_seen(self) -> dict[str, int]:
        """The commands that were carried out, what members did, and whether there were late devices and conditions."""
        return {
            "commands": sum(self.ledger.answered.values()),
            "departures": self.absences.departures,
            "sleeps": self.absences.sleeps,
            "late": len(self.habits.late_s),
            "any_id": int(self._ids.is_open),
            "conditions": int(bool(self.habits.choice)),
        }

    def _stop(self) -> None:
        for process in (self.server, *self.devices.values()):
            if process is not None and process.is_alive:
                process.is_alive = False
                process.dispose()
