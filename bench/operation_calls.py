"""The calls of single operations of a graph, forward and backward, over arrays of their own.

Nothing is timed here, and torch is not needed. operations.py times the calls beside PyTorch's, and arm/bodies.py counts
their instructions.
"""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from bench.runner import Contender
from edgefl.kernels import native
from edgefl.kernels.memory import aligned_bytes
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.lowering.schedule import KernelCall, Param, Schedule, Tensor
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph import operations as ops
from edgefl.models.graph.operations import Operation, Shape
from edgefl.rng import INIT, stream

BATCH, SEED, CLASSES = 16, 1, 2
BELOW, TWO, GATED = ("below",), ("below", "beside"), ("below", "gate")
LARGE, SMALL, FEATURES, SEQUENCES, WORDS = (64, 16, 16), (96, 8, 8), (1024,), (64, 256), (256, 128)
STEPS = (64, 64)
RECURRENT = (ops.RNN, ops.GRU, ops.LSTM)
POINTWISE = (
    *(ops.ReLU6(), ops.LeakyReLU(0.01), ops.Sigmoid(), ops.Tanh(), ops.SiLU(), ops.GELU("none")),
    *(ops.Hardsigmoid(), ops.Hardswish(), ops.Softplus(1.0, 20.0)),
)


class Work(NamedTuple):
    """An operation, the shape of its input without the batch, the nodes it reads, and what sets it apart."""

    op: Operation
    shape: Shape
    inputs: tuple[str, ...] = BELOW
    kind: str = ""

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.op.title, self.kind, "x".join(map(str, (BATCH, *self.shape))))))


def works() -> Iterator[Work]:
    """Yield every operation that is timed."""
    for shape in (LARGE, SMALL, FEATURES):
        yield from (Work(op, shape) for op in POINTWISE)
        yield Work(ops.GELU("tanh"), shape, kind="tanh")
        yield Work(ops.PReLU(shape[0]), shape)
        yield Work(ops.LayerNorm(shape), shape)
        yield Work(ops.Mul(), shape, TWO)
    for shape in (LARGE, SMALL):
        yield Work(ops.Mul(), shape, GATED, "gate")
        yield Work(ops.Concat(), shape, TWO)
        yield Work(ops.ZeroPad2d((1, 1, 1, 1)), shape)
        yield Work(ops.Upsample((2, 2)), shape)
        yield Work(ops.Interpolate((2 * shape[1], 2 * shape[2])), shape, kind="bilinear")
        yield Work(ops.Interpolate((3 * shape[1], 24), True), shape, kind="corners")
        yield Work(ops.ReflectionPad2d((1, 1, 1, 1)), shape)
        yield Work(ops.ReplicationPad2d((2, 2, 2, 2)), shape)
        yield Work(ops.CircularPad2d((1, 1, 1, 1)), shape)
        yield Work(ops.GroupNorm(shape[0], shape[0]), shape, kind="instance")
        yield Work(ops.AdaptiveAvgPool2d((4, 4)), shape)
        yield Work(ops.AdaptiveAvgPool2d((1, 1)), shape, kind="global")
        yield Work(ops.ConvTranspose2d(shape[0], 32, (2, 2), stride=(2, 2)), shape)
        yield from _depthwise(shape)
    for shape in (LARGE, FEATURES, WORDS):
        yield Work(ops.Elementwise("exp(minimum(a, 2)) / (a * a + 1)"), shape, kind="of one")
        yield Work(ops.Elementwise("(a - b) * sqrt(abs(b) + 0.1)"), shape, TWO, "of two")
        yield Work(ops.Reduce("sum", (0,)), shape, kind="sum of channels")
    yield Work(ops.Reduce("mean", (1, 2)), LARGE, kind="mean of places")
    yield Work(ops.Reduce("max", (0,)), LARGE, kind="maximum of channels")
    yield Work(ops.RMSNorm(WORDS[0]), WORDS)
    yield Work(ops.Rotary(32, WORDS[1]), WORDS)
    for heads, shared in ((8, 8), (8, 2)):
        rows = (heads + 2 * shared) * 32
        yield Work(ops.Attention(heads, shared, 32, 32**-0.5, causal=True), (rows, 128), kind=f"{heads}/{shared}")
        yield Work(ops.Attention(heads, shared, 32, 32**-0.5), (rows, 128), kind=f"{heads}/{shared} all")
    for recurrent in RECURRENT:
        yield Work(recurrent(64, 64), STEPS)
    yield Work(ops.BatchNorm1d(FEATURES[0]), FEATURES)
    yield Work(ops.BatchNorm1d(SEQUENCES[0]), SEQUENCES)
    yield Work(ops.Flip(), SEQUENCES)
    yield Work(ops.Conv1d(64, 64, 5, padding=2), SEQUENCES)
    yield Work(ops.MaxPool1d(2, 2), SEQUENCES)
    yield Work(ops.AvgPool1d(2, 2), SEQUENCES)


