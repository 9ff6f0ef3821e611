"""The conversion of plans and replies to the messages that carry them and back, for the simulation, the server and the
device.

Other modules make the bytes of a message (wire/messages.py) and of a payload (codec/), and decide who sends what when.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from edgefl.errors import CodecError, PlanError
from edgefl.learning.scores import MEAN_IOU
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.option_checks import LARGEST
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds.adaptation import ADAPTATION
from edgefl.methods.rounds.answer import Answer, judged, unreadable
from edgefl.methods.rounds.reply_claim import NOT_DECLARED as NOT_DECLARED
from edgefl.methods.rounds.reply_claim import ReplyClaim as ReplyClaim
from edgefl.methods.rounds.reply_coordinates import PLANNED, expected_mask, expected_names
from edgefl.methods.task import BODY, MODEL, State
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Update, mask_of
from edgefl.protocol import codec
from edgefl.protocol.codec import Sizes
from edgefl.protocol.codec.masks import decode_mask, encode_mask, is_mask, known_hash
from edgefl.protocol.codec.neurons import decode_neurons, encode_neurons, neurons_of
from edgefl.protocol.wire.messages import Evaluate, PayloadSpec, Plain, Train, Trained
from edgefl.rng import ROUNDING, Stream, stream


def train_message(plan: Plan, spec: ModelSpec, values: str, payload: dict[str, bytes] | None = None) -> Train:
    """Return the message of a plan to train, for its client.

    values   number format of the payload (codec/values.py)
    payload  encoded payload of the plan without masks, if it has been encoded before
    Raises   CodecError for a plan that no message can express
    """
    if payload is None:
        random_stream = _rounding(values, 0, round=plan.round)  # a payload for several clients is encoded once
        payload = {
            name: codec.encode(update, spec, values=values, known=plan.held, random_stream=random_stream)
            for name, update in plan.payload.items()
        }
    selection = b""
    if plan.selection is not None and plan.selection != selection_in(plan.payload, spec):
        selection = encode_neurons(plan.selection, spec)
    masks = {name: encode_mask(mask, spec, known=plan.held) for name, mask in plan.masks.items()}
    content = _together(payload, masks)
    return Train(plan.round, selection, content, dict(plan.settings), plan.deadline_s, asked_of(plan, spec))


def plan_of(message: Train, client: int, spec: ModelSpec, held: Sequence[Mask] = ()) -> Plan:
    """Return the plan that this client was sent.

    held    masks that the client keeps. The plan has the mask that its message names, which the server also knows
    Raises  CodecError if anything in it is not of this model, or is at another mask. PlanError for a setting that is
            not finite, and later for a payload or setting that a method needs and the plan lacks
    """
    named = {name: _named(data, held) for name, data in message.payload.items()}
    content = message.payload.items()
    masks = {name: decode_mask(data, spec, known=named[name]) for name, data in content if is_mask(data)}
    payload = {name: _decode(data, spec, named[name]) for name, data in content if name not in masks}
    selection = decode_neurons(message.selection, spec) if message.selection else selection_in(payload, spec)
    return Plan(
        "train",
        message.round,
        client,
        selection,
        PlanContent("payload", payload),
        finite_settings(message.settings),
        message.expects is not False,
        message.deadline_s,
        masks,
        expects_in(message.expects, spec),
        next((mask for mask in named.values() if mask is not None), None),
    )


def finite_settings(settings: Mapping[str, Plain]) -> PlanContent:
    """Return the settings of a plan as the client reads them. Raises PlanError for a number that is not finite."""
    found = {name: _finite(name, value) for name, value in settings.items() if value is not None}
    return PlanContent("setting", found)


def expects_in(asked: bool | Mapping[str, PayloadSpec], spec: ModelSpec) -> dict[str, ExpectedPayload] | None:
    """Return what the reply to a plan has to have, as the client reads it. Raises CodecError for unknown parameters."""
    return None if isinstance(asked, bool) else {name: _expected(name, each, spec) for name, each in asked.items()}


class PlanContent(dict[str, Any]):
    """The content of a plan by name. A lookup of any other name raises PlanError."""

    def __init__(self, what: str, found: Mapping[str, Any]) -> None:
        super().__init__(found)
        self._what = what

    def __missing__(self, name: str) -> Any:
        raise PlanError(f"plan without {self._what} {name!r}, which its method needs; found {sorted(self) or 'none'}")


def _finite(name: str, value: Plain) -> Plain:
    if isinstance(value, float) and not abs(value) <= LARGEST:
        raise PlanError(f"plan with {name}={value}; expected a finite number of float32")
    return value


def trained_message(reply: Reply, plan: Plan, spec: ModelSpec, values: str, seconds: float) -> Trained:
    """Return the message of a reply to `plan`, for the server. Ids that the server knows are not sent."""
    random_stream = _rounding(values, plan.client, plan.round, extra=1)
    payload = {
        name: codec.encode(
            update, spec, values=values, known=known_to_server(plan, name, update), random_stream=random_stream
        )
        for name, update in reply.payload.items()
    }
    masks = {name: encode_mask(mask, spec, known=_mask_before(plan, name)) for name, mask in reply.masks.items()}
    return message_of(reply, _together(payload, masks), seconds)


def _rounding(values: str, client: int, round: int, extra: int = 0) -> Stream | None:
    """Return the stream that draws the rounding of a payload, or None for a format that does not draw."""
    return stream(0, ROUNDING, client, round, extra=extra) if values == "int8" else None


def message_of(reply: Reply, payload: dict[str, bytes], seconds: float) -> Trained:
    """Return the message of a reply whose payload has been encoded."""
    return Trained(
        reply.round,
        payload,
        reply.selection_hash,
        reply.examples,
        reply.steps,
        reply.status,
        dict(reply.metrics),
        seconds,
    )


def reply_of(message: Trained, plan: Plan, spec: ModelSpec) -> Reply:
    """Return the reply to `plan`.

    Raises CodecError if a payload is not of this model, or has other neurons or another mask than expected.
    """
    payload, masks = {}, {}
    for name, data in message.payload.items():
        if plan.due.get(name, PLANNED).kind == "mask":
            masks[name] = decode_mask(data, spec, known=_mask_before(plan, name))
        else:
            payload[name] = _decode(data, spec, _known(plan, name, spec))
    return Reply(
        message.round,
        plan.client,
        payload,
        message.selection_hash,
        message.examples,
        message.steps,
        message.status,
        message.metrics,
        masks,
    )


def read_answer(message: Trained, plan: Plan, spec: ModelSpec, declared: ReplyClaim = NOT_DECLARED) -> Answer:
    """Read and check a client's message. It never raises: every fault of the message becomes the refusal.

    declared  what the client has declared about its samples before the round
    """
    try:
        reply = reply_of(message, plan, spec)
        up = sizes(message.payload)
    except CodecError as error:
        return unreadable(plan, error, sum(map(len, message.payload.values())))
    return judged(reply, plan, spec, message.seconds, up, declared)


def evaluate_message(round: int, algorithm: Algorithm, state: State, spec: ModelSpec, score: str = "") -> Evaluate:
    """Return the request to evaluate after a round. A global model or body in it is exact: dense float32.

    It asks for the work of the adaptation where a client adapts its model, and for the mean IoU if it is the `score`.
    """
    parts: dict[str, tuple[str, ...] | None] = {MODEL: None, BODY: algorithm.body_names(spec)}
    parts |= {part: tuple(state.arrays[part]) for part in algorithm.beside(state.arrays)}
    payload = {
        part: codec.encode(take(state.arrays[part], spec, None, names=names), spec)
        for part, names in parts.items()
        if part in state.arrays
    }
    is_personal = algorithm.scored(payload) is not None
    asked = {ADAPTATION: b""} if algorithm.adaptation(1)[0] else {}
    return Evaluate(round, is_personal, payload | asked | ({MEAN_IOU: b""} if score == MEAN_IOU else {}))


def sizes(payload: Mapping[str, bytes], selection: bytes = b"") -> Sizes:
    """Return the bytes of a message's payloads and of its selection, by purpose."""
    return total([*map(codec.sizes, payload.values()), Sizes(0, len(selection), 0)])


