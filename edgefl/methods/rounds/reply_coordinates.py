"""The coordinates of a reply's values, as they follow from the plan. Server and client agree on them without a message.

exchange.py checks a reply against its coordinates.
"""

from __future__ import annotations

from collections.abc import Collection

from edgefl.errors import PlanError
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.plan import Plan
from edgefl.models.neurons.block_index import Axes, Flat, active_axes
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import Update, flat_index

PLANNED, NOTHING = ExpectedPayload("planned"), Update({})


def expected_names(plan: Plan, name: str, spec: ModelSpec) -> Collection[str]:
    """Return the parameters that are expected under the name of a payload or mask."""
    expected = plan.due.get(name, PLANNED)
    if expected.names is not None:
        return expected.names
    return plan.payload[name].blocks.keys() if name in plan.payload else spec.exchanged


def planned_index(plan: Plan, name: str, parameter: str, spec: ModelSpec) -> Axes | Flat | None:
    """Return the coordinates of a parameter that a reply must have in the payload of this name.

    They are the mask's coordinates, or the coordinates that the plan sent. If the plan sent the whole parameter and
    selects neurons, they are the coordinates of these neurons.
    """
    expected, sent = plan.due[name], plan.payload.get(name, NOTHING).blocks.get(parameter)
    if expected.kind == "masked":
        return flat_index(expected_mask(plan, name), parameter)
    if sent is not None and sent.index is not None:
        return sent.index
    if plan.selection is None or plan.selection.is_full:
        return None
    return active_axes(spec.params[parameter], spec, plan.selection.active, plan.selection.keys)


def summed_index(plan: Plan, name: str, parameter: str, spec: ModelSpec) -> Axes | Flat | None:
    """Return the coordinates of a parameter in the payload of this name, where client and server know them alike.

    A client does not know the mask at which the server expects values. So the plan has to send values at this mask.
    Raises  PlanError for values that the client chooses, or at another mask than the plan sent.
    """
    expected, sent = plan.due[name], plan.payload.get(name, NOTHING).blocks.get(parameter)
    if expected.kind == "planned":
        return planned_index(plan, name, parameter, spec)
    is_sent = sent is not None and (expected.mask is None or sent.index == flat_index(expected.mask, parameter))
    if expected.kind != "masked" or not is_sent:
        raise PlanError(f"plan expects {name} of the kind {expected.kind}; expected values at planned places")
    assert sent is not None
    return sent.index


def expected_mask(plan: Plan, name: str) -> Mask:
    """Return the mask at which the server expects the values of this name. Raises ValueError if the plan has no
    mask.
    """
    mask = plan.due[name].mask
    if mask is None:
        raise ValueError(f"plan of client {plan.client} expects {name} at a mask and has no mask; expected the mask")
    return mask
