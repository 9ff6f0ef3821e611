"""Values of an exported graph that do not depend on the input or on parameters, computed by torch itself.

Sizes of the batch have the example's value while such values are computed. A value that differs from example to example
of a batch is refused. aten_lifting.py decides which nodes are constant.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from edgefl.errors import GraphError
from edgefl.torch.code_lines import packet

FILLING = {"new_zeros": 0.0, "zeros_like": 0.0, "new_ones": 1.0, "ones_like": 1.0}
"""The value of tensors that have nothing but the type or the shape of another tensor, by the operation's name."""


class Constants:
    """The known values of an exported graph: buffers, sizes, and whatever is computed from them alone."""

    def __init__(self) -> None:
        self._values: dict[fx.Node, Any] = {}

    def __contains__(self, node: object) -> bool:
        return node in self._values

    def set(self, node: fx.Node, value: Any) -> None:
        self._values[node] = value

    def concrete(self, arguments: Any) -> Any:
        """Return arguments with known values in place of nodes."""
        return fx.node.map_arg(arguments, lambda node: self._values[node])

    def compute(self, node: fx.Node) -> None:
        """Compute a node, all of whose arguments are known.

        Raises  GraphError for random values.
        """
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise GraphError("random values; expected a Dropout, or a forward without random values")
        with torch.no_grad():
            self._values[node] = node.target(*self.concrete(node.args), **self.concrete(node.kwargs))  # type: ignore[operator]

    def fill(self, node: fx.Node, batch_size: int) -> None:
        """Set a node of FILLING, whose shape is known but for the batch."""
        found = node.meta["val"]
        sizes = [batch_size if isinstance(size, torch.SymInt) else size for size in found.shape]
        self._values[node] = torch.full(sizes, FILLING[packet(node)], dtype=found.dtype)

    def of(self, node: fx.Node) -> Any:
        """Return a known value. An axis of the batch has length 1.

        Raises  GraphError for a value that differs along the batch.
        """
        found = self._values[node]
        if not isinstance(found, Tensor):
            return found
        for axis, size in enumerate(node.meta["val"].shape if hasattr(node.meta.get("val"), "shape") else ()):
            if isinstance(size, torch.SymInt):
                row = found.narrow(axis, 0, 1)
                if not torch.equal(row.expand_as(found), found):
                    raise GraphError("a constant that differs between the examples of a batch; expected one for all")
                found = row
        return found
