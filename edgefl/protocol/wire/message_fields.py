"""The base of messages, and the types of their fields: numbers, bytes and texts with their ranges, and structs.

messages.py has the messages.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

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
LONGEST_TEXT = 1000  # characters of a reason
Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]


class Message(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The base of all messages. Fields travel in the order of their declaration."""


class ModelPart(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Bytes of the initial model that a device may hold from an earlier run: the values of one frozen parameter.

    offset, size  first byte in the packed model (wire/model_message.py), and number of bytes
    digest        SHA-256 of the bytes
    """

    offset: Count
    size: Annotated[int, Meta(ge=1, lt=1 << 53)]
    digest: Digest


class PayloadSpec(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The expected payload of one name in the reply, an ExpectedPayload of methods/expected_reply.py.

    parameters  bitmap over the parameters of the model, or None
    """

    kind: Literal["planned", "chosen", "masked", "mask"]
    parameters: Annotated[bytes, Meta(max_length=1 << 13)] | None


class MeasuredThroughput(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The speed at which a device trains (methods/throughput.py).

    still_s, mac_s   seconds for a multiply-add of frozen layers, and of the steps
    step_s, round_s  additional seconds for a step, and for a round
    memory           bytes that training may take. None: no limit
    """

    still_s: Seconds
    mac_s: Seconds
    step_s: Seconds
    round_s: Seconds
    memory: Count | None


class Scores(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The scores of one model on the device's own test samples.

    loss_sum  sum of the losses of all samples
    correct   number of correct decisions
    examples  number of test samples
    """

    loss_sum: float
    correct: Count
    examples: Count


class AdaptationWork(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The work that adapted a model to the device before its test (methods/rounds/adaptation.py).

    steps           gradient steps
    executed_flops  operations of the products that the learner ran to train
    seconds         seconds of the adaptation
    """

    steps: Count
    executed_flops: Annotated[float, Meta(ge=0, le=1e24)]
    seconds: Seconds
