"""The server's judgement of a reply against its plan: an answer has the reply, or the reason for its refusal.

exchange.py reads messages, and direct_exchange.py passes replies on without messages.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from edgefl.errors import CodecError
from edgefl.methods.plan import Plan, Reply, refuse
from edgefl.methods.rounds.change_bound import Lengths
from edgefl.methods.rounds.reply_claim import NOT_DECLARED, ReplyClaim
from edgefl.methods.rounds.reply_coordinates import expected_names, planned_index
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import mask_of
from edgefl.protocol.codec import Sizes


class Answer(NamedTuple):
    """A client's message read against its plan: the reply, or the reason for its refusal, and the bytes it took.

    lengths  lengths of the reply's changes, where they were measured at once
    """

    reply: Reply | None
    refusal: str | None
    sizes: Sizes
    lengths: Lengths | None = None


def unreadable(plan: Plan, error: CodecError, size: int) -> Answer:
    """Return the answer to a plan that cannot be read. `size` is the number of bytes of its payloads."""
    return Answer(None, f"reply of client {plan.client}: {error}", Sizes(0, 0, size))


def judged(
    reply: Reply,
    plan: Plan,
    spec: ModelSpec,
    seconds: float,
    up: Sizes,
    declared: ReplyClaim = NOT_DECLARED,
    lengths: Lengths | None = None,
) -> Answer:
    """Return the answer with this reply, or with the reason why the reply is refused.

    seconds  time in seconds that the client says its training took
    up       sizes of the payloads of the reply
    lengths  lengths of the reply's changes, if they are known. Values are finite if the lengths are
    """
    is_finite = lengths is not None and all(math.isfinite(x) for each in lengths.values() for x in each.values())
    refusal = refuse(plan, reply, is_finite) or _unplanned(plan, reply, spec) or declared.refuse(reply)
    if refusal is None and not 0 <= seconds < math.inf:
        refusal = f"reply of client {plan.client} took {seconds} s; expected a finite time of at least 0 s"
    return Answer(None if refusal else reply, refusal, up, lengths)


def _unplanned(plan: Plan, reply: Reply, spec: ModelSpec) -> str | None:
    """Return a sentence about content of a reply that differs from the expected content, or None if nothing differs."""
    who = f"reply of client {plan.client}"
    for name, update in reply.payload.items():
        if wrong := sorted(update.blocks.keys() ^ set(expected_names(plan, name, spec))):
            return f"{who} has missing or unrequested blocks in {name}: {', '.join(wrong[:3])}"
        if plan.due[name].kind == "chosen":
            if miscounted := plan.due[name].miscounted(mask_of(update), spec):
                return f"{who} has values in {name} at {miscounted}"
            continue
        for parameter, block in update.blocks.items():
            if block.index != planned_index(plan, name, parameter, spec):
                return f"{who} has other coordinates in {name}/{parameter} than were planned"
    for name, mask in reply.masks.items():
        if wrong := sorted(mask.bits.keys() - set(expected_names(plan, name, spec))):
            return (
                f"{who} has a mask {name} of {', '.join(wrong[:3])}; expected a mask that leaves these parameters whole"
            )
        if miscounted := plan.due[name].miscounted(mask, spec):
            return f"{who} has a mask {name} with {miscounted}"
    return None
