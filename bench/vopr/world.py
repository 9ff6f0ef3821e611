"""A whole simulation: one server, its devices, and the faults that come to them, from the first event to the verdict.

Faults come for the given hours. Then everything is started again and nothing fails any more. The run has to end then,
every device has to hear of it, and a replay of the run has to end with its parameters.
"""

from __future__ import annotations

import tempfile
import traceback
from pathlib import Path
from time import process_time

from bench.vopr import faults, federation, savings, seams, watch
from bench.vopr.agent import AgentProcess, Machine
from bench.vopr.case import Case
from bench.vopr.commands import Commands
from bench.vopr.device import DeviceProcess
from bench.vopr.disk import Disk
from bench.vopr.faults import Fault
from bench.vopr.ledger import BrokenPromiseError, Ledger, check_end
from bench.vopr.network import Network
from bench.vopr.operator import Operator
from bench.vopr.outcome import Outcome
from bench.vopr.process import Process
from bench.vopr.replay import check_replay
from bench.vopr.rows import rows_of
from bench.vopr.schedule import Schedule
from bench.vopr.server import HOST, RUN, ServerProcess, Service
from bench.vopr.settings import Settings, drawn_rules
from bench.vopr.tls import contexts
from bench.vopr.watch import Watch
from edgefl.experiment.asynchronous_settings import asynchronous_rounds
from edgefl.experiment.client_dataset import partition_file, write_partition
from edgefl.server.round_rules import Rules

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
        self.network, self.ledger = Network(schedule, tls), Ledger()
        self.network.flips = stream.choice((0.0, 0.0, 1e-2))
        keys = {client: (stream.randbytes(32),) for client in range(devices)} if stream.random() < 0.5 else None
        eval_every = self.members.assembled.experiment.eval_interval
        asynchronous = asynchronous_rounds(self.members.assembled.experiment)
        rules = Rules(rounds, eval_every, max_empty_rounds=1 << 20, asynchronous=asynchronous)
        self._settings = Settings(drawn_rules(rules, stream, devices, per_round), keys)
        self._operator = Operator(schedule.stream("operator"), self._settings, devices, per_round)
        self._service = Service(self.members, self._settings, self.ledger, self.network, self._server_over)
        liars = schedule.stream("liars")
        self._liars = {client for client in range(devices) if liars.random() < 0.3} if liars.random() < 0.3 else set()
        self._watch = Watch(devices)
        self._commands = Commands(schedule, schedule.stream("words of commands"), self.ledger, lambda: self.server)
        self.failure: str | None = None
        self._moved = 0.0, 0  # time of the last event, and the number of events before it
        self.rounds, self.befallen = 0, list[tuple[int, float, Fault]]()
        self.crashes, self.heard, self._is_calm, self._rots_at_end = 0, set[int](), False, False
        agents = schedule.stream("agents")
        share = agents.choice((0.0, 0.0, 0.5))
        self._operator.agents = {client for client in range(devices) if agents.random() < share} - self._liars
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
                self.schedule.after(self._stream.random() * ROUND_S, lambda client=client: self._start_device(client))
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
                    self.rounds = check_replay(self._server_disk.home / RUN, self.members)
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

    def _start_device(self, client: int) -> None:
        if client in self.devices or client in self.heard:
            return
        keys, disk = self._settings.keys, self._disks[client]
        key = None if keys is None else {**keys, **self._settings.revoked}[client][-1]  # the newest
        self._watch.begins(disk.home)
        disk.drop_old()
        kind = AgentProcess if client in self._machines else DeviceProcess
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
            lambda: client in self._settings.accepting,
        )
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
        share = self._early * (faults.YOUNG if self.schedule.now < faults.YOUNG_S else 1.0)
        leaves = process.name in self._unsynced
        self._unsynced.discard(process.name)
        if not self._is_calm and self._stream.random() < (faults.TWICE if leaves else share):
            places = faults.EARLY_AT[1:2] if leaves else faults.EARLY_AT
            at = self._stream.choice(faults.EARLY_AT_DEVICE if isinstance(process, DeviceProcess) else places)
            most = faults.EARLY_SEAMS_AT.get(at, 1)
            seams = self._stream.randrange(1, most + 1)
            process.arm(seams, leaves or self._stream.random() < 0.5, at)

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
        if error is None or self._operator.is_out(client, error):
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
        if not self._operator.change(what, client):
            return
        if self.server is not None and self.server.halted_until > self.schedule.now:
            self.server.kill(loses_power=False)
        elif self.server is not None:
            self.server.interrupt()
        device, disk = self.devices.get(client), self._disks[client]
        if what in ("rotate", "replace") and device is not None:
            device.kill(loses_power=False)
        if what == "replace":
            self._watch.forget(disk.home)
            disk.empty()

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
        self.schedule.after(watch.EVERY_S, self._look)

    def _stop(self) -> None:
        for process in (self.server, *self.devices.values()):
            if process is not None and process.is_alive:
                process.is_alive = False
                process.dispose()


def simulate(
    seed: int, hours: float, devices: int, method: str, training: str = "stub", *, often: float = 1.0
) -> Outcome:
    """Simulate a case that has these fields, in a temporary folder."""
    return simulated(Case(seed, hours, devices, method, training, often=often))


def simulated(case: Case) -> Outcome:
    """Simulate a case in a temporary folder."""
    begun = process_time()
    with tempfile.TemporaryDirectory(prefix="vopr-", dir=memory()) as folder:
        world = World(case, Path(folder))
        world.run()
    schedule = world.schedule
    return Outcome(
        case,
        None if world.failure is None else schedule.placeless(world.failure),
        schedule.digest,
        schedule.now / 3600,
        schedule.events,
        world.rounds,
        world.ledger.verdicts,
        world.crashes,
        process_time() - begun,
        tuple(schedule.trace),
        tuple(world.befallen),
    )


def memory() -> str | None:
    """Return a folder in memory, where SQLite's own syncs take no time, or None if there is none."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
