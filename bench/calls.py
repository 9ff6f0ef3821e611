"""python -m bench calls: the kernel calls of a training step, each timed by itself on one thread.

All calls of a step are made in their order, over a learner's own arrays, so that a call finds the caches as the call
before left them. The CPU time of a call is the median of many steps. It holds some .7 us that Python takes. Multiply-
adds are counted for convolutions and Linear layers. Bytes are those of the arrays that a call is given. The peak is the
rate of `python -m bench peak`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from bench import machine, peak, step
from bench.figures import Figure, print_table
from bench.kernels import KINDS
from bench.runner import PRODUCTS, clock_for
from edgefl.kernels import native
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.lowering.mac_counts import layer_macs
from edgefl.learning.lowering.schedule import KernelCall
from edgefl.models.graph import Graph, Model
from edgefl.rng import INIT, stream

STEPS, WARM_UP, SEED = 300, 3, 1


class CallTime(NamedTuple):
    """A call of a step: the node that it belongs to, its time, multiply-adds, and bytes of its arrays."""

    node: str
    op: str
    us: float
    macs: int
    size: int


def main(arguments: list[str]) -> int:
    """Print the calls of each model's step."""
    parser = argparse.ArgumentParser(prog="python -m bench calls", description=__doc__)
    parser.add_argument("--models", type=step.named, default=step.named("fedspu_speech"), help="separated by commas")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps that are timed")
    options = parser.parse_args(arguments)
    machine.use_threads(1)
    (rates,) = peak.measure((1,), PRODUCTS)
    fastest = 1e9 * max(rates["native_gflops"], rates["torch_gflops"])
    for case in options.models:
        for batch in case.batches:
            calls = call_times(case.graph, batch, options.steps)
            print_table(machine.facts(), _figures(f"{case.model} B={batch}", calls, fastest))
    return 0


def call_times(graph: Graph, batch: int, steps: int) -> list[CallTime]:
    """Return the calls of a step in their order. The learner sees one batch of random examples."""
    learner = GraphLearner(Model(graph, graph.init(stream(SEED, INIT))), backend="native")
    x = np.random.RandomState(SEED).standard_normal((batch, *graph.input_shape)).astype(np.float32)
    learner.fit(Samples(x, np.zeros(batch, np.int32)), [np.arange(batch, dtype=np.int32)], SGD(1e-6))
    workspace = learner._workspace
    (session,) = workspace.sessions.values()
    (schedule,), (bound,) = session.schedules.values(), session.programs.values()
    memory = workspace.binder._memory(session, bound.index)
    arguments = [[memory.resolve(schedule, arg) for arg in call.args] for call in schedule.calls]
    times = _turns([_alone(call, given) for call, given in zip(schedule.calls, arguments, strict=True)], steps)
    macs = {(name, kind): batch * getattr(each, kind) for name, each in layer_macs(graph).items() for kind in KINDS}
    return [
        CallTime(call.node, call.op, 1e6 * seconds, macs.get((call.node, _kind(call.op)), 0), _bytes(given))
        for call, given, seconds in zip(schedule.calls, arguments, times, strict=True)
    ]


def _alone(call: KernelCall, arguments: Sequence[Any]) -> Any:
    """Return a program that makes this call alone."""
    program = native.Program()
    program.append(call.op, *arguments)
    return program


def _turns(programs: Sequence[Any], steps: int) -> list[float]:
    """Return the median seconds of each program, which run one after the other, step by step."""
    clock, turns = clock_for(1), [list[float]() for _ in programs]
    for _ in range(WARM_UP + steps):
        for program, taken in zip(programs, turns, strict=True):
            begin = clock()
            program.run()
            taken.append(clock() - begin)
    return [median(taken[WARM_UP:]) for taken in turns]


def _kind(op: str) -> str:
    """Return the product of a layer that a call computes."""
    words = op.removeprefix("conv2d_").removeprefix("linear_")
    return "grad_weight" if words == "update" else words


def _bytes(arguments: Sequence[Any]) -> int:
    return sum(given.nbytes for given in arguments if isinstance(given, np.ndarray))


def _figures(work: str, calls: Sequence[CallTime], peak_flops: float) -> Iterator[Figure]:
    whole_us = sum(call.us for call in calls)
    for call in sorted(calls, key=lambda call: -call.us):
        share, reached = call.us / whole_us, 2e6 * call.macs / call.us / peak_flops
        note = f"{share:.1%} of the step, {call.size / call.us / 1e3:.1f} GB/s"
        if call.macs:
            note += f", {call.macs / 1e6:.2f} million multiply-adds, {reached:.2f} of the peak"
        yield Figure(f"{work} {call.node} {call.op}", call.us, "us", note=note)
    products_us = sum(2e6 * call.macs for call in calls) / peak_flops
    yield Figure(f"{work} all calls", whole_us, "us", note=f"the products alone: {products_us:.0f} us at the peak")
