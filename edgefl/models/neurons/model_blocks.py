"""The blocks of a model, found by the names of its layers. `last:K` of trained_part.py counts them.

A block is the layers whose names begin alike up to a number: features.17 of MobileNetV2, layer4.1 of a ResNet,
blocks.11 of a Transformer. Where the numbered parts of a stage have at least two products each, as in features.3.0 of
an EfficientNet, these parts are the blocks. Layers before the first number, such as the stem of a ResNet, are not a
block. A model without numbers has a block for each layer with a product. A norm belongs to the block before it, and the
head is not a block. The beginning that all names have in common does not count, as in nn.Sequential(backbone, head).
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from edgefl.models.graph import Graph, Node
from edgefl.models.neurons.model_spec import ModelSpec


def blocks(graph: Graph) -> tuple[str, ...]:
    """Return the names of the blocks in the order of the graph. A block of a single layer has the layer's name."""
    body, products = _body(graph), graph.macs().keys()
    names = [_numbered(node.name, body, products) for node in body]
    if not any(names):
        names = [node.name if node.name in products else "" for node in body]
    found = dict.fromkeys(name for name in names if name)
    with_product = {name for name, node in zip(names, body, strict=True) if node.name in products}
    return tuple(name for name in found if name in with_product)


def parameters_from(graph: Graph, block: str) -> frozenset[str]:
    """Return the names of all parameters from the first layer of a block to the end of the graph."""
    start = next(at for at, node in enumerate(graph.nodes) if node.op.parameters() and _is_in(node.name, block))
    return frozenset(node.full_name(part) for node in graph.nodes[start:] for part in node.op.parameters())


def _body(graph: Graph) -> list[Node]:
    """Return the nodes with parameters that do not belong to the head."""
    head = set(ModelSpec.of(graph).head)
    return [node for node in graph.nodes if any(node.full_name(name) not in head for name in node.op.parameters())]


def _numbered(name: str, body: Sequence[Node], products: Container[str]) -> str:
    """Return the beginning of a layer's name up to the number of its block, or "" for a layer without a number."""
    parts, shared = name.split("."), _shared_parts(body)
    at = next((at for at, part in enumerate(parts) if at >= shared and part.isdecimal()), None)
    if at is None:
        return ""
    while at + 1 < len(parts) and _is_stage(".".join(parts[: at + 1]), body, products):
        at += 1
    return ".".join(parts[: at + 1])


def _shared_parts(body: Sequence[Node]) -> int:
    """Return how many leading parts of the names all layers have in common, as 1 for a backbone in a Sequential."""
    parents = [node.name.split(".")[:-1] for node in body]
    levels = zip(*parents, strict=False)
    return next((at for at, level in enumerate(levels) if len(set(level)) > 1), min(map(len, parents)))


def _is_stage(prefix: str, body: Sequence[Node], products: Container[str]) -> bool:
    """Return whether a numbered part consists of numbered parts with at least two products each."""
    counts: dict[str, int] = {}
    for node in body:
        if _is_in(node.name, prefix):
            child = node.name[len(prefix) + 1 :].partition(".")[0]
            counts[child] = counts.get(child, 0) + (node.name in products)
    return all(child.isdecimal() and count >= 2 for child, count in counts.items())


def _is_in(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(f"{prefix}.")
