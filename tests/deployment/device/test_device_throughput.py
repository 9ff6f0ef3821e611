"""A device that measures how fast it trains: what it says of that and when, and that nothing else follows from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgefl.deployment.device.device_model import DeviceModel
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.throughput_meter import IN_A_ROW, WRONG, ClockPair, ForecastMonitor, measure
from edgefl.errors import MemoryLimitError, TimeLimitError
from edgefl.experiment.federation import Federation
from edgefl.learning import Samples
from edgefl.methods import FedSPUCached
from edgefl.methods.throughput import FORETOLD, Throughput, Workload
from edgefl.protocol.wire.messages import MeasuredThroughput, ThroughputReport, Trained
from tests.deployment.device.device_cases import ANYBODY, bits, cut, files, scripted
from tests.deployment.device.device_server import ScriptedServer, converse

METHOD = FedSPUCached(keep=(0.25, 0.5, 1.0), per_round=2, epochs=2, budget=(), round_seconds=1.0)
MADE = Throughput(2e-9, 5e-9, 1e-3, 0.02)
GRAPH = SimpleNamespace(output_shape=(3,))


@dataclass
class Machine:
    """A method that trains nothing: time passes as work takes it, and on the wall four times as long.

    too_large  trials that there is no memory for
    """

    epochs: int = 3
    batch: int = 4
    now: list[float] = field(default_factory=lambda: [0.0])
    too_large: Sequence[int] = ()
    sizes: list[int] = field(default_factory=list)

    def start(self, task: Any, params: Any) -> None:
        return None

    def brief(self, steps: int, examples: int) -> tuple[Machine, int]:
        epochs = min(self.epochs, steps)
        return replace(self, epochs=epochs), min(examples, steps // epochs * self.batch)

    def trials(self, task: Any, state: Any, examples: int, round: int) -> list[tuple[int, Workload]]:
        self.sizes.append(examples)
        steps, costs = self.epochs * -(-examples // self.batch), ((0, 9e6), (0, 2e6), (4e6, 1e6), (1e6, 3e6))
        return [
            (at, Workload(still * examples, macs * examples * self.epochs, steps))
            for at, (still, macs) in enumerate(costs)
        ]

    def train(self, client_state: Any, plan: int) -> None:
        if plan in self.too_large:
            raise MemoryLimitError("too large")
        work = self.trials(None, None, len(client_state.train), 1)[plan][1]
        self.now[0] += MADE.seconds(work)
        assert client_state.private == {}
        client_state.private["L_prev"] = 1.0

    @property
    def clocks(self) -> ClockPair:
        return ClockPair(lambda: 4 * self.now[0], lambda: self.now[0])


@pytest.fixture
def client_state() -> Any:
    from edgefl.methods.client_state import ClientState

    samples = Samples(np.zeros((40, 1), np.float32), np.zeros(40, np.int32))
    rows = np.arange(40, dtype=np.int32)
    learner: Any = SimpleNamespace(read=dict)
    spec: Any = None
    return ClientState(0, 1, spec, learner, samples, rows, rows[:0], rows[:0], {"mine": 7})


def test_what_was_made_is_measured_four_times_as_slow(client_state: Any) -> None:
    machine: Any = Machine()
    found = measure(machine, GRAPH, client_state, machine.clocks)  # type: ignore[arg-type]
    assert found is not None
    assert found[:4] == pytest.approx([4 * each for each in MADE[:4]])
    assert client_state.private == {"mine": 7}
    assert len(client_state.train) == 40
    assert min(machine.sizes) == 4  # one step
    assert max(machine.sizes) <= 40


def test_trials_without_memory_are_left_out(client_state: Any) -> None:
    machine: Any = Machine(too_large=(0,))
    found = measure(machine, GRAPH, client_state, machine.clocks)  # type: ignore[arg-type]
    assert found is not None
    assert found[:4] == pytest.approx([4 * each for each in MADE[:4]])
    machine = Machine(too_large=(0, 1, 2, 3))
    assert measure(machine, GRAPH, client_state, machine.clocks) is None  # type: ignore[arg-type]


def test_misses() -> None:
    misses = ForecastMonitor()
    for seconds in (WRONG + 0.01, 1.0, WRONG + 0.01):
        misses.heard(seconds, 1.0)
        assert not misses.are_many
    for _ in range(IN_A_ROW - 1):
        misses.heard(1 / WRONG - 0.01, 1.0)
    assert misses.are_many
    other = ForecastMonitor()
    for _ in range(5):
        other.heard(9.0, None)
        other.heard(9.0, True)
        other.heard(9.0, float("nan"))
        other.heard(9.0, 0.0)
        other.heard(WRONG, 1.0)
    assert not other.are_many


@pytest.fixture
def server(federation: Federation) -> ScriptedServer:
    return scripted(federation, METHOD, [1, 2, 3, 4])


@pytest.fixture
def timed(make: Callable[..., Device]) -> Callable[..., Device]:
    """Devices with a clock that passes by itself."""

    def opening(**rest: Any) -> Device:
        device, ticks = make(**rest), iter(range(1 << 30))

        def clock() -> float:
            return next(ticks) * 0.01

        device._world = device._world._replace(clock=clock, busy=clock)
        return device

    return opening


def test_it_says_its_throughput_before_it_trains_and_changes_nothing_by_it(
    server: ScriptedServer, timed: Any, federation: Federation
) -> None:
    device = timed()
    converse(device, server)
    kinds = [type(message) for message in server.received]
    assert kinds.index(ThroughputReport) < kinds.index(Trained)
    assert kinds.count(ThroughputReport) == 1
    (said,) = [message for message in server.received if isinstance(message, ThroughputReport)]
    assert said.throughput is not None
    assert said.throughput.memory is None
    silent, quiet = (
        timed(place=1, profile=ANYBODY._replace(reports_throughput=False)),
        scripted(federation, METHOD, [1, 2, 3, 4]),
    )
    converse(silent, quiet)
    assert [message for message in quiet.received if isinstance(message, ThroughputReport)] == [ThroughputReport(None)]
    for round, reply in server.replies.items():
        assert reply.payload == quiet.replies[round].payload
        assert reply.selection_hash == quiet.replies[round].selection_hash
    mine, other = device._state.personal(), silent._state.personal()
    assert mine is not None
    assert other is not None
    assert bits(mine.params) == bits(other.params)
    assert mine.private == other.private
    assert server.scores == quiet.scores


def test_a_new_connection_hears_the_same_and_a_new_process_measures_anew(server: ScriptedServer, timed: Any) -> None:
    said: list[str] = []
    device = timed(said=said)
    cut(device, server, "handle Verdict")
    first = [message for message in server.received if isinstance(message, ThroughputReport)]
    converse(device, server)
    again = [message for message in server.received if isinstance(message, ThroughputReport)]
    assert len(first) == len(again) == 1
    assert again[0] == first[0]
    assert sum(line.startswith("throughput: ") for line in said) == 1
    other = timed()
    assert other._declaring._said is None


def test_it_changes_no_file(server: ScriptedServer, timed: Any) -> None:
    device = timed()
    cut(device, server, "send ThroughputReport")
    before = files(device)
    assert isinstance(device._declaring._said, ThroughputReport)
    assert device._model is not None
    device._model.throughput(ClockPair(device._world.clock, device._world.busy))
    assert files(device) == before


def test_rounds_that_take_other_times_are_measured_again(federation: Federation, timed: Any) -> None:
    server, said = scripted(federation, METHOD, [1, 2, 3, 4]), []
    for round, message in server.script.items():
        settings = {**message.settings, FORETOLD: 1e6}
        server.script = {**server.script, round: type(message)(**{**_fields(message), "settings": settings})}
    device = timed(said=said)
    converse(device, server)
    order = [type(message).__name__ for message in server.received if isinstance(message, ThroughputReport | Trained)]
    assert order == [
        "ThroughputReport",
        "Trained",
        "Trained",
        "ThroughputReport",
        "Trained",
        "Trained",
        "ThroughputReport",
    ]
    assert sum("rounds take other times than predicted" in line for line in said) == 2


def _fields(message: Any) -> dict[str, Any]:
    return {name: getattr(message, name) for name in type(message).__struct_fields__}


def test_a_run_without_seconds_measures_nothing(federation: Federation, make: Callable[..., Device]) -> None:
    server = scripted(federation, replace(METHOD, round_seconds=0.0), [1])
    converse(make(), server)
    assert not [message for message in server.received if isinstance(message, ThroughputReport)]


def test_no_time_to_measure_is_no_reason_to_end(
    server: ScriptedServer, timed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_slow(self: DeviceModel, clocks: ClockPair) -> None:
        raise TimeLimitError("measuring its throughput: longer than 1 s")

    monkeypatch.setattr(DeviceModel, "throughput", too_slow)
    said: list[str] = []
    device = timed(said=said)
    converse(device, server)
    assert [message for message in server.received if isinstance(message, ThroughputReport)] == [ThroughputReport(None)]
    assert "throughput: not measured, as the owner's limits leave no memory or time for it" in said
    assert len(server.replies) == 4


def test_memory_that_training_may_take_is_said(server: ScriptedServer, timed: Any) -> None:
    device = timed(profile=ANYBODY._replace(max_memory=64 << 20))
    converse(device, server)
    (said,) = [message.throughput for message in server.received if isinstance(message, ThroughputReport)]
    assert isinstance(said, MeasuredThroughput)
    assert said.memory is not None
    assert 0 < said.memory < 64 << 20
