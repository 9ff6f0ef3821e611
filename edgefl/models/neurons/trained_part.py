"""The trained part of a model, chosen by patterns over the names of its parameters. All other parameters are frozen.

    head, biases, norms, last:K, blocks.11.*, *.bias, -conv1.*, fc.weight[0:8], fc.weight[:, 0:32]

Patterns are separated by commas and apply from left to right. A pattern is a glob over full names of parameters, which
Python's fnmatch reads, or one of the words `head`, `biases`, `norms` and `last:K`. A pattern with `-` before it takes
away. If the first pattern takes away, it takes away from the whole model. model_blocks.py finds the blocks of `last:K`.

A pattern with rows or columns in brackets chooses a slice (slice_patterns.py). A parameter that another pattern chooses
as a whole is trained as a whole.

A running statistic has a name like a parameter. The statistics of a BatchNorm follow the batches if patterns name both
of them. Otherwise they keep their bits, and the BatchNorm normalises by them in training, too.

A constant of the graph (Graph.constants) is never trained: patterns leave it out, and its own name is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from edgefl.errors import GraphError, nearest
from edgefl.models.graph import Graph
from edgefl.models.graph.operations import BatchNorm, GroupNorm, LayerNorm, Linear, RMSNorm
from edgefl.models.graph.parameter_slices import SlicedParameter
from edgefl.models.neurons.model_blocks import blocks, parameters_from
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.slice_patterns import MOST_CHARACTERS, SlicePattern, slice_pattern, split

WORDS = ("head", "biases", "norms", "last:K")
STATISTICS = ("running_mean", "running_var")
SHOWN = 3  # names in an error message


def with_trained(graph: Graph, text: str) -> Graph:
    """Return the graph in which patterns choose the trained parameters. All others are frozen. An empty text leaves
    the graph as it is.

    A parameter that is frozen in `graph` is trained if a pattern chooses it. A BatchNorm that keeps its running
    statistics in `graph` keeps them in the result.
    Raises  GraphError for a pattern that chooses nothing or is not a pattern, or if no parameter is left to train.
    """
    if not text:
        return graph
    parts = chosen_parts(graph, text)
    chosen = parts.keys() - _kept_statistics(graph)
    for node in graph.nodes:
        if isinstance(node.op, BatchNorm):
            statistics = {node.full_name(name) for name in STATISTICS}
            chosen -= statistics if statistics - chosen else set()
    frozen = frozenset(graph.parameters()) - chosen
    slices = sorted(part for name, part in parts.items() if part is not None and name not in frozen)
    found = replace(graph, frozen=frozen, slices=tuple(slices))
    if not ModelSpec.of(found).learned:
        raise GraphError(f"train={text[:MOST_CHARACTERS]} leaves no parameter to train; expected at least one")
    return found


def head_hint(graph: Graph, text: str) -> str | None:
    """Return a hint for patterns that train the bias of the head and leave its weight as it is, or None.

    A new head whose weight keeps its random values learns little. A pattern that takes the weight away is no mistake.

    graph  result of `with_trained` for these patterns
    """
    last = next((node for node in reversed(graph.nodes) if isinstance(node.op, Linear)), None)
    if not text or last is None:
        return None
    weight, bias = last.full_name("weight"), last.full_name("bias")
    infos = graph.parameters()
    kinds = [infos[name].kind if name in infos else None for name in (weight, bias)]
    away = (pattern[1:].strip() for pattern in patterns(text) if pattern.startswith("-"))
    if kinds != ["frozen", "learn"] or weight in graph.constants or any(weight in _matches(graph, it) for it in away):
        return None
    return f"train={text} leaves {weight} as it is: write {text},head to train a new head, too"


def chosen_parts(graph: Graph, text: str) -> dict[str, SlicedParameter | None]:
    """Return the parameters and running statistics that the patterns choose, each with its slice.

    The slice of a whole parameter is None.
    Raises  GraphError like `with_trained`
    """
    chosen: dict[str, SlicedParameter | None] = {}
    for number, pattern in enumerate(patterns(text)):
        if (sliced := slice_pattern(pattern)) is not None:
            _add_slices(chosen, graph, sliced)
            continue
        takes_away = pattern.startswith("-")
        found = _matches(graph, pattern.removeprefix("-").strip())
        if takes_away:
            before = chosen if number else dict.fromkeys(_trainable(graph))
            chosen = {name: part for name, part in before.items() if name not in found}
            continue
        found = _without_constants(graph, pattern, found)
        if all(name.rpartition(".")[2] in STATISTICS for name in found):
            raise GraphError(
                f"train={pattern[:MOST_CHARACTERS]} names running statistics alone, as {min(found)}; expected a "
                "pattern that also names weights or biases, which training moves"
            )
        chosen |= dict.fromkeys(found)
    return chosen


def _add_slices(chosen: dict[str, SlicedParameter | None], graph: Graph, sliced: SlicePattern) -> None:
    """Add the slices of one pattern to the chosen parts. A parameter that is chosen as a whole stays whole."""
    infos = replace(graph, frozen=frozenset(), slices=(), constants=frozenset()).parameters()
    for name in sorted(_without_constants(graph, sliced.text, _matches(graph, sliced.names))):
        part = sliced.of(name, infos[name])
        before = chosen.get(name, part)
        if before is not None and part is not None and before != part:
            raise GraphError(
                f"train={sliced.text} names a second slice of {name} after {before.text}; expected one slice of a "
                "parameter"
            )
        chosen[name] = None if before is None else part


def _trainable(graph: Graph) -> list[str]:
    return [name for name in graph.parameters() if name not in graph.constants]


def _without_constants(graph: Graph, pattern: str, found: frozenset[str]) -> frozenset[str]:
    """Return the names that are not constants. Raises GraphError if a pattern names constants alone."""
    if found <= graph.constants:
        raise GraphError(
            f"train={pattern[:MOST_CHARACTERS]} names {min(found)}, a constant or buffer of the model's code, which is "
            "never trained; expected names of the module's parameters"
        )
    return found - graph.constants


def patterns(text: str) -> tuple[str, ...]:
    """Return the patterns of a text. Raises GraphError for an empty pattern, a wrong slice and a wrong `last:K`.

    These checks need no model.
    """
    found = tuple(part.strip() for part in split(text))
    for pattern in found:
        name, shown = pattern.removeprefix("-").strip(), pattern[:MOST_CHARACTERS]
        if not name:
            raise GraphError(f"train={text[:MOST_CHARACTERS]!r} has an empty pattern; expected {_expected()}")
        slice_pattern(pattern)
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
            raise GraphError("train=norms, but the model has no BatchNorm, GroupNorm, LayerNorm or RMSNorm")
        return found
    if pattern.startswith("last:"):
        return _last(graph, int(pattern[5:]))
    fits = _is_bias if pattern == "biases" else (lambda name: fnmatchcase(name, pattern))
    found = frozenset(filter(fits, infos))
    if not found:
        raise GraphError(f"train={pattern[:MOST_CHARACTERS]} names no parameter; {_remedy(pattern, _trainable(graph))}")
    return found


def _of_norms(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        if isinstance(node.op, BatchNorm | GroupNorm | LayerNorm | RMSNorm):
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


def _remedy(pattern: str, names: Sequence[str]) -> str:
    """Return the nearest names, or the form of a pattern with some names of the model."""
    layers = {f"{name[:at]}.*": None for name in names for at in range(len(name)) if name[at] == "."}
    if f"{pattern}.*" in layers:
        return f"expected {pattern}.* for the parameters of the layer {pattern}"
    near = nearest(pattern, [*names, *layers, *WORDS], SHOWN)
    if near:
        return f"the nearest {'is' if len(near) == 1 else 'are'} {', '.join(near)}"
    return f"expected {_expected()}, over names such as {', '.join(names[:SHOWN])}"


def _expected() -> str:
    return f"names of parameters with * and ?, or {', '.join(WORDS[:-1])} or {WORDS[-1]}"
