"""Nodes of an exported graph that only move values, followed until a graph has their result.

Moves are followed of the result of an attention until its heads are joined, and over more axes than a graph has. Steps
that nn.MultiheadAttention merges with the examples are followed, too, and windows that are merged with the batch.
"""

from __future__ import annotations

import torch
from torch import Tensor, fx

from edgefl.errors import GraphError
from edgefl.torch.code_lines import packet
from edgefl.torch.exchanged_values import exchanged
from edgefl.torch.merged_windows import is_by_features, is_read, windows_of
from edgefl.torch.moved_values import MOVING, VIEWS, SizedGraph, moved, numbered
from edgefl.torch.traced_call import refused

MOST_RANK = 4  # axes of a result, with the batch

BY_STEP = ("linear", "addmm", "mm", "matmul", "relu", "gelu", "silu", "tanh", "sigmoid", "dropout")
"""Layers and functions that compute the features of each step alone."""


def _flattens(node: fx.Node, source: fx.Node) -> bool:
    """Return whether a view makes [batch * steps, features] of [batch, steps, features]."""
    before, after = source.meta["val"].shape, node.meta["val"].shape
    if len(before) != 3 or len(after) != 2 or not isinstance(after[0], torch.SymInt) or before[2] != after[1]:
        return False
    return isinstance(before[0], torch.SymInt) and isinstance(before[1], int) and before[1] > 1


class FollowedMoves:
    """The moves of one exported graph.

    attended  results of attention that forward moves: the call for the result with joined heads, where its values are
              now, and where they are with joined heads
    far       nodes of more axes than a graph has, and the node whose values they are
    merged    nodes [steps * batch, features], whose calls are [batch, steps, features]
    flat      nodes [batch * steps, features], whose calls are [batch, steps, features], with their number of steps
    windows   nodes [batch * windows, steps, features], whose calls are [batch, windows, steps, features], with their
              number of windows
    """

    def __init__(self) -> None:
        self.attended: dict[fx.Node, tuple[fx.Node, Tensor, Tensor]] = {}
        self.far: dict[fx.Node, fx.Node] = {}
        self.merged: set[fx.Node] = set()
        self.flat: dict[fx.Node, int] = {}
        self.windows: dict[fx.Node, int] = {}

    def call_for(self, lift: SizedGraph, node: fx.Node) -> fx.Node | None:
        """Return the call for a node that moves values, or None for a node that the tables read."""
        source = node.args[0] if node.args else None
        if any(each in self.merged for each in node.all_input_nodes):
            return self._of_merged(lift, node)
        if any(each in self.flat for each in node.all_input_nodes):
            return self._of_flat(lift, node)
        if read := next((each for each in node.all_input_nodes if each in self.windows), None):
            if is_by_features(node, self.windows):
                self.windows[node] = windows_of(node)
                return None
            if packet(node) not in MOVING:
                told = f"{packet(node)} of {self.windows[read]} windows in the batch"
                raise GraphError(f"{told}; expected layers of single steps, and attention within windows")
        if packet(node) not in MOVING or not isinstance(source, fx.Node):
            return None
        if packet(node) in VIEWS and _flattens(node, source):
            self.flat[node] = int(source.meta["val"].shape[1])
            found: fx.Node = lift.lifted(source)
            return found
        if source in self.attended:
            return self._of_attended(lift, node, source)
        rank, count = len(getattr(node.meta.get("val"), "shape", ())), windows_of(node)
        if source not in self.far and rank <= MOST_RANK and (count < 2 or rank < 3):
            return None
        start = self.far.get(source, source)
        if count > 1 and 3 <= rank <= MOST_RANK:
            if rank != 3 or not is_read(node, MOVING):
                self.far[node] = start
                return lift.call(refused, f"{count} windows in the batch; expected [batch * {count}, steps, features]")
            self.windows[node] = count
            places = moved(lift, node, start, numbered(lift.extents(start)))
            return exchanged(lift, start, places.reshape(-1, count, *places.shape[1:]), self.windows.get(start, 1))
        if rank > MOST_RANK:
            self.far[node] = start
            return lift.call(refused, f"a view of {rank} axes; expected at most {MOST_RANK}")
        places = moved(lift, node, start, numbered(lift.extents(start)))
        return exchanged(lift, start, places, self.windows.get(start, 1))

    def _of_attended(self, lift: SizedGraph, node: fx.Node, source: fx.Node) -> fx.Node:
        result, places, joined = self.attended[source]
        found = moved(lift, node, source, places)
        if found.shape == joined.shape and torch.equal(found, joined):
            if windows_of(node) > 1:
                self.windows[node] = windows_of(node)
            return result
        by_steps = joined.transpose(0, 1).flatten(0, 1)
        if found.shape == by_steps.shape and torch.equal(found, by_steps):
            self.merged.add(node)
            return result
        self.attended[node] = (result, found, joined)
        return lift.call(refused, "the result of attention in an order without joined heads")

    def _of_flat(self, lift: SizedGraph, node: fx.Node) -> fx.Node | None:
        """Return the call for a view [batch, steps, features], or None for a layer or function of single steps."""
        steps = next(self.flat[each] for each in node.all_input_nodes if each in self.flat)
        sizes = node.meta["val"].shape
        if packet(node) in BY_STEP:
            self.flat[node] = steps
            return None
        if packet(node) in VIEWS and len(sizes) == 3 and sizes[1] == steps and node.args[0] in self.flat:
            source = node.args[0]
            if isinstance(source, fx.Node) and sizes[2] == source.meta["val"].shape[1]:
                found: fx.Node = lift.lifted(source)
                return found
        raise GraphError(f"examples and {steps} steps in one axis; expected a view [batch, {steps}, features]")

    def _of_merged(self, lift: SizedGraph, node: fx.Node) -> fx.Node | None:
        """Return the call for a view [steps, batch, features], or None for a Linear layer, whose result is merged."""
        if packet(node) == "linear" and node.args[0] in self.merged:
            self.merged.add(node)
            return None
        sizes = node.meta["val"].shape
        if packet(node) in VIEWS and len(sizes) == 3 and isinstance(sizes[1], torch.SymInt):
            return lift.call(torch.transpose, lift.lifted(node.args[0]), 0, 1)
        raise GraphError("steps and examples in one axis; expected [batch, steps, features]")
