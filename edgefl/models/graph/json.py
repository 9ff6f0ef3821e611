"""A Graph as JSON text and back. No file is touched, no parameters are read, and no text is evaluated.

    {"format": "edgefl.graph.1", "input_shape": [1, 8, 8], "nodes": [
        {"name": "conv1", "op": "Conv2d", "inputs": ["input"], "settings": {"in_channels": 1, ...}}, ...]}

A graph with frozen parameters has one more key, "frozen", with their names in alphabetical order. A node with
parameters whose names do not follow from its own name has one more key, "parameters", with their full names. A graph
with computed parameters has one more key, "computed", with {"name", "op", "sources", "settings"} for each of them. A
graph with auxiliary outputs has one more key, "auxiliary", with {"result", "weight"} for each of them. A graph with
parameters that are trained in part has one more key, "slices", with {"name", "rows", "cols"} for each of them, where
rows and columns are [first, end] or null. A graph with constants has one more key, "constants", with their names in
alphabetical order. A graph with quantized parameters has one more key, "quantized", with {"name", "precision", "axis"}
for each of them.

"op" is a class name of operations/, and "settings" has every field of the class, with pairs as lists. Every key is
required. Only settings that came later (Operation.later) are left out where they have their defaults. Unknown keys and
repeated keys are refused. A text, a graph or a model that is larger than the declared limits is refused, too.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from edgefl.errors import GraphError
from edgefl.models.graph.auxiliary_outputs import AuxiliaryOutput
from edgefl.models.graph.computed_parameters import PARAMETER_OPERATIONS, ComputedParameter, ParameterOperation
from edgefl.models.graph.graph import Graph, Node
from edgefl.models.graph.operations import OPERATIONS, Operation
from edgefl.models.graph.parameter_slices import Range, SlicedParameter
from edgefl.models.graph.quantized_parameters import QuantizedParameter

FORMAT = "edgefl.graph.1"
LATER = ("frozen", "computed", "auxiliary", "slices", "constants", "quantized")
"""The keys that a graph has where it needs them."""


@dataclass(frozen=True)
class Limits:
    """The largest graph that is accepted.

    Parameters and activations are counted before any memory is allocated for them.
    """

    text_bytes: int = 1 << 20
    nodes: int = 4096
    parameters: int = 1 << 29  # scalars of the whole model, running statistics included
    activations: int = 1 << 28  # scalars of all results for one sample


def dumps(graph: Graph) -> str:
    """Return the canonical text of a graph, with sorted keys and no spaces. Equal graphs give equal texts."""
    nodes = [_record(node) for node in graph.nodes]
    document = {"format": FORMAT, "input_shape": graph.input_shape, "nodes": nodes}
    if graph.frozen:
        document["frozen"] = sorted(graph.frozen)
    if graph.constants:
        document["constants"] = sorted(graph.constants)
    if graph.auxiliary:
        document["auxiliary"] = [asdict(each) for each in graph.auxiliary]
    if graph.slices:
        document["slices"] = [each._asdict() for each in graph.slices]
    if graph.quantized:
        document["quantized"] = [each._asdict() for each in graph.quantized]
    if graph.computed:
        document["computed"] = [
            {"name": each.name, "op": each.op.title, "sources": each.sources, "settings": _settings(each.op)}
            for each in graph.computed
        ]
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _record(node: Node) -> dict[str, Any]:
    record = {"name": node.name, "op": node.op.title, "inputs": node.inputs, "settings": _settings(node.op)}
    return record | ({"parameters": dict(node.named)} if node.named else {})


def _settings(op: Operation) -> dict[str, Any]:
    """Return every field of an operation. Fields that came later are left out where they have their defaults."""
    defaults = {field.name: field.default for field in fields(op) if field.name in op.later}
    return {name: value for name, value in asdict(op).items() if name not in defaults or value != defaults[name]}


def loads(text: str | bytes, limits: Limits | None = None) -> Graph:
    """Return the graph that `text` describes. If `limits` is None, the limits are Limits().

    Raises  GraphError that names the part that is malformed, contradictory or above a limit.
    """
    limits = limits or Limits()
    size_bytes = len(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    _limit("graph text", size_bytes, limits.text_bytes, "bytes")
    document = _parse(text)
    later = [key for key in LATER if isinstance(document, dict) and key in document]
    document = _fields(document, "graph", ("format", "input_shape", "nodes", *later))
    if document["format"] != FORMAT:
        raise GraphError(f"graph format {document['format']!r}; expected {FORMAT!r}")
    listed = _list(document["nodes"], "nodes")
    _limit("graph", len(listed), limits.nodes, "nodes")
    frozen, constants = _names(document, "frozen"), _names(document, "constants")
    input_shape = tuple(_list(document["input_shape"], "input_shape"))
    found = _list(document.get("computed", []), "computed")
    _limit("graph", len(found), limits.nodes, "computed parameters")
    computed = tuple(_computed(item) for item in found)
    _limit("graph", sum(math.prod(each.op.result) for each in computed), limits.parameters, "computed values")
    auxiliary = tuple(_auxiliary(item) for item in _list(document.get("auxiliary", []), "auxiliary"))
    slices = tuple(_slice(item) for item in _list(document.get("slices", []), "slices"))
    quantized = tuple(_quantized(item) for item in _list(document.get("quantized", []), "quantized"))
    nodes = tuple(_node(item) for item in listed)
    graph = Graph(input_shape, nodes, frozen, computed, auxiliary, slices, constants, quantized)
    _limit("graph", sum(math.prod(info.shape) for info in graph.parameters().values()), limits.parameters, "parameters")
    _limit("graph", sum(math.prod(shape) for shape in graph.shapes.values()), limits.activations, "activations")
    return graph


def _names(document: dict[str, Any], key: str) -> frozenset[str]:
    found = _list(document.get(key, []), key)
    if not all(isinstance(name, str) for name in found):
        raise GraphError(f"{key} is {found!r:.200}; expected a list of names of parameters")
    return frozenset(found)


def _node(item: Any) -> Node:
    later = ("parameters",) if isinstance(item, dict) and "parameters" in item else ()
    record = _fields(item, "node", ("name", "op", "inputs", "settings", *later))
    name, title = record["name"], record["op"]
    if not isinstance(name, str) or not isinstance(title, str) or title not in OPERATIONS:
        raise GraphError(f"node {name!r}: operation {title!r}; expected a name and one of {sorted(OPERATIONS)}")
    inputs = tuple(_list(record["inputs"], f"node {name!r}: inputs"))
    if not all(isinstance(value, str) for value in inputs):
        raise GraphError(f"node {name!r}: inputs {inputs!r}; expected names")
    try:
        return Node(name, _op(OPERATIONS[title], record["settings"]), inputs, _named(record.get("parameters", {})))
    except GraphError as error:
        raise GraphError(f"node {name!r}: {error}") from None


def _auxiliary(item: Any) -> AuxiliaryOutput:
    record = _fields(item, "auxiliary output", ("result", "weight"))
    if not isinstance(record["result"], str):
        raise GraphError(f"auxiliary output {record['result']!r:.200}; expected the name of a result")
    return AuxiliaryOutput(**record)


def _computed(item: Any) -> ComputedParameter:
    record = _fields(item, "computed parameter", ("name", "op", "sources", "settings"))
    name, title, sources = record["name"], record["op"], _list(record["sources"], "sources")
    if not isinstance(name, str) or not isinstance(title, str) or title not in PARAMETER_OPERATIONS:
        expected = f"a name and one of {sorted(PARAMETER_OPERATIONS)}"
        raise GraphError(f"computed parameter {name!r}: operation {title!r}; expected {expected}")
    if not all(isinstance(value, str) for value in sources):
        raise GraphError(f"computed parameter {name!r}: sources {sources!r:.200}; expected names")
    try:
        op = _op(PARAMETER_OPERATIONS[title], record["settings"])
    except GraphError as error:
        raise GraphError(f"computed parameter {name!r}: {error}") from None
    assert isinstance(op, ParameterOperation)
    return ComputedParameter(name, op, tuple(sources))


def _slice(item: Any) -> SlicedParameter:
    record = _fields(item, "slice", ("name", "rows", "cols"))
    if not isinstance(record["name"], str):
        raise GraphError(f"slice of {record['name']!r:.200}; expected the name of a parameter")
    return SlicedParameter(record["name"], *(_range(record["name"], record[axis]) for axis in ("rows", "cols")))


def _quantized(item: Any) -> QuantizedParameter:
    record = _fields(item, "quantized parameter", ("name", "precision", "axis"))
    if not isinstance(record["name"], str):
        raise GraphError(f"quantized parameter {record['name']!r:.200}; expected the name of a parameter")
    return QuantizedParameter(**record)


def _range(name: str, found: Any) -> Range | None:
    if found is None:
        return None
    if not isinstance(found, list) or len(found) != 2 or not all(type(at) is int for at in found):
        raise GraphError(f"slice of {name[:200]!r}: {found!r:.200}; expected [first, end] or null")
    return found[0], found[1]


def _named(names: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise GraphError(f"parameters are {names!r:.200}; expected full names by the last parts of the names")
    return tuple(sorted(names.items()))


def _op(kind: type[Operation], settings: Any) -> Operation:
    present = [name for name in kind.later if isinstance(settings, dict) and name in settings]
    names = tuple(field.name for field in fields(kind) if field.name not in kind.later or field.name in present)
    values = _fields(settings, f"settings of {kind.__name__}", names)
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def _parse(text: str | bytes) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GraphError(f"graph text is not JSON: {error}") from None
    except GraphError:
        raise
    except ValueError as error:  # an integer with more digits than Python converts
        raise GraphError(f"graph text has a bad number: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise GraphError(f"graph text repeats a key among {[key for key, _ in pairs]}; expected each key once")
    return values


def _refuse_constant(name: str) -> None:
    raise GraphError(f"graph text has the number {name}; expected finite numbers")


def _fields(value: Any, what: str, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != set(names):
        found = sorted(value) if isinstance(value, dict) else type(value).__name__
        raise GraphError(f"{what} has {found}; expected exactly {sorted(names)}")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise GraphError(f"{what} is {type(value).__name__}; expected a list")
    return value


def _limit(what: str, count: int, limit: int, unit: str) -> None:
    if count > limit:
        raise GraphError(f"{what} of {count} {unit}; the limit is {limit}")
