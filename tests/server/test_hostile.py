"""Whatever an admitted device sends, the coordinator goes on: it refuses, closes or ignores, and the run ends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefl.methods import FedAvg, LocalOnly
from edgefl.protocol.wire.messages import Evaluated, Scores, Trained
from edgefl.server import run_history
from edgefl.server.events import MessageReceived, ReplyJudged
from tests.server.served import CLIENTS, METHOD, RULES, World

ROUNDS, COUNTS = st.integers(0, RULES.rounds + 2), st.sampled_from([0, 1, 7, 2**53 - 1])
METRICS = st.dictionaries(st.sampled_from(["loss", "client", "status", "down", "x"]), st.floats(), max_size=3)
SCORES = st.none() | st.builds(Scores, st.floats(), COUNTS, COUNTS)
EVALUATED = st.builds(Evaluated, ROUNDS, SCORES, SCORES)


@st.composite
def replies(draw: st.DrawFn, genuine: Trained | None) -> Trained:
    """Draw any reply. Where the device has a genuine reply, draw often this reply with something changed."""
    payload = {} if genuine is None else dict(genuine.payload)
    for name, data in payload.items():
        damaged = bytearray(data)
        for _ in range(draw(st.integers(0, 2))):
            damaged[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
        payload[name] = bytes(damaged)[: draw(st.sampled_from([len(data), len(data) - 1]))]
    made = Trained(
        draw(ROUNDS),
        draw(st.just(payload) | st.dictionaries(st.sampled_from(["model", "x"]), st.binary(max_size=40), max_size=2)),
        draw(st.binary(max_size=8)),
        draw(COUNTS),
        draw(COUNTS),
        draw(st.sampled_from(["on", "stopped"])),
        draw(METRICS),
        draw(st.floats()),
    )
    if genuine is None:
        return made
    fields = st.sets(st.sampled_from(["payload", "round", "selection_hash", "examples", "steps", "metrics", "seconds"]))
    return msgspec.structs.replace(genuine, **{name: getattr(made, name) for name in draw(fields)})


METHODS = [METHOD, replace(METHOD, weight="batches"), FedAvg(per_round=3, epochs=1), LocalOnly(per_round=3, epochs=1)]


@settings(max_examples=25)
@given(data=st.data())
def test_nothing_that_a_device_sends_stops_the_server(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = World(tmp_path_factory.mktemp("world"), data.draw(st.sampled_from(METHODS), label="method"))
    for _ in range(data.draw(st.integers(5, 60), label="steps")):
        client = data.draw(st.integers(0, CLIENTS - 1), label="client")
        if client in world.link_of and data.draw(st.booleans(), label="hostile"):
            message = data.draw(replies(world.phones[client].pending) | EVALUATED, label="message")
            world.happen(MessageReceived(world.link_of[client], message))
        elif steps := world.steps():
            steps[data.draw(st.integers(0, len(steps) - 1), label="step")]()
    world.restart_server()
    world.finish()
    assert world.done
    assert len(run_history.metrics(world.path)) == RULES.rounds
    json.dumps(run_history.metrics(world.path), allow_nan=False)  # so whoever reads them needs no Python
    state = run_history.progress(world.path).state
    assert state is not None
    for params in state.arrays.values():
        assert all(np.isfinite(array).all() for array in params.values())
    world.store.close()


def test_a_refused_device_goes_back_and_trains_in_the_next_round(tmp_path: Path) -> None:
    """A reply whose samples are said to be none is refused, and the same device is accepted later."""
    world = World(tmp_path)
    while not any(world.to_server.values()):
        world.steps()[0]()
    client = next(c for c in range(CLIENTS) if world.to_server[c])
    genuine = world.to_server[client].popleft()
    world.to_server[client].append(msgspec.structs.replace(genuine, examples=0))
    world.finish()
    assert world.done
    judged = [record for record in world.saved if isinstance(record, ReplyJudged) and record.client == client]
    assert [record.outcome for record in judged] == ["refused", *["accepted"] * (len(judged) - 1)]
    assert len(judged) > 1
