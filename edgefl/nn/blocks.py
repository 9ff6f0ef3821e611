"""Which modules of a model form blocks that the kernels compute in one: by torch.fx where it can trace the model, else
by their order in an nn.Sequential. Not how a block is computed (native_block.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import fx, nn

from edgefl.nn.native_block import is_halving, window_of

Chain = tuple[str, ...]


def chains(model: nn.Module) -> list[Chain]:
    """Names of modules of which each reads the result of the one before, and nobody else does."""
    modules = dict(model.named_modules())
    found = _traced(model)
    candidates = _in_order(model) if found is None else found
    return [chain for names in candidates for chain in _cut(names, modules)]


def _cut(names: Sequence[str], modules: Mapping[str, nn.Module]) -> Iterator[Chain]:
    """The blocks in a run of modules that call each other."""
    at = 0
    while at < len(names):
        length = _length([modules[name] for name in names[at : at + 3]])
        if length > 1:
            yield tuple(names[at : at + length])
        at += length


def _length(run: Sequence[nn.Module]) -> int:
    """How many modules from the first on form a block; 1: none."""
    kinds = [type(each) for each in run]
    if len(run) > 1 and kinds[0] is nn.ReLU and kinds[1] is nn.MaxPool2d and is_plain_pool(run[1]):
        return 2
    rectifiers = {nn.BatchNorm2d: (nn.ReLU, nn.ReLU6), nn.GroupNorm: (nn.ReLU,)}.get(kinds[0], ())
    if len(run) < 2 or kinds[1] not in rectifiers or not has_parameters(run[0]):
        return 1
    has_pool = len(run) > 2 and kinds[2] is nn.MaxPool2d and is_plain_pool(run[2])
    return 3 if has_pool and is_halving(run[2]) else 2


def is_plain_pool(pool: Any) -> bool:
    """Whether the kernels have this max pool."""
    if pool.return_indices or pool.dilation not in (1, (1, 1)):
        return False
    window = window_of(pool)
    return window.kernel[0] * window.kernel[1] <= 255


def has_parameters(norm: Any) -> bool:
    """Whether a norm has what its kernels read."""
    return norm.weight is not None and norm.bias is not None and getattr(norm, "running_mean", norm) is not None


def _traced(model: nn.Module) -> list[list[str]] | None:
    """Runs of modules by the calls of a trace; None if torch.fx cannot trace the model."""
    try:
        graph = fx.Tracer().trace(model)
    except Exception:  # forward is foreign code: whatever it raises on symbols, it cannot be traced
        return None
    calls = Counter(str(node.target) for node in graph.nodes if node.op == "call_module")
    modules = dict(model.named_modules(remove_duplicate=False))
    uses = Counter(id(modules[name]) for name in calls for _ in range(calls[name]))
    runs: list[list[str]] = []
    ends: dict[fx.Node, list[str]] = {}
    for node in graph.nodes:
        if node.op != "call_module" or uses[id(modules[str(node.target)])] > 1:
            continue
        source = node.args[0] if len(node.args) == 1 and not node.kwargs else None
        run = ends.get(source) if isinstance(source, fx.Node) and len(source.users) == 1 else None
        if run is None:
            run = []
            runs.append(run)
        run.append(str(node.target))
        ends[node] = run
    return runs


def _in_order(model: nn.Module) -> list[list[str]]:
    """Runs of modules by their places in an nn.Sequential; a module with two places is in none."""
    places = Counter(id(module) for _, module in model.named_modules(remove_duplicate=False))
    runs = []
    for prefix, module in model.named_modules():
        if type(module) is nn.Sequential:
            run: list[str] = []
            for name, child in module.named_children():
                if places[id(child)] > 1:
                    runs.append(run)
                    run = []
                else:
                    run.append(f"{prefix}.{name}" if prefix else name)
            runs.append(run)
    return runs
