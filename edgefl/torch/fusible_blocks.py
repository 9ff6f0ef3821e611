"""The search for modules of a model that the kernels compute in one block.

The search uses torch.fx where it can trace the model, and the order in an nn.Sequential otherwise. native_block.py
computes the blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from torch import fx, nn

from edgefl.torch.native_block import is_halving, window_of


class Chain(NamedTuple):
    """A chain of modules in which only the next module reads the result of a module.

    names      names of the modules, in order
    is_shared  whether the last module, a ReLU, is also called elsewhere
    """

    names: tuple[str, ...]
    is_shared: bool = False


def chains(model: nn.Module) -> list[Chain]:
    """Return the blocks of a model."""
    modules = dict(model.named_modules())
    found = _traced(model)
    candidates = _in_order(model) if found is None else found
    return [chain for run in candidates for chain in _cut(run, modules)]


def _cut(run: Chain, modules: Mapping[str, nn.Module]) -> Iterator[Chain]:
    """Yield the blocks in a chain of modules."""
    at, names = 0, run.names
    while at < len(names):
        length = _length([modules[name] for name in names[at : at + 3]])
        if length > 1:
            yield Chain(names[at : at + length], run.is_shared and at + length == len(names))
        at += length


def _length(run: Sequence[nn.Module]) -> int:
    """Return the number of modules, from the first on, that form a block, or 1 if they form no block."""
    kinds = [type(each) for each in run]
    if len(run) > 1 and kinds[0] is nn.ReLU and kinds[1] is nn.MaxPool2d and is_plain_pool(run[1]):
        return 2
    rectifiers = {nn.BatchNorm2d: (nn.ReLU, nn.ReLU6), nn.GroupNorm: (nn.ReLU,)}.get(kinds[0], ())
    if len(run) < 2 or kinds[1] not in rectifiers or not has_parameters(run[0]):
        return 1
    has_pool = len(run) > 2 and kinds[2] is nn.MaxPool2d and is_plain_pool(run[2])
    return 3 if has_pool and is_halving(run[2]) else 2


def is_plain_pool(pool: Any) -> bool:
    """Return whether the kernels support this max pool."""
    if pool.return_indices or pool.dilation not in (1, (1, 1)):
        return False
    window = window_of(pool)
    return window.kernel[0] * window.kernel[1] <= 255


def has_parameters(norm: Any) -> bool:
    """Return whether a norm has the parameters and statistics that its kernels read."""
    return norm.weight is not None and norm.bias is not None and getattr(norm, "running_mean", norm) is not None


def _traced(model: nn.Module) -> list[Chain] | None:
    """Return chains of modules from the calls of a trace, or None if torch.fx cannot trace the model."""
    try:
        graph = _BlockTracer().trace(model)
    except Exception:  # forward is foreign code: whatever it raises on symbols, it cannot be traced
        return None
    modules = dict(model.named_modules(remove_duplicate=False))
    names = {id(module): name for name, module in model.named_modules()}
    calls = [node for node in graph.nodes if node.op == "call_module"]
    uses = Counter(id(modules[str(node.target)]) for node in calls)
    runs: dict[fx.Node, Chain] = {}  # chains by the call of their last module
    ended = []
    for node in calls:
        module = modules[str(node.target)]
        source = _source(node)
        before = runs.pop(source, Chain(())) if source is not None else Chain(())
        run = Chain((*before.names, names[id(module)]))
        if uses[id(module)] == 1:
            runs[node] = run
        elif before.names and type(module) in (nn.ReLU, nn.ReLU6):
            ended.append(run._replace(is_shared=True))
        else:
            ended.append(before)
    return [*ended, *runs.values()]


class _BlockTracer(fx.Tracer):
    """A tracer that stops at torch's own modules, and at every module without submodules."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return super().is_leaf_module(m, module_qualified_name) or not any(True for _ in m.children())


def _source(call: fx.Node) -> fx.Node | None:
    """Return the call whose result this call reads, or None if another call reads it, too."""
    source = call.args[0] if len(call.args) == 1 and not call.kwargs else None
    return source if isinstance(source, fx.Node) and len(source.users) == 1 else None


def _in_order(model: nn.Module) -> list[Chain]:
    """Return chains of modules from their order in each nn.Sequential. A module that occurs twice is in no chain."""
    places = Counter(id(module) for _, module in model.named_modules(remove_duplicate=False))
    runs = []
    for prefix, module in model.named_modules():
        run: list[str] = []
        for name, child in module.named_children() if type(module) is nn.Sequential else ():
            if places[id(child)] > 1:
                runs.append(Chain(tuple(run)))
                run = []
            else:
                run.append(f"{prefix}.{name}" if prefix else name)
        runs.append(Chain(tuple(run)))
    return runs
