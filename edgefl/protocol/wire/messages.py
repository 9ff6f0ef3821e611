"""The messages of the protocol, and each of them as bytes: msgpack of a typed array. Not their framing (frames.py), nor
who may say what when (connection.py).

msgspec checks every field while it decodes, in C and with no code of ours; an unknown field, a wrong type or a number
out of its range is an error that names the place. Nothing is evaluated. Every list and dict has a largest length, which
is checked before its first item is made, so that a message takes little more memory than its frame. Payloads are the
bytes of codec/, one per named update, and stay bytes here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from edgefl.protocol.wire.peer_text import PeerText, of_peer, whole

PROTOCOL = 4
CHUNK_BYTES = 1 << 15  # of the initial model in one message
LONGEST_TEXT = 1000  # characters of a reason
LONGEST_LOSS = 1 << 15  # characters of a loss, which may have a weight for each class

Count = Annotated[int, Meta(ge=0, lt=1 << 53)]
Round = Annotated[int, Meta(ge=0, lt=1 << 31)]
Client = Annotated[int, Meta(ge=0, lt=1 << 31)]
Nonce = Annotated[bytes, Meta(min_length=32, max_length=32)]
Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]
Proof = Annotated[bytes, Meta(max_length=32)]  # empty where the run has no keys
Secret = Annotated[bytes, Meta(max_length=32)]
Life = Annotated[bytes, Meta(max_length=16)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Name = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
Plain = bool | int | float | str | None
Payload = Annotated[dict[Name, bytes], Meta(max_length=16)]


class Message(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of all messages. Fields travel in the order of their declaration."""


class Hello(Message, frozen=True):
    """Device: who it is. `run` is empty until it has enrolled; `client` None asks for a free id (runs without keys).

    software  what trains there (rounds/provenance.py); the server keeps it, for a replay by another provenance to say
    so
    """

    protocol: Annotated[int, Meta(ge=0, lt=1 << 16)]
    run: Name
    client: Client | None
    nonce: Nonce
    software: Name


class Challenge(Message, frozen=True):
    """Server: its run and nonce. `proof` shows that it knows the device's key; in a run without keys the secret of a
    device that says that it has enrolled, and empty for one that has not.
    """

    run: Name
    nonce: Nonce
    proof: Proof


class Enrol(Message, frozen=True):
    """Device: that it knows its key or secret, and what it can do and has.

    capacity  the largest share of active neurons it is willing to train; kept by the server from the first time on
    model     digest of the initial model it already holds, or empty
    pending   the round of a reply that was not acknowledged, 0 if there is none
    secret    of a device that enrols in a run without keys, 32 random bytes, which it proves from then on; or empty
    round     the last round that was acknowledged and counts, 0 if there is none: what it holds is of after it
    life      drawn by each process that opens the device's state, and kept there, so that a copy is noticed
    before    the life before this one, of which the server has heard; empty if there was none
    examples  how many samples it has: all of them, to be parted by the run's shares; or those for training, validation
              and test. Its replies must claim what follows. Kept by the server from the first time on
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
    """Server: the run, as the device needs it. `options` are the hyper-parameters of the method by name.

    shares       of the device's samples: for training, and of those for validation
    model_bytes  size of the initial model (wire/model_message.py), which ModelRequest asks for
    loss         what is minimised, as text (learning/losses.py)
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
    """Device: the initial model from this byte on; it resumes a download that broke off."""

    offset: Count


class ModelChunk(Message, frozen=True):
    """Server: some bytes of the initial model. Chunks follow one another up to the last byte."""

    offset: Count
    data: Annotated[bytes, Meta(min_length=1, max_length=CHUNK_BYTES)]


