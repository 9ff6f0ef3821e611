"""A whole conversation as messages, and both sides of a connection played against each other. The tests share it."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl.errors import LocalProtocolError, RemoteProtocolError
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.operations import Linear
from edgefl.protocol.wire import frames, messages, model_message
from edgefl.protocol.wire.connection import Connection
from edgefl.protocol.wire.handshake import Role, proof
from edgefl.protocol.wire.messages import (
    PARTS,
    PROTOCOL,
    AdaptationReport,
    AdaptationWork,
    Challenge,
    ComeAgain,
    DeviceNotice,
    Enrol,
    Evaluate,
    Evaluated,
    Finished,
    GroupReady,
    GroupReply,
    GroupRequest,
    Hello,
    MeasuredThroughput,
    Message,
    ModelChunk,
    ModelPart,
    ModelParts,
    ModelRequest,
    OverlapReport,
    PartialModelRequest,
    Refused,
    RosterPart,
    Scores,
    SecureOffer,
    ThroughputReport,
    Train,
    Trained,
    Verdict,
    Welcome,
)
from edgefl.protocol.wire.model_message import FRAME_ALLOWANCE

KEY, DEVICE_NONCE, SERVER_NONCE = bytes(range(32)), b"d" * 32, b"s" * 32
RUN, CLIENT = "run-1", 3
GRAPH = Graph((2,), (Node("out", Linear(2, 3), ("input",)),))
PARAMS = {"out.weight": np.arange(6, dtype=np.float32).reshape(3, 2), "out.bias": np.float32([0.5, -0.0, np.nan])}
MODEL = model_message.pack(Model(GRAPH, PARAMS))
PROOFS: dict[Role, bytes] = {
    role: proof(KEY, role, RUN, CLIENT, DEVICE_NONCE, SERVER_NONCE) for role in ("device", "server")
}

HELLO = Hello(PROTOCOL, RUN, CLIENT, DEVICE_NONCE, "edgefl 0.1.0")
CHALLENGE = Challenge(RUN, SERVER_NONCE, PROOFS["server"])
ENROL = Enrol(PROOFS["device"], 0.6, PARTS, 0, b"", 0, bytes(16), b"", [70, 8, 33])
LISTED = [ModelPart(len(MODEL) - 12, 12, model_message.digest(MODEL[-12:]))]  # out.bias
MODEL_PARTS = ModelParts(LISTED)
WELCOME = Welcome(
    CLIENT,
    8,
    1,
    "fedspu",
    {"lr": 0.1, "keep": [0.2, 1.0]},
    "float32",
    (0.8, 0.1),
    len(MODEL),
    model_message.digest(MODEL),
    "huber:delta=0.5",
)
THIRD = -(-len(MODEL) // 3)
CHUNKS = [ModelChunk(at, MODEL[at : at + THIRD]) for at in range(0, len(MODEL), THIRD)]
TRAIN = Train(1, b"ids", {"model": b"w" * 200, "control": b"c" * 5}, {"keep": 0.6}, 30.0, False)
TRAINED = Trained(1, {"model": b"v" * 200}, b"12345678", 100, 7, "on", {"loss": 0.25}, 1.5)
THROUGHPUT_MESSAGE = ThroughputReport(MeasuredThroughput(1e-10, 2e-10, 0.001, 0.25, 1 << 20))
VERDICT = Verdict(1, "accepted", "")
EVALUATE = Evaluate(1, True, {"model": b"w" * 300})
EVALUATED = Evaluated(1, Scores(1.5, 8, 10), None)
ADAPTED = AdaptationReport(1, Scores(1.5, 8, 10), None, AdaptationWork(4, 3360.0, 0.5))
OVERLAPS = OverlapReport(1, Scores(1.5, 8, 10), None, None, 0.25, None)

Step = tuple[Role, Message]
CONVERSATION: list[Step] = [
    ("device", HELLO),
    ("server", CHALLENGE),
    ("device", ENROL),
    ("server", MODEL_PARTS),
    ("server", RosterPart(6, 0, b"roster")),
    ("server", SecureOffer(b"", 3, 0)),
    ("server", WELCOME),
    ("device", ModelRequest(0)),
    *(("server", chunk) for chunk in CHUNKS),
    ("device", DeviceNotice({"site": "north"}, True, False)),
    ("device", THROUGHPUT_MESSAGE),
    ("server", TRAIN),
    ("device", TRAINED),
    ("device", GroupReady(1, b"12345678", 100, 7, 1.5, bytes(32))),
    ("server", GroupRequest(1, 2, b"keys")),
    ("device", GroupReply(1, 2, b"", "why")),
    ("server", VERDICT),
    ("server", EVALUATE),
    ("device", EVALUATED),
    ("server", Finished("all 1 rounds are done")),
    ("device", Refused("good bye")),
]
UP_TO = {  # a state -> the steps that lead to it
    "greeting": 0,
    "challenging": 1,
    "proving": 2,
    "deciding": 3,
    "welcomed": 7,
    "loading": 8,
    "ready": 8 + len(CHUNKS),
    "finished": len(CONVERSATION) - 1,
    "closed": len(CONVERSATION),
}
EXAMPLES: dict[type[Message], Message] = {
    PartialModelRequest: PartialModelRequest(0, b"\x01"),
    AdaptationReport: ADAPTED,
    OverlapReport: OVERLAPS,
    ComeAgain: ComeAgain(412.5),
    **{type(message): message for _, message in reversed(CONVERSATION)},
}


class Pair:
    """A device and a server whose bytes reach each other at once."""

    def __init__(self, cap: int = FRAME_ALLOWANCE) -> None:
        self.sides: dict[Role, Connection] = {role: Connection(role, cap) for role in ("device", "server")}
        self.sent: dict[Role, int] = {"device": 0, "server": 0}  # messages

    def say(self, sender: Role, message: Message) -> bytes:
        """Send a message, which the other side must receive, and nothing else."""
        data = self.sides[sender].send(message)
        self.sent[sender] += 1
        assert other(self.sides, sender).receive(data) == [message]
        return data

    def forge(self, sender: Role, kind: int, body: bytes) -> list[Message]:
        """Return what the other side makes of a well-formed frame that `sender` itself would not send."""
        data = frames.encode(kind, self.sent[sender], body)
        self.sent[sender] += 1
        return other(self.sides, sender).receive(data)

    def forge_message(self, sender: Role, message: Message) -> list[Message]:
        return self.forge(sender, messages.NUMBERS[type(message)], messages.encode(message))


def other(sides: dict[Role, Connection], role: Role) -> Connection:
    return sides["server" if role == "device" else "device"]


def pair_in(state: str) -> Pair:
    """Both sides, after the part of CONVERSATION that leads to a state."""
    pair = Pair()
    for sender, message in CONVERSATION[: UP_TO[state]]:
        pair.say(sender, message)
    assert [side.state for side in pair.sides.values()] == [state, state]
    return pair


def streams() -> dict[Role, list[bytes]]:
    """The frames that each role sends in CONVERSATION."""
    pair = Pair()
    sent: dict[Role, list[bytes]] = {"device": [], "server": []}
    for sender, message in CONVERSATION:
        sent[sender].append(pair.say(sender, message))
    return sent


def remote_error(pair: Pair, sender: Role, message: Message) -> str:
    with pytest.raises(RemoteProtocolError) as error:
        pair.forge_message(sender, message)
    return str(error.value)


def local_error(pair: Pair, sender: Role, message: Message) -> str:
    with pytest.raises(LocalProtocolError) as error:
        pair.sides[sender].send(message)
    return str(error.value)


def both_errors(state: str, sender: Role, message: Message) -> str:
    """The sentence with which the sender's side will not send a message, and the receiver's will not have it."""
    local = local_error(pair_in(state), sender, message)
    assert remote_error(pair_in(state), sender, message) == local
    return local
