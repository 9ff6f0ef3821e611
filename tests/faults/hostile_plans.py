"""Plans and models that a malicious server might send a device: the cases of malicious.py. Nothing runs here.

Each case keeps to the protocol, so that the device has to refuse the content and not the form. The device has 1,000
samples of shape 1 x 8 x 8 in 10 classes. Its limits are in malicious.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from edgefl.models.graph import Graph, Model
from edgefl.models.graph import json as graph_json
from edgefl.models.graph.graph import INPUT, Node
from edgefl.models.graph.operations import AvgPool2d, Conv2d, Flatten, GlobalAvgPool, Linear, Operation, ReLU
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.protocol import codec
from edgefl.protocol.wire.messages import Evaluate, Finished, Message, ModelPart, Train, Verdict
from edgefl.protocol.wire.model_message import pack
from edgefl.protocol.wire.model_parts import frozen_parts

SHAPE, CLASSES = (1, 8, 8), 10
SAMPLES = 1000
FLOOD = 40  # messages
LONG = 2**30  # largest number that still counts as an extent. The next case goes beyond


def chain(*ops: Operation) -> Graph:
    """Return a graph of these operations, one after the other."""
    names = [INPUT, *(f"n{i}" for i in range(len(ops)))]
    return Graph(SHAPE, tuple(Node(names[i + 1], op, (names[i],)) for i, op in enumerate(ops)))


def plain(hidden: int = 32) -> Graph:
    """Return the honest model."""
    return chain(Flatten(), Linear(64, hidden), ReLU(), Linear(hidden, CLASSES))


def with_base() -> Graph:
    """Return a model of 20 MB, of which 18 MB are frozen."""
    graph = chain(
        Flatten(), Linear(64, 4096), ReLU(), Linear(4096, 1024), ReLU(), Linear(1024, 360), Linear(360, CLASSES)
    )
    return replace(graph, frozen=frozenset({"n1.weight", "n1.bias", "n3.weight", "n3.bias"}))


def whole(graph: Graph) -> Model:
    """Return the graph with small parameters that are all equal."""
    return Model(graph, {n: np.full(p.shape, 0.01, np.float32) for n, p in graph.parameters().items()})


def dense(model: Model) -> bytes:
    """Return all parameters of the model as a payload."""
    spec = ModelSpec.of(model.graph)
    return codec.encode(take(model.params, spec), spec)


def train(model: Model, payload: dict[str, bytes] | None = None, **settings: Any) -> Train:
    """Return the request of round 1 with the whole model, or with the given payload."""
    return Train(1, b"", {"model": dense(model)} if payload is None else payload, settings, None, True)


def body(model: Model, **settings: Any) -> Train:
    """Return the request of round 1 of a method whose clients have heads of their own."""
    spec = ModelSpec.of(model.graph)
    names = spec.body
    return train(model, {"body": codec.encode(take(model.params, spec, names=names), spec)}, **settings)


@dataclass(frozen=True)
class Plan:
    """A request of a server.

    model    packed, or its graph, which is packed with parameters of its own
    said     messages once the device has the model, all at once
    shares   of Welcome
    size     bytes that Welcome claims of the model, or None for what it has
    refused  words of the sentence that is expected, or "" where the plan is to be followed
    kept     whether an honest round precedes what is refused
    """

    name: str
    refused: str
    model: Graph | bytes = field(default_factory=plain)
    method: str = "fedavg"
    options: dict[str, Any] = field(default_factory=dict)
    said: Callable[[Model], Iterator[Message]] | None = None
    shares: tuple[float, float] = (0.7, 0.1)
    size: int | None = None
    kept: bool = False

    def parts(self) -> list[ModelPart]:
        """Return the parts of the model that the server lists."""
        has_base = isinstance(self.model, Graph) and self.model.frozen
        return frozen_parts(self.model, self.packed()) if has_base else []

    def packed(self) -> bytes:
        return pack(whole(self.model)) if isinstance(self.model, Graph) else self.model

    def messages(self) -> Iterator[Message]:
        """Return the messages of the server once the device has the model."""
        model = whole(self.model if isinstance(self.model, Graph) else plain())
        return iter([train(model)]) if self.said is None else self.said(model)


def _one(make: Callable[..., Message], *given: Any, **named: Any) -> Callable[[Model], Iterator[Message]]:
    return lambda model: iter([make(model, *given, **named)])


def _flood(model: Model) -> Iterator[Message]:
    """Yield a round and, while its reply waits, more and more payloads."""
    yield train(model)
    payload = dense(model)
    for round in range(2, FLOOD):
        yield Train(round, b"", dict.fromkeys(("a", "b", "c", "d"), payload), {}, None, True)


def _verdicts(model: Model) -> Iterator[Message]:
    for round in range(FLOOD):
        yield Verdict(round + 5, "accepted", "")
    yield Finished("flooded\x1b[2J")


def _text(change: Callable[[dict[str, Any]], None]) -> bytes:
    """Return the honest model's bytes with another graph text. The parameters after the text do not matter then."""
    document = json.loads(graph_json.dumps(plain()))
    change(document)
    text = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    return len(text).to_bytes(4, "little") + text + bytes(1000)


