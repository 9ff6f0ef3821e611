"""The outputs of a module: one tensor, or several in a tuple, dict or dataclass, of which one is the graph's output.

The loss of each further output is added in training with the caller's weight, or the further output is left out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from edgefl.errors import GraphError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

Key = int | str  # position of an output, or its name in a dict or dataclass
Names = tuple[tuple[int, str], ...]  # position among all leaves of the returned value, and name, of each tensor


class WantedOutputs(NamedTuple):
    """The wishes of the caller of a conversion for the outputs.

    output   main output, or None for the first
    weights  weights of the losses of further outputs
    """

    output: Key | None = None
    weights: Mapping[Key, float] = {}

    @property
    def are_open(self) -> bool:
        """Return whether the caller has named no output and no weight."""
        return self.output is None and not self.weights


FIRST = WantedOutputs()
"""The first output alone."""


class Chosen(NamedTuple):
    """The outputs that a graph has: the main output first.

    places   positions among the leaves of the returned value
    names    names by which the outputs are found in another mode
    weights  weights of all outputs but the main one
    """

    places: tuple[int, ...]
    names: tuple[str, ...]
    weights: tuple[float, ...] = ()


def output_names(program: ExportedProgram) -> Names:
    """Return the positions and names of the tensors that an exported module returns, without None."""
    from torch.utils import _pytree as pytree  # part of every torch that has torch.export

    spec = program.call_spec.out_spec
    leaves = next(node for node in reversed(program.graph.nodes) if node.op == "output").args[0]
    paths = pytree.tree_flatten_with_path(pytree.tree_unflatten(list(range(spec.num_leaves)), spec))[0]
    return tuple((at, _name(path)) for path, at in paths if leaves[at] is not None)


def output_named(returned: Any, name: str) -> Tensor | None:
    """Return one of the outputs that a module returned, or None if it has not returned it."""
    if isinstance(returned, Tensor):
        return returned
    from torch.utils import _pytree as pytree

    leaves = [(_name(path), leaf) for path, leaf in pytree.tree_flatten_with_path(returned)[0] if leaf is not None]
    if len(leaves) == 1:
        return leaves[0][1]
    return dict(leaves).get(name)


def _name(path: Sequence[Any]) -> str:
    """Return the name of an output: keys, attributes and positions, joined by dots."""
    keys = [next(getattr(key, part) for part in ("idx", "key", "name") if hasattr(key, part)) for key in path]
    return ".".join(map(str, keys))


def chosen(names: Names, others: Names, wanted: WantedOutputs) -> Chosen:
    """Return the outputs of the graph in training mode.

    names    outputs in training mode
    others   outputs in evaluation mode
    Raises   GraphError for an output that the module does not have, and if the choice must be the caller's
    """
    told = ", ".join(name or "the tensor" for _, name in names)
    if wanted.are_open and len(names) != len(others):
        raise GraphError(
            f"the module returns {len(names)} outputs in training ({told}) and {len(others)} in evaluation; expected "
            "the outputs to train: from_torch(..., output=name, outputs={name: weight})"
        )
    main = 0 if wanted.output is None else _position(names, wanted.output)
    further: dict[int, float] = {}
    for key, weight in wanted.weights.items():
        at = _position(names, key)
        if not isinstance(weight, int | float) or not 0 < weight < math.inf:
            raise GraphError(f"outputs={{{key!r}: {weight!r}}}; expected a finite weight above 0")
        if at == main or at in further:
            raise GraphError(f"outputs names {key!r} beside output={wanted.output!r}; expected each output once")
        further[at] = float(weight)
    _say_left_out([name for at, (_, name) in enumerate(names) if at != main and at not in further], names[main][1])
    order = (main, *further)
    return Chosen(tuple(names[at][0] for at in order), tuple(names[at][1] for at in order), tuple(further.values()))


def found_again(found: Chosen, names: Names) -> Chosen:
    """Return the chosen outputs that the module also has in evaluation mode, where it may return the main one alone."""
    if len(names) == 1:
        return Chosen((names[0][0],), found.names[:1])
    places = {name: at for at, name in names}
    if found.names[0] not in places:
        raise GraphError(f"in evaluation the module returns {', '.join(places)}; expected output {found.names[0]!r}")
    kept = [at for at, name in enumerate(found.names) if name in places]
    return Chosen(tuple(places[found.names[at]] for at in kept), tuple(found.names[at] for at in kept),
                  tuple(found.weights[at - 1] for at in kept[1:]))  # fmt: skip


def _position(names: Names, key: Key) -> int:
    found = key if isinstance(key, int) else next((at for at, (_, name) in enumerate(names) if name == key), -1)
    if not 0 <= found < len(names):
        told = ", ".join(
            f"{at} ({name})" if name and name != str(at) else str(at) for at, (_, name) in enumerate(names)
        )
        raise GraphError(f"output {key!r}; expected one of the module's outputs: {told}")
    return found


def _say_left_out(names: list[str], main: str) -> None:
    if names:
        warnings.warn(
            f"the module returns {len(names) + 1} outputs: the graph has output {main}, and leaves out "
            f"{', '.join(names)}. from_torch(..., outputs={{name: weight}}) trains further outputs",
            stacklevel=2,
        )
