"""The measurement of a device's throughput by a moment of training, and the decision when to measure again. No
messages.

What counts is the wall time of training as it is here, under whatever else the machine does and however it is
throttled. A throttled process runs at full speed for some milliseconds and then stands still, so single rounds say
little by the clock. Therefore their processor time says what they cost beside one another, and wall and processor time
of all of them together how much longer everything takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from edgefl.errors import MemoryLimitError
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState
from edgefl.methods.task import State, Task
from edgefl.methods.throughput import Throughput, Workload, fit
from edgefl.models.graph import Graph

LEAST_S, MOST_S = 1.0, 5.0  # of wall time: turns go on up to the first, and none but one begins after the second
TURNS = 2  # of all trials at least
TURN_S = 0.5  # of processor time, about as long as a turn shall take
FEW, MANY = 2, 50  # steps of the longer trials, between these as the time allows; the shorter ones have one
WRONG = 1.5  # times as long as foretold, or as short
IN_A_ROW = 2  # such rounds before it is measured again

Kind = tuple[int, int]  # of a trial: its length, its plan
Found = tuple[Kind, Workload, float]


class ClockPair(NamedTuple):
    """Seconds of the wall, and of this process on processors."""

    wall: Callable[[], float]
    busy: Callable[[], float]


class ThroughputTrials(NamedTuple):
    """A method's trials on a device: each once with one step, once with more. Its learner is at their disposal.

    rounds  the method with fewer passes, and the device with fewer samples
    """

    task: Task
    state: State
    rounds: tuple[tuple[Algorithm, ClientState], ...]

    @staticmethod
    def of(algorithm: Algorithm, graph: Graph, client_state: ClientState) -> ThroughputTrials:
        """Those of one step alone."""
        loss, outputs = client_state.data.loss, graph.output_shape[0]
        task = Task(client_state.spec, 1, client_state.seed, loss=loss, outputs=outputs, graph=graph)
        state = algorithm.start(task, {name: value.copy() for name, value in client_state.learner.read().items()})
        return ThroughputTrials(task, state, (_round(algorithm, client_state, 1),))

    def longer(self, algorithm: Algorithm, client_state: ClientState, steps: int) -> ThroughputTrials:
        """With those of about so many steps, too."""
        return self._replace(rounds=(*self.rounds, _round(algorithm, client_state, steps)))

    def turn(self, number: int, busy: Callable[[], float]) -> Iterator[Found]:
        """Trains each of them once, but those that there is no memory for. Each turn has neurons of its own."""
        for length, (algorithm, client_state) in enumerate(self.rounds):
            plans = algorithm.trials(self.task, self.state, len(client_state.train), 1 + 100 * number)
            for kind, (plan, work) in enumerate(plans):
                client_state.private.clear()
                begun = busy()
                try:
                    algorithm.train(client_state, plan)
                except MemoryLimitError:
                    continue
                yield (length, kind), work, busy() - begun


def measure(algorithm: Algorithm, graph: Graph, client_state: ClientState, clocks: ClockPair) -> Throughput | None:
    """The throughput of a device; None where it cannot train any of the trials. What `client_state`'s learner holds is
    of the trials afterwards; `client_state` itself is as before.
    """
    short = ThroughputTrials.of(algorithm, graph, client_state)
    sum(1 for _ in short.turn(0, clocks.busy))  # what happens once in a process: files are read, memory is had
    took = sum(seconds for _, _, seconds in short.turn(1, clocks.busy))
    if not took > 0:
        return None
    trials = short.longer(algorithm, client_state, max(FEW, min(MANY, int(TURN_S / took))))
    found: dict[Kind, tuple[Workload, list[float]]] = {}
    wall, busy, turns, wall_s = clocks.wall(), clocks.busy(), 0, 0.0
    while turns == 0 or wall_s < LEAST_S or (turns < TURNS and wall_s < MOST_S):
        turns += 1
        for kind, work, seconds in trials.turn(turns + 1, clocks.busy):
            found.setdefault(kind, (work, []))[1].append(seconds)
        wall_s = clocks.wall() - wall
    throughput, slower = fit([(work, median(times)) for work, times in found.values()]), wall_s / (clocks.busy() - busy)
    return throughput.slowed(slower)


def _round(algorithm: Algorithm, client_state: ClientState, steps: int) -> tuple[Algorithm, ClientState]:
    brief, size = algorithm.brief(steps, len(client_state.train))
    return brief, replace(client_state, train=client_state.train[:size], private={}, arrays={})


class ForecastMonitor:
    """Whether rounds take other times than was foretold."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def heard(self, seconds: float, foretold: object) -> None:
        """A round took this long. `foretold`: what the server says, which is nothing if it is no time."""
        if not isinstance(foretold, float) or not foretold > 0:
            return
        is_wrong = not foretold / WRONG <= seconds <= foretold * WRONG
        self._in_a_row = self._in_a_row + 1 if is_wrong else 0

    @property
    def are_many(self) -> bool:
        """Whether it has to be measured again."""
        return self._in_a_row >= IN_A_ROW
