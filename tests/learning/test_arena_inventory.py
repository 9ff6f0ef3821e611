"""The names, bytes and lifetimes of what a schedule keeps, on a graph small enough to follow by hand."""

from __future__ import annotations

import pytest

from edgefl.learning.lowering.arena_inventory import arena_tensors, saved_bytes
from edgefl.learning.lowering.lower import lower
from edgefl.learning.lowering.schedule import Schedule
from edgefl.models.graph import Graph, Node, architectures
from edgefl.models.graph.operations import Linear
from edgefl.models.neurons.model_spec import ModelSpec

BATCH = 3
ONE_LAYER = Graph((4,), (Node("fc", Linear(4, 2), ("input",)),))


def schedule(graph: Graph, batch: int = BATCH) -> Schedule:
    return lower(graph, ModelSpec.of(graph), batch)


def test_one_layer_keeps_its_input_and_logits_for_the_backward_pass() -> None:
    tensors = {f"{tensor.node}.{tensor.argument}": tensor.bytes for tensor in arena_tensors(schedule(ONE_LAYER))}
    assert tensors["input.out"] == BATCH * 4 * 4
    assert tensors["fc.y"] == BATCH * 2 * 4
    assert tensors["fc.out"] == 2 * 4  # the gradient of the bias. The gradient of the weights is never stored
    assert saved_bytes(schedule(ONE_LAYER)) == tensors["input.out"] + tensors["fc.y"]


@pytest.mark.parametrize("name", architectures.PUBLISHED)
def test_every_buffer_has_a_name_and_lies_in_the_arena(name: str) -> None:
    graph = architectures.build(name, (3, 32, 32), 10)
    lowered = schedule(graph)
    nodes = {node.name for node in graph.nodes} | {"input", "loss"}
    tensors = arena_tensors(lowered)
    assert len(tensors) == sum(buffer.size > 0 for buffer in lowered.buffers)
    assert {tensor.node for tensor in tensors} <= nodes
    assert all(tensor.offset + tensor.bytes <= lowered.arena_bytes for tensor in tensors)


def test_an_arena_is_never_smaller_than_what_lives_at_one_call() -> None:
    lowered = schedule(architectures.build("fedspu_emnist", (1, 28, 28), 62), 16)
    tensors = arena_tensors(lowered)
    live = [sum(t.bytes for t in tensors if t.first <= at <= t.last) for at in range(len(lowered.calls))]
    assert max(live) <= lowered.arena_bytes < sum(tensor.bytes for tensor in tensors)