class PayloadSpec(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The expected payload of one name in the reply: an Expected. `parameters` is a bitmap over those of the model, or
    None.
    """

    kind: Literal["planned", "chosen", "masked", "mask"]
    parameters: Annotated[bytes, Meta(max_length=1 << 13)] | None


class Train(Message, frozen=True):
    """Server: take part in this round.

    selection  the active neurons (codec.encode_neurons) where the payload does not carry them itself, or empty
    settings   what else the method tells this client
    deadline_s seconds from now after which the round closes without the reply; None: never
    expects    what the reply carries: True, the payload's parameters where they were sent; or what is asked by name.
               False: nothing, as the device may not send what it trains
    """

    round: Round
    selection: bytes
    payload: Payload
    settings: Annotated[dict[Name, Plain], Meta(max_length=64)]
    deadline_s: float | None
    expects: bool | Annotated[dict[Name, PayloadSpec], Meta(max_length=16)]


class Trained(Message, frozen=True):
    """Device: what came of a round. `examples` is n_k, `steps` the gradient steps, `seconds` those of the training."""

    round: Round
    payload: Payload
    selection_hash: Annotated[bytes, Meta(max_length=8)]
    examples: Count
    steps: Count
    status: Literal["on", "stopped"]
    metrics: Annotated[dict[Name, float], Meta(max_length=64)]
    seconds: float


class MeasuredThroughput(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How fast a device trains (methods/throughput.py): seconds for a multiply-add of what stands still and of steps,
    for a step and for a round; and the bytes that training may take, None for any number.
    """

    still_s: Seconds
    mac_s: Seconds
    step_s: Seconds
    round_s: Seconds
    memory: Count | None


class ThroughputReport(Message, frozen=True):
    """Device: how fast it is, in a run that plans by it (Algorithm.wants_pace). None: it does not say.

    It is said once in each connection before anything is trained there, and again when rounds take other times.
    """

    throughput: MeasuredThroughput | None


class Verdict(Message, frozen=True):
    """Server: a reply has been dealt with, durably. The device keeps it until then.

    accepted  aggregated into the round when it closes; the device keeps its newly trained model
    late      the round was closed: not aggregated; the device keeps its newly trained model
    refused   not aggregated, for this reason; the device goes back to its model before the round
    """

    round: Round
    outcome: Literal["accepted", "late", "refused"]
    reason: Text


class Evaluate(Message, frozen=True):
    """Server: evaluate after this round. The payload is the global model, the body that the clients' own heads are
    under, or empty; and running statistics, where the method has some beside them.

    personal  score what the method makes a client's own: its model, its head on the body, or the global model adapted
    """

    round: Round
    personal: bool
    payload: Payload


class Scores(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The scores of one model on the device's own test samples."""

    loss_sum: float
    correct: Count
    examples: Count


class Evaluated(Message, frozen=True):
    """Device: the scores of its own model and of the global one, where they were asked for."""

    round: Round
    personal: Scores | None
    global_model: Scores | None


class Finished(Message, frozen=True):
    """Server: the run is over; nothing more will come."""

    reason: Text


class Refused(Message, frozen=True):
    """Either side: why it closes the connection now. A device that the server refuses does not come back: where trying
    again may help, as after a timeout, the server closes the connection without a word.
    """

    reason: Text


TYPES: dict[int, type[Message]] = {  # the frame's type byte; a number is never used again for something else
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
}
NUMBERS = {kind: number for number, kind in TYPES.items()}


def _plain(value: Any) -> str:
    """What msgspec asks for a type that it does not know: a text that was a peer's may go on, or back to its peer."""
    if isinstance(value, PeerText):
        return whole(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
_decoders: dict[int, msgspec.msgpack.Decoder[Any]] = {n: msgspec.msgpack.Decoder(kind) for n, kind in TYPES.items()}


def encode(message: Message) -> bytes:
    """The message as msgpack."""
    return _encoder.encode(message)


def check(message: Message) -> None:
    """Raise msgspec.ValidationError, TypeError or another ValueError if the receiver would refuse a field.

    Bytes of payloads have no limit of their own and are not looked at.
    """
    if isinstance(message, Train | Trained | Evaluate):
        message = msgspec.structs.replace(message, payload=dict.fromkeys(message.payload, b""))
    decode(NUMBERS[type(message)], encode(message))


def decode(number: int, data: bytes | bytearray) -> Message:
    """The message of that type, in which each text is PeerText.

    Raises  KeyError for an unknown number, msgspec.DecodeError for bad bytes.
    """
    message: Message = of_peer(_decoders[number].decode(memoryview(data)))
    return message