def total(parts: Iterable[Sizes]) -> Sizes:
    """Return the sizes of several payloads together."""
    values = index = header = 0
    for part in parts:
        values, index, header = values + part.values, index + part.index, header + part.header
    return Sizes(values, index, header)


def _together(payload: Mapping[str, bytes], masks: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return values and masks as the one payload of a message."""
    if both := sorted(payload.keys() & masks.keys()):
        raise CodecError(f"{both[0]} is the name of values and of a mask; expected two different names")
    return {**payload, **masks}


def _mask_before(plan: Plan, name: str) -> Mask | None:
    """Return the mask that both sides know, from which the reply's mask of this name may differ.

    It is the mask that the plan sent by that name, or else the mask that the client keeps.
    """
    return plan.masks.get(name, plan.held)


def _decode(data: bytes, spec: ModelSpec, known: NeuronSet | Mask | None) -> Update:
    """Decode a payload. The size limit is that of its frame: a message that arrived is within the
    connection's limit.
    """
    return codec.decode_exchanged(data, spec, limit=len(data), known=known)


def _named(data: bytes, held: Sequence[Mask]) -> Mask | None:
    """Return the mask to which these bytes refer, among the masks that a client keeps, or None if they name no mask.

    If the bytes refer to an unknown mask, the first mask is returned, so that decoding names the mask that was
    expected.
    """
    found = known_hash(data)
    if found is None or not held:
        return None
    return next((mask for mask in held if mask.hash() == found), held[0])


def _known(plan: Plan, name: str, spec: ModelSpec) -> NeuronSet | Mask | None:
    """Return, on the server's side, what the receiver of a reply's payload knows already: its mask or its neurons."""
    kind = plan.due.get(name, PLANNED).kind
    if kind == "masked":
        return expected_mask(plan, name).only(expected_names(plan, name, spec))
    return plan.selection if kind == "planned" else None


def known_to_server(plan: Plan, name: str, update: Update) -> NeuronSet | Mask | None:
    """Return what `_known` returns, on the client's side. There the mask is that of the values."""
    kind = plan.due.get(name, PLANNED).kind
    if kind == "masked":
        return mask_of(update)
    return plan.selection if kind == "planned" else None


def asked_of(plan: Plan, spec: ModelSpec) -> bool | dict[str, PayloadSpec]:
    """Return the form of `plan.expects` in a message."""
    if plan.expects is None or not plan.authorised:
        return plan.authorised
    for name, expected in plan.expects.items():
        if expected.kind == "masked":
            expected_mask(plan, name)
    return {name: PayloadSpec(each.kind, _bitmap(each.names, spec)) for name, each in plan.expects.items()}


def _expected(name: str, asked: PayloadSpec, spec: ModelSpec) -> ExpectedPayload:
    """Return the expected payload from the form that `_asked` gives it. A mask is not sent."""
    if asked.parameters is None:
        return ExpectedPayload(asked.kind)
    bits = np.unpackbits(np.frombuffer(asked.parameters, np.uint8), bitorder="little")
    count = len(spec.params)
    if len(asked.parameters) != (count + 7) // 8 or bits[count:].any():
        raise CodecError(f"parameters {asked.parameters.hex()} of {name}; expected a bit for each of {count}")
    return ExpectedPayload(asked.kind, tuple(each for each, bit in zip(spec.params, bits) if bit))


def _bitmap(names: Collection[str] | None, spec: ModelSpec) -> bytes | None:
    if names is None:
        return None
    if unknown := sorted(set(names) - spec.params.keys()):
        raise CodecError(
            f"{unknown[0]!r} is expected and is not a parameter; expected some of {', '.join(spec.params)}"
        )
    return np.packbits([name in names for name in spec.params], bitorder="little").tobytes()


def selection_in(payload: Mapping[str, Update], spec: ModelSpec) -> NeuronSet | None:
    """Return the neurons to which a payload is restricted, or None if it is not restricted."""
    for update in payload.values():
        found = neurons_of(update, spec)
        if not found.is_full:
            return found
    return None
