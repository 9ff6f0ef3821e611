"""python -m bench energy: joules of a training step and of a multiply-add, where this machine tells its energy.

Gross is all that the source covers, whatever else runs. Net is gross less what the machine takes idle, measured before.
A multiply-add of a device profile (`joules_per_mac`) is a model's, and net of idle: `--model JOULES` prints it beside
the measured one. Without a source nothing is measured, and that is said.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from bench import machine, step
from bench.native_steps import steps
from bench.runner import Contender
from edgefl.cli.energy_messages import NONE
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.energy import EnergyMeter, choose, idle_watts, survey
from edgefl.learning.energy.energy_counters import EnergySource
from edgefl.learning.lowering.mac_counts import step_macs
from edgefl.models.graph import Graph, Model
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.rng import INIT, NEURONS, stream

KEEPS = (1.0, 0.2)
SECONDS, IDLE_S, QUICK_S = 5.0, 10.0, 0.2
AT_ONCE = 8  # steps between two looks at the clock
SEED, LR = 1, 1e-6


@dataclass(frozen=True)
class Spent:
    """The cost of steps of one model. Joules are None where the source did not tell them.

    macs  multiply-adds that one step needs, of the whole batch
    """

    model: str
    batch: int
    keep: float
    macs: int
    steps: int
    seconds: float
    joules: float | None
    net_joules: float | None

    def per_step(self, joules: float | None) -> float | None:
        """Return the joules of a step."""
        return None if joules is None else joules / self.steps

    def per_mac(self, joules: float | None) -> float | None:
        """Return the joules of a multiply-add."""
        return None if joules is None else joules / (self.steps * self.macs)


def main(arguments: Sequence[str]) -> int:
    """Measure and print, or say that there is no source."""
    options = _parser().parse_args(arguments)
    source = choose()
    if source is None:
        absent = {each.kind: each.why for each in survey()}
        print(json.dumps({"source": None, "absent": absent}) if options.json else _nothing(absent))
        return 0
    machine.use_threads(options.threads)
    seconds, idle_s = (QUICK_S, QUICK_S) if options.quick else (options.seconds, options.idle)
    idle = idle_watts(source, idle_s) if idle_s else None
    head = {"source": source.name, "kind": source.kind, "idle_watts": idle, "model_joules_per_mac": options.model}
    print(json.dumps(head) if options.json else _head(source, idle, idle_s, options.model), flush=True)
    for case in options.models:
        for spent in measure(case, source, idle, seconds):
            print(json.dumps(asdict(spent)) if options.json else _line(spent), flush=True)
    return 0


def measure(
    case: step.Case,
    source: EnergySource | None,
    idle: float | None,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Spent]:
    """Yield what steps took for every batch size and share of neurons, each for `seconds`.

    idle  watts of the machine with nothing to do, if they are known
    """
    graph = case.graph
    for batch in case.batches:
        for keep in KEEPS:
            neurons = None if keep == 1 else NeuronSet.draw(ModelSpec.of(graph), keep, stream(SEED, NEURONS))
            run, done = _steps(case, graph, batch, neurons), 0
            run(AT_ONCE)  # warm
            with EnergyMeter(source, idle, clock) as spent:
                began = clock()
                while not done or clock() - began < seconds:
                    run(AT_ONCE)
                    done += AT_ONCE
            macs = batch * step_macs(graph, neurons)
            yield Spent(case.model, batch, keep, macs, done, spent.seconds, spent.joules, spent.net_joules)


def _steps(case: step.Case, graph: Graph, batch: int, neurons: NeuronSet | None) -> Contender:
    draw = np.random.default_rng(SEED)
    x = draw.integers(0, 256, (batch, *case.input_shape), np.uint8)
    samples = Samples(x, draw.integers(0, case.classes, batch).astype(np.int32), scale=1 / 255)
    learner = GraphLearner(Model(graph, graph.init(stream(SEED, INIT))), backend="native")
    return steps(learner, samples, [np.arange(batch, dtype=np.int32)], SGD(LR), neurons)


def _nothing(absent: dict[str, str]) -> str:
    return "\n".join([NONE, *(f"  {kind}: {why}" for kind, why in absent.items())])


def _head(source: EnergySource, idle: float | None, idle_s: float, model: float | None) -> str:
    rest = "idle not measured" if idle is None else f"idle {idle:.4g} W over {idle_s:g} s"
    beside = "" if model is None else f"; a profile's model: {1e12 * model:.4g} pJ a multiply-add, net"
    columns = ("model, batch", "p", "steps", "ms/step", "mJ/step", "net", "pJ/MAC", "net")
    return f"{source.name} ({source.kind}), {rest}{beside}\n{_columns(columns)}"


def _line(spent: Spent) -> str:
    both = (spent.joules, spent.net_joules)
    step_mj = [_scaled(spent.per_step(joules), 1e3) for joules in both]
    mac_pj = [_scaled(spent.per_mac(joules), 1e12) for joules in both]
    ms = f"{1e3 * spent.seconds / spent.steps:.4g}"
    return _columns((f"{spent.model}, {spent.batch}", f"{spent.keep:g}", str(spent.steps), ms, *step_mj, *mac_pj))


def _scaled(joules: float | None, unit: float) -> str:
    return "-" if joules is None else f"{unit * joules:.4g}"


def _columns(cells: Sequence[str]) -> str:
    return f"{cells[0]:<24}" + "".join(f"{cell:>10}" for cell in cells[1:])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench energy", description=__doc__)
    parser.add_argument("--models", type=step.named, default=step.PAPER, help="names separated by commas, or all")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of the kernels; default: 1")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help="of each row; default: 5")
    parser.add_argument("--idle", type=float, default=IDLE_S, metavar="S", help="of idling before; 0: gross alone")
    parser.add_argument("--model", type=float, metavar="JOULES", help="of a multiply-add by a device profile, beside")
    parser.add_argument("--quick", action="store_true", help="short: shows that it runs, not what it takes")
    parser.add_argument("--json", action="store_true", help="JSON lines: the source first, then a line per row")
    return parser
