"""The neuron groups along the axes 0 (rows) and 1 (cols) of a parameter, from the groups along its node's results."""

from __future__ import annotations

from collections.abc import Mapping

from edgefl.models.graph import Node
from edgefl.models.graph.operations import (
    Attention,
    Conv2d,
    ConvTranspose2d,
    Embedding,
    Linear,
    Operation,
    PReLU,
    Recurrent,
    RMSNorm,
    Rotary,
    SelfAttention,
    WithParameter,
)
from edgefl.models.neurons.axes import Axis, AxisSpec, JoinedAxis


def parameter_axes(
    op: Operation, node: Node, name: str, axes: Mapping[str, Axis | None]
) -> tuple[Axis | None, Axis | None]:
    """Return the axes (rows, cols) of a parameter. op is the node's operation on planes."""
    own, source = axes[node.name], axes[node.inputs[0]]
    if isinstance(op, ConvTranspose2d) and name == "weight":
        return source, own if op.groups == 1 else None
    if isinstance(op, Embedding):
        return None, own
    if isinstance(op, WithParameter) and op.channels_last and len(op.shape) > 1:
        return None, own
    if isinstance(op, Attention | Rotary):
        return None, None
    if isinstance(op, RMSNorm) and isinstance(own, AxisSpec) and own.repeat > 1 and own.repeat % op.num_features == 0:
        return None, None  # a weight that all heads share
    if isinstance(op, PReLU) and op.num_parameters == 1:
        return None, None
    if isinstance(op, Recurrent | SelfAttention):
        cols = {op.main: source, "weight_hh_l0": own}
        return _below_each_other(op, own), cols.get(name)
    reads_all_inputs = isinstance(op, Linear) or (isinstance(op, Conv2d) and op.groups == 1)
    return own, source if name == "weight" and reads_all_inputs else None


def input_axis(op: Operation, name: str) -> int | None:
    """Return the axis of a parameter whose indices are the inputs that it multiplies. op is on planes.

    It is None if the parameter multiplies no inputs, or only the inputs of a group of channels.
    """
    if isinstance(op, Recurrent | SelfAttention):
        return 1 if name in (op.main, "weight_hh_l0") else None
    if isinstance(op, ConvTranspose2d | Conv2d) and op.groups > 1:
        return None
    if name != "weight" or not isinstance(op, Linear | Conv2d | ConvTranspose2d):
        return None
    return 0 if isinstance(op, ConvTranspose2d) else 1


def _below_each_other(op: Recurrent | SelfAttention, own: Axis | None) -> Axis | None:
    """Return the axis of rows of all gates, or of queries, keys and values. Each part has the axis of the result."""
    if not isinstance(own, AxisSpec):
        return None
    gates, size = (op.gates, op.hidden_size) if isinstance(op, Recurrent) else (3, op.features)
    return JoinedAxis(((own, size),) * gates)
