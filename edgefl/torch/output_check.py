"""The check of a converted module: its graph gives the outputs of the module on the example."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from edgefl.errors import GraphError
from edgefl.models.graph import Model
from edgefl.torch.example_inputs import Inputs
from edgefl.torch.graph_module import GraphModule, to_torch
from edgefl.torch.module_outputs import output_named
from edgefl.torch.module_state import in_mode, unchanged
from edgefl.torch.module_wishes import unheard_hooks

TOLERANCE = 1e-4  # share of the largest output, far below real differences, as torch's kernels compute both sides


def check_output(
    model: Model, module: nn.Module, inputs: Inputs, left_out: nn.Module, outputs: tuple[str, ...] = ("",)
) -> None:
    """Raise GraphError unless the graph, followed by what it left out, gives the module's outputs on the example.

    outputs  the module's names of the graph's output and of its auxiliary outputs

    The module runs twice in evaluation mode and must give equal outputs. Further outputs that it has in training alone
    are compared in training mode, with all dropouts in evaluation mode.
    """
    twin = to_torch(model).eval()
    with torch.no_grad(), in_mode(module, False), unchanged(module):
        first, again = (_seeded(lambda: inputs.given_to(module)) for _ in range(2))
        results = _seeded(lambda: twin.edgefl_outputs(inputs.samples()))
    main, *further = outputs
    known = [_check(left_out(results[0]), module, first, again, main)]
    if not isinstance(first, Tensor):
        known += [_check(each, module, first, again, name) for name, each in zip(further, results[1:], strict=True)]
    if len(known) < len(results) or not all(known):
        _check_in_training(twin, module, inputs, tuple(further))


def _seeded(run: Callable[[], Any]) -> Any:
    """Return what a function returns from the first numbers of torch's generator, so that noise is drawn alike."""
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return run()


def _check_in_training(twin: GraphModule, module: nn.Module, inputs: Inputs, further: tuple[str, ...]) -> None:
    with torch.no_grad(), in_mode(module, True), unchanged(module), _kept_buffers(module), torch.random.fork_rng([]):
        for part in (*module.modules(), *twin.train().modules()):
            if isinstance(part, _DropoutNd):
                part.training = False
        first, again = inputs.given_to(module), inputs.given_to(module)
        results = twin.edgefl_outputs(inputs.samples())
    for name, result in zip(further, results[1:], strict=True):
        expected, repeated = output_named(first, name), output_named(again, name)
        if expected is not None and repeated is not None and torch.equal(expected, repeated):  # it drops nothing
            _check_alike(result, expected.cpu(), repeated.cpu(), module)


@contextmanager
def _kept_buffers(module: nn.Module) -> Iterator[None]:
    """Restore the values of all buffers after the context."""
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, value in before:
            buffer.copy_(value)


def _check(result: Tensor, module: nn.Module, first: Any, again: Any, name: str) -> bool:
    """Return whether the module has this output. Raises GraphError if the result is not the output."""
    expected, repeated = output_named(first, name), output_named(again, name)
    if expected is None or repeated is None:
        return False
    _check_alike(result, expected.cpu(), repeated.cpu(), module)
    return True


def _check_alike(result: Tensor, expected: Tensor, again: Tensor, module: nn.Module) -> None:
    difference = (result - expected).abs().max().item() if result.shape == expected.shape else math.inf
    limit = TOLERANCE * max(1.0, expected.abs().max().item())
    if not difference <= limit:
        hooks = "".join(f"; {hooks}, which the trace does not have" for hooks in unheard_hooks(module))
        raise GraphError(
            f"{type(module).__name__}: its output on the example differs by {difference:g} from that of its trace; "
            f"expected at most {limit:g} (does forward write in place, depend on data, or drop values in evaluation?)"
            f"{hooks}"
        )
    if again.shape != expected.shape or not torch.equal(again, expected):
        raise GraphError(
            f"{type(module).__name__}: its output differs at a second call; expected a forward that keeps no state "
            "from one batch to the next: begin each batch from torch.zeros"
        )