def _settings(**found: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change that inserts a convolution with these settings before the first node."""

    def change(document: dict[str, Any]) -> None:
        conv = {"in_channels": 1, "out_channels": 1, "kernel_size": [1, 1], "stride": [1, 1], "padding": [0, 0]}
        conv |= {"dilation": [1, 1], "groups": 1, "bias": False, **found}
        document["nodes"].insert(0, {"name": "c", "op": "Conv2d", "inputs": ["input"], "settings": conv})
        document["nodes"][1]["inputs"] = ["c"]

    return change


def _many_layers(count: int) -> Graph:
    return chain(*(Conv2d(1, 1, (1, 1)) for _ in range(count)), Flatten(), Linear(64, CLASSES))


PLANS = (
    Plan("an honest round", ""),
    Plan(
        "an honest round of FedDC, of 2.4 MB",
        "",
        plain(8_000),
        method="feddc",
        options={"epochs": 1, "batch": 64},
        said=_one(lambda model: train(model, dict.fromkeys(("model", "gradient"), dense(model)))),
    ),
    Plan("a layer of 100,000 neurons", "--max-memory", plain(100_000)),
    Plan(
        "30,000 channels of activations",
        "limit_bytes",
        chain(Conv2d(1, 30_000, (1, 1)), ReLU(), GlobalAvgPool(), Flatten(), Linear(30_000, CLASSES)),
    ),
    Plan("3,000 tiny layers", "--max-seconds", _many_layers(3_000)),
    Plan("4,094 layers, above the nodes that fit", "nodes", _many_layers(4_094)),
    Plan(
        "120 layers whose activations are all saved",
        "limit_bytes",
        chain(
            *(Conv2d(16 if i else 1, 16, (3, 3), padding=(1, 1)) for i in range(120)),
            GlobalAvgPool(),
            Flatten(),
            Linear(16, CLASSES),
        ),
        options={"batch": 500},
    ),
    Plan("a batch of 2^50", "", options={"batch": 1 << 50}),
    Plan("10^6 epochs", "--max-seconds", options={"epochs": 10**6}),
    Plan("2^52 epochs", "--max-seconds", options={"epochs": 1 << 52}),
    Plan("10^5 steps a pass and 50 passes", "--max-seconds", plain(512), options={"batch": 1, "epochs": 5000}),
    Plan(
        "10^9 steps of a head",
        "--max-seconds",
        method="pflego",
        options={"tau": 10**9},
        said=_one(body, scale=1.0, examples=700),
    ),
    Plan("no payload", "without payload 'model'", said=_one(train, {})),
    Plan("one payload of two", "without payload 'gradient'", method="feddc"),
    Plan("no neurons for FedSPU", "without neurons", method="fedspu"),
    Plan(
        "a setting of another type",
        "cannot be done",
        method="pflego",
        options={"tau": 2},
        said=_one(body, scale=1.0, examples="many"),
    ),
    Plan(
        "a setting that is no number",
        "scale=nan",
        method="pflego",
        options={"tau": 2},
        said=_one(body, scale=float("nan"), examples=700),
    ),
    Plan(
        "no settings",
        "without setting 'examples'",
        method="pflego",
        options={"tau": 2},
        said=_one(body),
    ),
    Plan("half an epoch", "epochs=1.5", options={"epochs": 1.5}),
    Plan(
        "padding and stride of 2^30 on one axis, which are cells that nobody stores",
        "",
        chain(Conv2d(1, 1, (3, 3), stride=(LONG, 1), padding=(LONG, 1)), Flatten(), Linear(24, CLASSES)),
    ),
    Plan(
        "padding and stride of 2^30 under 64 channels, whose packing is terabytes",
        "limit_bytes",
        chain(
            Conv2d(1, 64, (1, 1)),
            Conv2d(64, 64, (1, 1), stride=(LONG, 1), padding=(LONG, 0)),
            Flatten(),
            Linear(64 * 3 * 8, CLASSES),
        ),
    ),
    Plan(
        "padding and stride of 2^30 on both",
        "too large together",
        chain(Conv2d(1, 1, (3, 3), stride=(LONG, LONG), padding=(LONG, LONG)), Flatten(), Linear(9, CLASSES)),
    ),
    Plan("padding and stride of 2^40", "stride", _text(_settings(stride=[2**40, 2**40], padding=[2**40, 2**40]))),
    Plan(
        "a pool over 2^31 cells",
        "too large together",
        chain(AvgPool2d((2**31 - 1, 2**31 - 1), (LONG, LONG), (LONG - 1, LONG - 1)), Flatten(), Linear(1, CLASSES)),
    ),
    Plan(
        "features of 32,768 values for every sample",
        "limit_bytes",
        chain(Conv2d(1, 512, (1, 1)), ReLU(), Flatten(), Linear(512 * 64, CLASSES)),
        method="pflego",
        options={"tau": 3},
        said=_one(body, scale=1.0, examples=700),
    ),
    Plan(
        "a round of days by its multiply-accumulates",
        "--max-seconds",
        chain(
            Conv2d(1, 1, (1, 1), padding=(500, 500)),
            Conv2d(1, 1, (401, 401), padding=(200, 200)),
            GlobalAvgPool(),
            Flatten(),
            Linear(1, CLASSES),
        ),
        options={"batch": 1},
    ),
    Plan(
        "an evaluation of which one call takes a minute",
        "cannot be interrupted",
        chain(
            Conv2d(1, 1, (1, 1), padding=(60, 60)),
            *(Conv2d(1, 1, (91, 91), padding=(45, 45)) for _ in range(60)),
            GlobalAvgPool(),
            Flatten(),
            Linear(1, CLASSES),
        ),
        said=_one(lambda model: Evaluate(1, True, {"model": dense(model)})),
    ),
    Plan(
        "a flood of payloads",
        "without payload 'model'",
        plain(8_000),
        options={"epochs": 1, "batch": 100},
        said=_flood,
        kept=True,
    ),
    Plan(
        "a flood of payloads beside a frozen base",
        "without payload 'model'",
        with_base(),
        options={"epochs": 1, "batch": 100},
        said=_flood,
        kept=True,
    ),
    Plan("a flood of verdicts, and an escape sequence", "", said=_verdicts),
    Plan(
        "16 payloads in one frame, 15 of them empty",
        "header: 0 bytes",
        said=lambda model: iter([train(model, {"model": dense(model), **{f"p{i}": b"" for i in range(15)}})]),
    ),
    Plan(
        "an evaluation of half a model",
        "expected 4",
        said=lambda model: iter(
            [
                Evaluate(
                    1,
                    True,
                    {
                        "model": codec.encode(
                            take(model.params, ModelSpec.of(model.graph), names=("n1.weight",)),
                            ModelSpec.of(model.graph),
                        )
                    },
                )
            ]
        ),
    ),
    Plan("JSON that is nested 100,000 deep", "JSON", (lambda t: len(t).to_bytes(4, "little") + t)(b"[" * 100_000)),
    Plan("a model of 2^27 bytes, as it says", "--max-memory", size=1 << 27),
    Plan("shares that are no numbers", "shares", shares=(float("nan"), 0.1)),
)
