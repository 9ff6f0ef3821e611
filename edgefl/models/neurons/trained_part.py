"""The trained part of a model, chosen by patterns over the names of its parameters. All other parameters are frozen.

    head, biases, norms, last:K, blocks.11.*, *.bias, -conv1.*

Patterns are separated by commas and apply from left to right. A pattern is a glob over full names of parameters, which
Python's fnmatch reads, or one of the words `head`, `biases`, `norms` and `last:K`. A pattern with `-` before it takes
away. If the first pattern takes away, it takes away from the whole model. model_blocks.py finds the blocks of `last:K`.

A running statistic has a name like a parameter. The statistics of a BatchNorm follow the batches if patterns name both
of them. Otherwise they keep their bits, and the BatchNorm normalises by them in training, too. A slice of a parameter
is not chosen here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

from edgefl.errors import GraphError, nearest
from edgefl.models.graph import Graph
from edgefl.models.graph.operations import BatchNorm, GroupNorm, LayerNorm
from edgefl.models.neurons.model_blocks import blocks, parameters_from
from edgefl.models.neurons.model_spec import ModelSpec

WORDS = ("head", "biases", "norms", "last:K")
STATISTICS = ("running_mean", "running_var")
SLICE = re.compile(r"\[[^]]*:[^]]*\]")
SHOWN = 3  # names in an error message
MOST_CHARACTERS = 100  # characters of a pattern in an error message


def with_trained(graph: Graph, text: str) -> Graph:
    """Return the graph in which patterns choose the trained parameters. All others are frozen. An empty text leaves
    the graph as it is.

    A parameter that is frozen in `graph` is trained if a pattern chooses it. A BatchNorm that keeps its running
    statistics in `graph` keeps them in the result.
    Raises  GraphError for a pattern that chooses nothing or is not a pattern, or if no parameter is left to train.
    """
    if not text:
        return graph
    chosen = chosen_names(graph, text) - _kept_statistics(graph)
    for node in graph.nodes:
        if isinstance(node.op, BatchNorm):
            statistics = {node.full_name(name) for name in STATISTICS}
            chosen -= statistics if statistics - chosen else set()
    frozen = frozenset(graph.parameters()) - chosen
    found = replace(graph, frozen=frozen)
    if not ModelSpec.of(found).learned:
        raise GraphError(f"train={text[:MOST_CHARACTERS]} leaves no parameter to train; expected at least one")
    return found


def chosen_names(graph: Graph, text: str) -> frozenset[str]:
    """Return the names of the parameters and running statistics that the patterns choose. Raises GraphError like
    `with_trained`.
    """
    chosen: frozenset[str] = frozenset()
    for number, pattern in enumerate(patterns(text)):
        takes_away = pattern.startswith("-")
        found = _matches(graph, pattern.removeprefix("-").strip())
        if takes_away:
            chosen = (chosen if number else frozenset(graph.parameters())) - found
            continue
        if all(name.rpartition(".")[2] in STATISTICS for name in found):
            raise GraphError(
                f"train={pattern[:MOST_CHARACTERS]} names running statistics alone, as {min(found)}; expected a "
                "pattern that also names weights or biases, which training moves"
            )
        chosen |= found
    return chosen


def patterns(text: str) -> tuple[str, ...]:
    """Return the patterns of a text. Raises GraphError for an empty pattern, for a slice and for a wrong `last:K`.

    These checks need no model.
    """
    found = tuple(part.strip() for part in text.split(","))
    for pattern in found:
        name, shown = pattern.removeprefix("-").strip(), pattern[:MOST_CHARACTERS]
        if not name:
            raise GraphError(f"train={text[:MOST_CHARACTERS]!r} has an empty pattern; expected {_expected()}")
        if SLICE.search(name):
            raise GraphError(
                f"train={shown} names a slice of a parameter; expected whole parameters, as in "
                f"{SLICE.sub('', name)[:MOST_CHARACTERS]}: a slice of channels is trained by Learner.fit alone"
            )
        if name.startswith("last:") and not (name[5:].isdecimal() and int(name[5:])):
            raise GraphError(f"train={shown}; expected last:K with a number of blocks K >= 1")
    return found


def _matches(graph: Graph, pattern: str) -> frozenset[str]:
    """Return the names that one pattern chooses."""
    infos = graph.parameters()
    if pattern == "head":
        head = ModelSpec.of(graph).head
        if not head:
            raise GraphError("train=head, but the model has no Linear layer; expected the names of its last layer")
        return frozenset(head)
    if pattern == "norms":
        found = frozenset(_of_norms(graph))
        if not found:
            raise GraphError("train=norms, but the model has no BatchNorm, GroupNorm or LayerNorm")
        return found
    if pattern.startswith("last:"):
        return _last(graph, int(pattern[5:]))
    fits = _is_bias if pattern == "biases" else (lambda name: fnmatchcase(name, pattern))
    found = frozenset(filter(fits, infos))
    if not found:
        raise GraphError(f"train={pattern[:MOST_CHARACTERS]} names no parameter; {_remedy(pattern, infos)}")
    return found


def _of_norms(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        if isinstance(node.op, BatchNorm | GroupNorm | LayerNorm):
            yield from (node.full_name(name) for name in node.op.parameters())


def _last(graph: Graph, count: int) -> frozenset[str]:
    found = blocks(graph)
    if count > len(found):
        ends = " to ".join(dict.fromkeys((found[0], found[-1]))) if found else ""
        raise GraphError(f"train=last:{count}, but the model has {len(found)} blocks{f', {ends}' if ends else ''}")
    return parameters_from(graph, found[-count])


def _is_bias(name: str) -> bool:
    """Return whether a parameter is a bias, by the names that torch gives: bias, in_proj_bias, bias_ih_l0."""
    last = name.rpartition(".")[2]
    return last.startswith("bias") or last.endswith("bias")


def _kept_statistics(graph: Graph) -> frozenset[str]:
    nodes = (node for node in graph.nodes if graph.keeps_statistics(node))
    return frozenset(node.full_name(name) for node in nodes for name in STATISTICS)


def _remedy(pattern: str, names: Iterable[str]) -> str:
    """Return the nearest names, or the form of a pattern with some names of the model."""
    names = list(names)
    layers = {f"{name[:at]}.*": None for name in names for at in range(len(name)) if name[at] == "."}
    if f"{pattern}.*" in layers:
        return f"expected {pattern}.* for the parameters of the layer {pattern}"
    near = nearest(pattern, [*names, *layers, *WORDS], SHOWN)
    if near:
        return f"the nearest {'is' if len(near) == 1 else 'are'} {', '.join(near)}"
    return f"expected {_expected()}, over names such as {', '.join(names[:SHOWN])}"


def _expected() -> str:
    return f"names of parameters with * and ?, or {', '.join(WORDS[:-1])} or {WORDS[-1]}"
