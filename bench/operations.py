"""`python -m bench operations`: single operations, forward and backward, beside PyTorch's own, on one thread.

Each operation is lowered between layers that are trained, so that its backward pass is whole. Its calls alone are
timed, from Python as PyTorch's are. An argument that a training step would overwrite is separate, because its values
would vanish in repetitions. PyTorch's backward pass is autograd's over a graph that is kept. Gradients that are views
of other arrays are made dense, as their next reader has them. With --compiled, torch.compile of the operation takes its
turns in the same run. --only Attention,RMSNorm times the operations with these titles alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from bench import machine
from bench.operation_calls import BATCH, SEED, Work, native_passes, works
from bench.operation_calls import titled as titled
from bench.peers import EAGER
from bench.rows import Row, native_name, row
from bench.runner import Contender, Effort, clock_for, interleave
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph import operations as ops
from edgefl.models.graph.operations import Operation, Shape
from edgefl.rng import INIT, stream
from edgefl.torch import to_torch
from edgefl.torch.expression_module import Expression
from edgefl.torch.transformer_modules import SequenceAttention

COMPILED = "compile"


def measure(effort: Effort, chosen: Iterable[Work] | None = None, is_compiled: bool = False) -> Iterator[Row]:
    """Yield a row for each operation, shape and pass. `chosen` is None for all operations.

    is_compiled  whether torch.compile of the operation is among PyTorch's paths
    """
    machine.use_threads(1)
    for work in works() if chosen is None else chosen:
        ours, module = native_passes(work.op, work.shape, work.inputs), _module(work.op, work.shape)
        paths = {EAGER: _passes(module, module, work)}
        if is_compiled:
            paths[COMPILED] = _passes(_compiled(module), module, work)
        for kind in ours:
            theirs = {name: path[kind] for name, path in paths.items()}
            timings = interleave({native_name(1.0): ours[kind], **theirs}, effort, clock_for(1))
            yield row(f"{work.name} {kind}", BATCH, 1, 1.0, timings, 1.0)


def _compiled(module: Callable[..., Any]) -> Callable[..., Any]:
    """Return torch.compile of the operation, whose backward pass may be repeated. It knows the shapes."""
    warnings.filterwarnings("ignore", message="Dynamo detected a call to a `functools.lru_cache`")
    torch._dynamo.reset()  # so that no earlier operation counts against the limit of recompilations
    torch._functorch.config.donated_buffer = False  # type: ignore[attr-defined]
    compiled: Callable[..., Any] = torch.compile(module, dynamic=False)
    return compiled


def _passes(run: Callable[..., Any], module: Callable[..., Any], work: Work) -> dict[str, Contender]:
    """Return both passes of PyTorch's form of an operation. `run` is the module, or the module compiled."""
    sizes = [(work.shape[0], 1, 1) if name == "gate" else work.shape for name in work.inputs]
    if isinstance(module, torch.nn.RNNBase):
        sizes = [(time, width) for width, time in sizes]
    read = [torch.randn(BATCH, *size, requires_grad=True) for size in sizes]
    y = run(*read)
    leaves, dy = [*read, *(() if not isinstance(module, torch.nn.Module) else module.parameters())], torch.randn_like(y)

    def forward(repeats: int) -> None:
        for _ in range(repeats):
            run(*read)

    def backward(repeats: int) -> None:
        for _ in range(repeats):
            for gradient in torch.autograd.grad(y, leaves, dy, retain_graph=True):
                gradient.contiguous()

    return {"forward": forward, "backward": backward}


def _module(op: Operation, shape: Shape) -> Callable[..., Any]:
    """Return PyTorch's own form of the operation."""
    if isinstance(op, ops.Mul):
        return torch.mul
    if isinstance(op, ops.Concat):
        return lambda *parts: torch.cat(parts, 1)
    if isinstance(op, ops.Elementwise):
        return Expression(op)
    if isinstance(op, ops.Attention):
        return SequenceAttention(op)
    graph = Graph(shape, (Node("op", op, (INPUT,)),))
    return next(each for each in to_torch(Model(graph, graph.init(stream(SEED, INIT)))).modules() if _is_leaf(each))


def _is_leaf(module: torch.nn.Module) -> bool:
    return not list(module.children())
