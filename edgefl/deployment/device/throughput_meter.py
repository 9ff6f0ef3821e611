"""The measurement of a device's throughput by a moment of training, and the decision when to measure again.

The result is the wall time of training on this machine, together with its other work and its throttling. A throttled
process runs at full speed for some milliseconds and then stands still, so the wall time of a single round says little.
Therefore the processor time of the trials gives their relative costs. The ratio of wall time to processor time of all
trials together says how much longer everything takes.
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

LEAST_S, MOST_S = 1.0, 5.0  # seconds of wall time. Turns may end after LEAST_S, and no second turn begins after MOST_S
TURNS = 2  # turns through all trials at least
TURN_S = 0.5  # seconds of processor time that a turn shall take
FEW, MANY = 2, 50  # least and most steps of a longer trial. A shorter trial has one step
WRONG = 1.5  # factor by which a time may be longer or shorter than foretold
IN_A_ROW = 2  # rounds beyond this factor before a new measurement

Kind = tuple[int, int]  # numbers of a trial's length and of its plan
Found = tuple[Kind, Workload, float]


class ClockPair(NamedTuple):
    """Clocks in seconds: wall time, and the time that this process has spent on processors."""

    wall: Callable[[], float]
    busy: Callable[[], float]


class ThroughputTrials(NamedTuple):
    """A method's trials on a device: each trial once with one step, and once with more steps. They may use its learner.

    rounds  pairs of the method with fewer passes and the device with fewer samples
    """

    task: Task
    state: State
    rounds: tuple[tuple[Algorithm, ClientState], ...]

    @staticmethod
    def of(algorithm: Algorithm, graph: Graph, client_state: ClientState) -> ThroughputTrials:
        """Return the trials of one step each."""
        loss, outputs = client_state.data.loss, graph.output_shape[0]
        task = Task(client_state.spec, 1, client_state.seed, loss=loss, outputs=outputs, graph=graph)
        state = algorithm.start(task, {name: value.copy() for name, value in client_state.learner.read().items()})
        return ThroughputTrials(task, state, (_round(algorithm, client_state, 1),))

    def longer(self, algorithm: Algorithm, client_state: ClientState, steps: int) -> ThroughputTrials:
        """Return these trials together with trials of about `steps` steps."""
        return self._replace(rounds=(*self.rounds, _round(algorithm, client_state, steps)))

    def turn(self, number: int, busy: Callable[[], float]) -> Iterator[Found]:
        """Train each trial once, and yield its kind, its work and its seconds. Skip trials that need too much memory.

        number  number of the turn, by which each turn gets its own neurons
        """
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
    """Measure the throughput of a device, or return None if the device cannot train any trial.

    Afterwards the learner of `client_state` holds values of the trials. The rest of `client_state` does not change.
    """
    short = ThroughputTrials.of(algorithm, graph, client_state)
    sum(1 for _ in short.turn(0, clocks.busy))  # a process reads files and gets memory in its first turn
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
    """A monitor of the rounds that take other times than predicted."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def heard(self, seconds: float, foretold: object) -> None:
        """Count a round that took this many seconds. A prediction `foretold` that is not positive is ignored."""
        if not isinstance(foretold, float) or not foretold > 0:
            return
        is_wrong = not foretold / WRONG <= seconds <= foretold * WRONG
        self._in_a_row = self._in_a_row + 1 if is_wrong else 0

    @property
    def are_many(self) -> bool:
        """True if the throughput has to be measured again."""
        return self._in_a_row >= IN_A_ROW