def _depthwise(shape: Shape) -> Iterator[Work]:
    channels = shape[0]
    for stride in (1, 2):
        op = ops.Conv2d(channels, channels, (3, 3), (stride, stride), (1, 1), groups=channels, bias=False)
        yield Work(op, shape, kind=f"depthwise/{stride}")


def titled(text: str) -> tuple[Work, ...]:
    """Return the works of operations with these titles, separated by commas. Raises ArgumentTypeError for others."""
    every = tuple(works())
    known, asked = {work.op.title for work in every}, text.split(",")
    if unknown := [title for title in asked if title not in known]:
        raise ArgumentTypeError(f"operation {unknown[0]!r}; expected some of {', '.join(sorted(known))}")
    return tuple(work for work in every if work.op.title in asked)


def _graph(op: Operation, shape: Shape, inputs: tuple[str, ...]) -> Graph:
    """Return a graph with the operation, named "op", over layers with parameters and under a Linear layer."""
    nodes = [Node("below", ops.PReLU(1), (INPUT,))]
    if inputs != BELOW:
        nodes.append(Node("beside", ops.PReLU(1), (INPUT,)))
    if inputs == GATED:
        nodes.append(Node("gate", ops.AdaptiveAvgPool2d((1, 1)), ("beside",)))
    shapes = [(shape[0], 1, 1) if name == "gate" else shape for name in inputs]
    result = op.output(*shapes)
    nodes.append(Node("op", op, inputs))
    if len(result) > 1:
        nodes.append(Node("flatten", ops.Flatten(), ("op",)))
    return Graph(shape, (*nodes, Node("fc", ops.Linear(math.prod(result), CLASSES), (nodes[-1].name,))))


def native_passes(op: Operation, shape: Shape, inputs: tuple[str, ...]) -> dict[str, Contender]:
    """Return the calls of an operation's forward pass and of its backward pass, each to be repeated."""
    graph = _graph(op, shape, inputs)
    learner = GraphLearner(Model(graph, graph.init(stream(SEED, INIT))), backend="native")
    x = np.random.RandomState(SEED).standard_normal((BATCH, *shape)).astype(np.float32)
    momentum = 0.9 if isinstance(op, RECURRENT) else 0.0  # so that the gradient of a weight is not fused with its step
    terms = SGD(1e-3, momentum=momentum)
    learner.fit(Samples(x, np.zeros(BATCH, np.int32)), [np.arange(BATCH, dtype=np.int32)], terms)
    (session,) = learner._workspace.sessions.values()
    (schedule,) = session.schedules.values()
    params = {name: np.array(values) for name, values in learner.read().items()}  # running statistics move
    calls = _bound(schedule, params)
    loss = next(at for at, call in enumerate(schedule.calls) if call.node == "loss")
    return {"forward": _repeated(calls[:loss]), "backward": _repeated(calls[loss:])}


def _bound(schedule: Schedule, params: Any) -> list[Callable[[], object] | None]:
    """Return the schedule's calls over arrays of their own, and None for calls of other nodes and for updates."""
    memory: dict[int, Any] = {}
    values = np.random.RandomState(SEED)
    for at, buffer in enumerate(schedule.buffers):
        memory[at] = aligned_bytes(buffer.bytes(4))
        if buffer.kind == "float":
            memory[at].view(np.float32)[...] = values.standard_normal(buffer.size)
    return [_call(call, schedule, memory, params) if _is_timed(call) else None for call in schedule.calls]


def _is_timed(call: KernelCall) -> bool:
    return call.node == "op" and hasattr(native, call.op) and "sgd" not in call.op


def _call(call: KernelCall, schedule: Schedule, memory: dict[int, Any], params: Any) -> Callable[[], object]:
    seen: set[int] = set()

    def resolved(arg: Any) -> Any:
        if isinstance(arg, Param):
            return params[arg.name].reshape(arg.shape)
        if not isinstance(arg, Tensor):
            return arg
        kind, held = schedule.buffers[arg.buffer].kind, memory[arg.buffer]
        if arg.buffer in seen:
            fresh = aligned_bytes(held.nbytes)
            fresh[...] = held
            held = fresh
        seen.add(arg.buffer)
        values = held.view({"float": np.float32, "int32": np.int32, "byte": np.uint8}[kind])
        return values[: math.prod(arg.shape)].reshape(arg.shape)  # the states of an RNN have one step more

    args = [resolved(arg) for arg in call.args]
    function = getattr(native, call.op)
    return lambda: function(*args)


def _repeated(calls: list[Callable[[], object] | None]) -> Contender:
    timed = [call for call in calls if call is not None]

    def run(repeats: int) -> None:
        for _ in range(repeats):
            for call in timed:
                call()

    return run
