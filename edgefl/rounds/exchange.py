"""Plans and replies <-> the messages that carry them, once for the simulation, the server and the device.

Not the bytes of a message (wire/messages.py) nor of a payload (codec/), and not who sends what when.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from edgefl import codec
from edgefl.algorithms.base import BODY, MODEL, Algorithm, Plan, Reply, State, refuse
from edgefl.codec import Sizes
from edgefl.codec.neurons import decode_neurons, encode_neurons, neurons_of
from edgefl.errors import CodecError
from edgefl.neurons.selection import NeuronSet
from edgefl.neurons.spec import ModelSpec
from edgefl.neurons.update import Axes, Block, Flat, Update, active_axes, take
from edgefl.wire.messages import Evaluate, Train, Trained


def train_message(plan: Plan, spec: ModelSpec, values: str, payload: dict[str, bytes] | None = None) -> Train:
    """A plan to train, for its client.

    values   number format of the payload, float32 or float16
    payload  the plan's, where it has been encoded before
    """
    payload = _encode(plan.payload, spec, values, None) if payload is None else payload
    selection = b""
    if plan.selection is not None and plan.selection != _selection_in(plan.payload, spec):
        selection = encode_neurons(plan.selection, spec)
    return Train(plan.round, selection, payload, dict(plan.settings), plan.deadline_s, plan.authorised)


def plan_of(message: Train, client: int, spec: ModelSpec) -> Plan:
    """The plan that this client was sent. Raises CodecError if selection or payload are not of this model."""
    payload = _decode(message.payload, spec, None)
    selection = decode_neurons(message.selection, spec) if message.selection else _selection_in(payload, spec)
    settings = {name: value for name, value in message.settings.items() if value is not None}
    return Plan("train", message.round, client, selection, payload, settings, message.authorised, message.deadline_s)


def trained_message(reply: Reply, selection: NeuronSet | None, spec: ModelSpec, values: str, seconds: float) -> Trained:
    """A reply, for the server. `selection` is the plan's: the server knows the ids, so they are not sent."""
    return Trained(
        reply.round,
        _encode(reply.payload, spec, values, selection),
        reply.selection_hash,
        reply.examples,
        reply.steps,
        reply.status,
        dict(reply.metrics),
        seconds,
    )


def reply_of(message: Trained, plan: Plan, spec: ModelSpec) -> Reply:
    """The reply to `plan`. Raises CodecError if a payload is not of this model, or of other neurons than planned."""
    return Reply(
        message.round,
        plan.client,
        _decode(message.payload, spec, plan.selection),
        message.selection_hash,
        message.examples,
        message.steps,
        message.status,
        message.metrics,
    )


class Answer(NamedTuple):
    """A client's message read against its plan: the reply, or why it must not be folded; and the bytes it took."""

    reply: Reply | None
    refusal: str | None
    sizes: Sizes


def read_answer(message: Trained, plan: Plan, spec: ModelSpec) -> Answer:
    """What a client's message is worth. It never raises: whatever is wrong with the message is the refusal."""
    try:
        reply = reply_of(message, plan, spec)
        up = sizes(message.payload)
    except CodecError as error:
        unreadable = Sizes(0, 0, sum(map(len, message.payload.values())))
        return Answer(None, f"reply of client {plan.client}: {error}", unreadable)
    refusal = refuse(plan, reply) or _unplanned(plan, reply, spec)
    if refusal is None and not 0 <= message.seconds < math.inf:
        refusal = f"reply of client {plan.client} took {message.seconds} s; expected a time"
    return Answer(None if refusal else reply, refusal, up)


def _unplanned(plan: Plan, reply: Reply, spec: ModelSpec) -> str | None:
    """What a reply carries other than the planned neurons of the parameters that were sent; None if nothing."""
    for payload, update in reply.payload.items():
        sent = plan.payload[payload].blocks
        if update.blocks.keys() != sent.keys():
            wrong = sorted(update.blocks.keys() ^ sent.keys())
            return f"reply of client {plan.client} has not the blocks of {payload}: {', '.join(wrong[:3])}"
        for name, block in update.blocks.items():
            if block.index != _planned_index(plan, name, sent[name], spec):
                return f"reply of client {plan.client} has other coordinates in {payload}/{name} than were planned"
    return None


def _planned_index(plan: Plan, name: str, sent: Block, spec: ModelSpec) -> Axes | Flat | None:
    """The coordinates of a parameter that a reply must have: those that were sent, unless the whole of it was."""
    if sent.index is not None or plan.selection is None or plan.selection.is_full:
        return sent.index
    return active_axes(spec.params[name], spec, plan.selection.active, plan.selection.keys)


def evaluate_message(round: int, algorithm: Algorithm, state: State, spec: ModelSpec) -> Evaluate:
    """The request to evaluate after a round. The global model or body, where there is one, is exact: dense float32."""
    parts = {MODEL: None, BODY: spec.body}
    payload = {
        part: codec.encode(take(state.arrays[part], spec, None, names=names), spec)
        for part, names in parts.items()
        if part in state.arrays
    }
    return Evaluate(round, algorithm.scored(payload) is not None, payload)


def sizes(payload: Mapping[str, bytes], selection: bytes = b"") -> Sizes:
    """What the bytes of a message's payloads, and of its selection, are for."""
    return total([*map(codec.sizes, payload.values()), Sizes(0, len(selection), 0)])


def total(parts: Iterable[Sizes]) -> Sizes:
    """The sizes of several payloads together."""
    parts = list(parts)
    return Sizes(sum(s.values for s in parts), sum(s.index for s in parts), sum(s.header for s in parts))


def _encode(payload: Mapping[str, Update], spec: ModelSpec, values: str, known: NeuronSet | None) -> dict[str, bytes]:
    return {name: codec.encode(update, spec, values=values, known=known) for name, update in payload.items()}


def _decode(payload: Mapping[str, bytes], spec: ModelSpec, known: NeuronSet | None) -> dict[str, Update]:
    """The limit is the frame's: a message that arrived is not larger than what the connection allows."""
    return {name: codec.decode(data, spec, limit=len(data), known=known) for name, data in payload.items()}


def _selection_in(payload: Mapping[str, Update], spec: ModelSpec) -> NeuronSet | None:
    """The neurons that a payload restricts itself to; None if it restricts none."""
    for update in payload.values():
        found = neurons_of(update, spec)
        if not found.is_full:
            return found
    return None
