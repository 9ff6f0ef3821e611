"""The messages of the protocol, and the bytes of each message: a typed array in msgpack. frames.py has their framing.

msgspec checks every field in C while it decodes. An unknown field, a wrong type or a number out of its range is an
error that names the place. Nothing is evaluated. Every list and dict has a largest length, which is checked before its
first item is made, so that a message takes little more memory than its frame. Payloads are bytes as protocol/codec
encodes them, one payload for each named update, and they stay bytes here. connection.py decides which side may send
what when.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from edgefl.protocol.wire.attendance_messages import ComeAgain as ComeAgain
from edgefl.protocol.wire.attendance_messages import DeviceNotice as DeviceNotice
from edgefl.protocol.wire.message_fields import LONGEST_TEXT as LONGEST_TEXT
from edgefl.protocol.wire.message_fields import AdaptationWork as AdaptationWork
from edgefl.protocol.wire.message_fields import Client, Count, Digest, Life, Name, Nonce, Proof, Round, Secret, Text
from edgefl.protocol.wire.message_fields import MeasuredThroughput as MeasuredThroughput
from edgefl.protocol.wire.message_fields import Message as Message
from edgefl.protocol.wire.message_fields import ModelPart as ModelPart
from edgefl.protocol.wire.message_fields import PayloadSpec as PayloadSpec
from edgefl.protocol.wire.message_fields import Scores as Scores
from edgefl.protocol.wire.peer_text import PeerText, of_peer, whole
from edgefl.protocol.wire.secure_messages import GroupReady as GroupReady
from edgefl.protocol.wire.secure_messages import GroupReply as GroupReply
from edgefl.protocol.wire.secure_messages import GroupRequest as GroupRequest
from edgefl.protocol.wire.secure_messages import RosterPart as RosterPart
from edgefl.protocol.wire.secure_messages import SecureOffer as SecureOffer

PROTOCOL = 4
CHUNK_BYTES = 1 << 15  # bytes of the initial model in one message
MOST_PARTS = 1000  # parts of the initial model in one message, so that it fits into the first frames
PARTS = b"parts"  # Enrol.model of a device that has no model and can take the model in parts
LONGEST_LOSS = 1 << 15  # characters of a loss, which may have a weight for each class

Plain = bool | int | float | str | None
Part = Annotated[float, Meta(ge=0, le=1)]
Payload = Annotated[dict[Name, bytes], Meta(max_length=16)]


class Hello(Message, frozen=True):
    """The greeting of a device.

    run       id of the run, empty until the device has enrolled
    client    id of the client. None asks for a free id, in runs without keys
    software  version and kernels that train there (methods/rounds/provenance.py). The server keeps it for a replay
    """

    protocol: Annotated[int, Meta(ge=0, lt=1 << 16)]
    run: Name
    client: Client | None
    nonce: Nonce
    software: Name


class Challenge(Message, frozen=True):
    """The server's answer to Hello, with its run and a nonce.

    proof   shows that the server knows the device's key. In a run without keys, it shows that the server knows the
            secret of a device that has enrolled, and is empty for other devices
    """

    run: Name
    nonce: Nonce
    proof: Proof


class Enrol(Message, frozen=True):
    """The device's proof that it knows its key or secret, and what it can do and holds.

    capacity  largest share of active neurons that it is willing to train. The server keeps the first value
    model     digest of the initial model that it already holds, or PARTS if it can take the model in parts, or empty
    pending   round of a reply that was not acknowledged, 0 if there is no such reply
    secret    32 random bytes, if the device enrols in a run without keys, which it proves from then on. Empty otherwise
    round     last round that was acknowledged and counts, 0 if there is no such round. The device holds the state after
              it
    life      drawn by each process that opens the device's state, and kept there, so that the server notices a copy
    before    the last earlier life of which the server has heard, or empty
    examples  number of its samples, which the run's shares split, or the numbers for training, validation and test. Its
              replies must have the numbers that follow. The server keeps the first value
    """

    proof: Proof
    capacity: Annotated[float, Meta(gt=0, le=1)]
    model: Annotated[bytes, Meta(max_length=32)]
    pending: Round
    secret: Secret
    round: Round
    life: Life
    before: Life
    examples: Annotated[list[Count], Meta(min_length=1, max_length=3)]


class Welcome(Message, frozen=True):
    """The server's description of the run for an enrolled device.

    options      hyper-parameters of the method by name
    shares       share of the device's samples for training, and share of the training samples for validation
    model_bytes  size in bytes of the initial model (wire/model_message.py), which ModelRequest asks for
    loss         loss that training minimises, as text (learning/losses.py)
    """

    client: Client
    clients: Client
    seed: Count
    method: Name
    options: Annotated[dict[Name, Plain | Annotated[list[Plain], Meta(max_length=1000)]], Meta(max_length=64)]
    values: Literal["float32", "float16", "bfloat16", "int8"]
    shares: tuple[float, float]
    model_bytes: Count
    model_digest: Digest
    loss: Annotated[str, Meta(max_length=LONGEST_LOSS)]


class ModelRequest(Message, frozen=True):
    """The device's request for the initial model from the byte `offset` on. It can resume a download that broke off."""

    offset: Count


