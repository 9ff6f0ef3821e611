"""The exchange of a plan and a reply within one process: what messages would carry, without their bytes.

Payloads in float32 come out of a message bit for bit as they went in. So the received plan has the sent updates
themselves, whose values nobody may write to, and the sizes follow from the heads of the payloads. Every check of
encoding and of reading an answer is made. A simulation carries the first client of every round by messages as well, and
compares (study/simulation/client_player.py).

Plans and replies with masks, and plans to a client that keeps a mask, are carried by messages (exchange.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from edgefl.errors import CodecError
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds.answer import Answer, judged, unreadable
from edgefl.methods.rounds.change_bound import Old, lengths
from edgefl.methods.rounds.exchange import (
    PlanContent,
    ReplyClaim,
    asked_of,
    expects_in,
    finite_settings,
    known_to_server,
    selection_in,
    total,
)
from edgefl.models.graph.operations import Shape
from edgefl.models.identity_cache import IdentityCache
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Update
from edgefl.protocol.codec.decoding import check_exchanged
from edgefl.protocol.codec.encoding import Sizes, payload_sizes
from edgefl.protocol.codec.neurons import encode_neurons

CACHED = 256  # updates whose facts a cache remembers, at most


class Facts(NamedTuple):
    """The sizes of an update as a payload, and the neurons to which the update is restricted, or None."""

    sizes: Sizes
    selection: NeuronSet | None


class UpdateFacts:
    """The facts of the last updates, for updates that several plans of a round carry. The updates are not kept."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self._known = IdentityCache[Facts](CACHED)
        self._whole: dict[tuple[tuple[str, Shape], ...], Sizes] = {}  # of updates with whole parameters, by layout

    def of(self, update: Update) -> Facts:
        """Return the facts of an update. Raises CodecError for an update that is not of this model."""
        found = self._known.get(update)
        if found is None:
            check_exchanged(update, self._spec)
            facts = Facts(payload_sizes(update, self._spec), selection_in({"": update}, self._spec))
            found = self._known.put(facts, update)
        return found

    def sizes(self, update: Update, known: NeuronSet | Mask | None) -> Sizes:
        """Return the sizes of a reply's update as a payload, as `payload_sizes` does, without computing them anew for
        updates with the same whole parameters.
        """
        blocks = update.blocks.items()
        if known is not None or any(b.index is not None or b.values.dtype != np.float32 for _, b in blocks):
            return payload_sizes(update, self._spec, known)
        layout = tuple((name, block.shape) for name, block in blocks)
        if layout not in self._whole:
            self._whole[layout] = payload_sizes(update, self._spec)
        return self._whole[layout]


def is_direct(algorithm: Algorithm, plan: Plan, values: str) -> bool:
    """Return whether a plan needs no messages: exact values without masks, and a method that edgefl has itself.

    A method from elsewhere could reply with views of a learner's arrays, which the next client overwrites.
    """
    return values == "float32" and is_own(algorithm) and not plan.masks and plan.held is None


def is_own(algorithm: Algorithm) -> bool:
    """Return whether a method is one of edgefl's."""
    return type(algorithm).__module__.startswith("edgefl.")


def received_plan(plan: Plan, spec: ModelSpec, facts: UpdateFacts) -> tuple[Plan, Sizes]:
    """Return the plan as its client receives it, and the bytes that its message would have.

    Raises  CodecError or PlanError as `train_message` and `plan_of` do
    """
    each = {name: facts.of(update) for name, update in plan.payload.items()}
    found = next((fact.selection for fact in each.values() if fact.selection is not None), None)
    beside = 0 if plan.selection is None or plan.selection == found else len(encode_neurons(plan.selection, spec))
    received = Plan(
        plan.kind,
        plan.round,
        plan.client,
        found if plan.selection is None else plan.selection,
        PlanContent("payload", plan.payload),
        finite_settings(plan.settings),
        plan.authorised,
        plan.deadline_s,
        plan.masks,
        expects_in(asked_of(plan, spec), spec),
        plan.held,
    )
    return received, total([*(fact.sizes for fact in each.values()), Sizes(0, beside, 0)])


def received_answer(
    reply: Reply,
    plan: Plan,
    received: Plan,
    spec: ModelSpec,
    facts: UpdateFacts,
    seconds: float,
    declared: ReplyClaim,
    old: Old | None = None,
) -> Answer:
    """Return the answer that the server reads. `plan` is the server's, and `received` is the client's.

    old     values before the round, from which the changes are measured while the processor's caches have the reply.
            None: they are not measured
    Raises  CodecError for a payload that no message can express
    """
    up = total(facts.sizes(update, known_to_server(received, name, update)) for name, update in reply.payload.items())
    try:
        for update in reply.payload.values():
            check_exchanged(update, spec)
    except CodecError as error:
        return unreadable(plan, error, up.total)
    mine = reply if reply.client == plan.client else replace(reply, client=plan.client)
    return judged(mine, plan, spec, seconds, up, declared, None if old is None else lengths(reply, old, spec))