class ModelChunk(Message, frozen=True):
    """The server's answer with some bytes of the initial model. Chunks follow one another up to the last byte."""

    offset: Count
    data: Annotated[bytes, Meta(min_length=1, max_length=CHUNK_BYTES)]


class ModelParts(Message, frozen=True):
    """The server's list of parts before Welcome, in the order of their offsets, for a device that has said PARTS."""

    parts: Annotated[list[ModelPart], Meta(min_length=1, max_length=MOST_PARTS)]


class PartialModelRequest(Message, frozen=True):
    """The device's request for the initial model from the byte `offset` on, without parts that it holds.

    held  bitmap over the server's list of parts, 1 for each part that is not to be sent
    """

    offset: Count
    held: Annotated[bytes, Meta(min_length=1, max_length=MOST_PARTS // 8)]


class Train(Message, frozen=True):
    """The server's request to train in a round.

    selection   active neurons (codec.neurons.encode_neurons) where the payload does not carry their ids itself, or
                empty
    settings    the other values that the method tells this client
    deadline_s  seconds from now after which the round closes without the reply. None: no deadline
    expects     content of the reply. True: the payload's parameters at the coordinates that were sent. A dict: payloads
                by name. False: no values, as the device may not send what it trains
    """

    round: Round
    selection: bytes
    payload: Payload
    settings: Annotated[dict[Name, Plain], Meta(max_length=64)]
    deadline_s: float | None
    expects: bool | Annotated[dict[Name, PayloadSpec], Meta(max_length=16)]


class Trained(Message, frozen=True):
    """The device's reply to Train.

    examples  number of training samples, n_k
    steps     number of gradient steps
    seconds   seconds of the training
    """

    round: Round
    payload: Payload
    selection_hash: Annotated[bytes, Meta(max_length=8)]
    examples: Count
    steps: Count
    status: Literal["on", "stopped"]
    metrics: Annotated[dict[Name, float], Meta(max_length=64)]
    seconds: float


class ThroughputReport(Message, frozen=True):
    """The device's report of its speed, in a run that plans by speed (Algorithm.wants_throughput).

    The device sends the report once in each connection before it trains, and again when rounds take other times.
    throughput  measured speed. None: the device does not tell its speed
    """

    throughput: MeasuredThroughput | None


class Verdict(Message, frozen=True):
    """The server's word that it has dealt with a reply, durably. The device keeps the reply until then.

    accepted  the reply is aggregated when the round closes. The device keeps its newly trained model
    late      the round was closed, so the reply is not aggregated. The device keeps its newly trained model
    refused   the reply is not aggregated, for this reason. The device goes back to its model before the round
    masked      with secure aggregation, the reply is in the sum of its group, which was opened. Otherwise as accepted
    not-opened  with secure aggregation, the reply is in no sum that was opened, for this reason. Otherwise as late
    """

    round: Round
    outcome: Literal["accepted", "late", "refused", "masked", "not-opened"]
    reason: Text


class Evaluate(Message, frozen=True):
    """The server's request to evaluate after a round.

    personal  whether to score the client's own model: its personal model, its head on the body, or the adapted global
              model
    payload   the global model, or the body for the clients' own heads, or empty. Running statistics may come as a part
              of their own. An empty part `adaptation` asks for AdaptationReport, and earlier devices pass it over.
              An empty part `mean_iou` asks for OverlapReport
    """

    round: Round
    personal: bool
    payload: Payload


class Evaluated(Message, frozen=True):
    """The device's answer to Evaluate: the scores of its own model and of the global model, if they were asked for."""

    round: Round
    personal: Scores | None
    global_model: Scores | None


class AdaptationReport(Evaluated, frozen=True):
    """Evaluated, with the work that adapted the device's own model before its test. It is None if no model was adapted.

    A device sends it where Evaluate asks for it, and an earlier server does not ask.
    """

    adaptation: AdaptationWork | None


class OverlapReport(AdaptationReport, frozen=True):
    """AdaptationReport, with the mean intersection over union of each model whose scores were asked for, if the labels
    are of pixels.

    A device sends it where Evaluate has an empty part `mean_iou`.
    personal_iou, global_iou  mean IoU on the device's own test samples. None: not asked for, or no pixel counts
    """

    personal_iou: Part | None
    global_iou: Part | None


class Finished(Message, frozen=True):
    """The server's message that the run is over. No further request follows."""

    reason: Text


class Refused(Message, frozen=True):
    """The last message of either side, with the reason why it closes the connection.

    A device that the server refuses does not come back. Where another attempt may help, as after a timeout, the server
    closes the connection without a word.
    """

    reason: Text


TYPES: dict[int, type[Message]] = {  # by the type byte of the frame. A number is never used again for another message
    1: Hello,
    2: Challenge,
    3: Enrol,
    4: Welcome,
    5: ModelRequest,
    6: ModelChunk,
    7: Train,
    8: Trained,
    9: Verdict,
    10: Evaluate,
    11: Evaluated,
    12: Finished,
    13: Refused,
    14: ThroughputReport,
    15: ModelParts,
    16: PartialModelRequest,
    17: AdaptationReport,
    18: OverlapReport,
    19: SecureOffer,
    20: GroupReady,
    21: GroupRequest,
    22: GroupReply,
    23: RosterPart,
    24: DeviceNotice,
    25: ComeAgain,
}
NUMBERS = {kind: number for number, kind in TYPES.items()}


def _plain(value: Any) -> str:
    """Return the plain text of a PeerText, which msgspec cannot encode. Other types raise TypeError."""
    if isinstance(value, PeerText):
        return whole(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
_decoders: dict[int, msgspec.msgpack.Decoder[Any]] = {n: msgspec.msgpack.Decoder(kind) for n, kind in TYPES.items()}


def encode(message: Message) -> bytes:
    """Return the message as msgpack."""
    return _encoder.encode(message)


def without_values(message: Trained) -> Trained:
    """Return a reply without its payload and its metrics."""
    return msgspec.structs.replace(message, payload={}, metrics={})


def check(message: Message) -> None:
    """Raise msgspec.ValidationError, TypeError or another ValueError if the receiver would refuse a field.

    Payloads have no limit of their own, and their bytes are not checked.
    """
    if isinstance(message, Train | Trained | Evaluate):
        message = msgspec.structs.replace(message, payload=dict.fromkeys(message.payload, b""))
    _decoders[NUMBERS[type(message)]].decode(encode(message))


def decode(number: int, data: bytes | bytearray) -> Message:
    """Decode the message of type `number`. Each text in it becomes PeerText.

    Raises  KeyError for an unknown number, msgspec.DecodeError for bad bytes.
    """
    message: Message = of_peer(_decoders[number].decode(memoryview(data)))
    return message
