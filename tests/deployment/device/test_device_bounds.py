"""The limits of a device for its server: memory, steps and seconds of a round.

Plans must have what their method needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from edgefl.deployment.device.deferred_requests import MOST
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.request_limits import COPIES, NODE_BYTES, Bounds
from edgefl.errors import MemoryLimitError, PlanError, RunError, TimeLimitError
from edgefl.experiment.federation import Federation
from edgefl.methods import PFLEGO, FedAvg
from edgefl.protocol.wire.messages import Evaluate, Train, Verdict
from edgefl.protocol.wire.model_message import frame_cap
from tests.deployment.device.device_cases import ANYBODY, METHODS, bits, files, messages_of, scripted
from tests.deployment.device.device_server import ScriptedServer, converse

BOUNDED = ANYBODY._replace(max_memory=50_000_000, max_seconds=1000.0)


def asked(server: ScriptedServer, **changes: Any) -> ScriptedServer:
    """Return the server with a first round that has other settings."""
    first = msgspec.structs.replace(server.script[1], **changes)
    return replace(server, script={1: first}, evaluate=None)


@pytest.mark.parametrize("method", ["fedspu-es", "fedavg", "fedumf", "feddyn"])
def test_within_bounds_a_device_ends_with_the_same_bits(method: str, federation: Federation, make: Any) -> None:
    server = scripted(federation, METHODS[method], [1, 2])
    free, bounded = make(1), make(2, profile=BOUNDED)
    converse(free, server)
    replies = dict(server.replies)
    server.replies.clear()
    converse(bounded, server)
    assert server.replies == replies
    kept, expected = bounded._state.personal(), free._state.personal()
    assert kept is not None and expected is not None
    assert (bits(kept.flat()), kept.private) == (bits(expected.flat()), expected.private)
    client_state, algorithm = bounded._ready()._client_state, bounded._ready()._algorithm
    assert algorithm.effort(len(client_state.train)) == (replies[1].steps, replies[1].examples)  # one epoch


def test_a_round_of_heads_takes_as_many_steps_as_it_says() -> None:
    assert PFLEGO(tau=7).effort(30) == (7, 30)
    assert FedAvg(epochs=3, batch=4).effort(10) == (9, 30)


def refused(device: Device, server: ScriptedServer, error: type[Exception], words: str) -> None:
    """The device refuses the round with these words, and is as before it."""
    with pytest.raises(error, match=words):
        converse(device, server)
    assert (device._state.round, device._state.pending) == (0, 0)
    assert not {"local.safetensors", "pending.safetensors"} & files(device).keys()


@pytest.mark.parametrize("method", ["fedspu", "fedavg", "fedumf", "feddyn", "fedumf-feddc"])
def test_a_plan_without_its_payload_is_refused_by_name(method: str, federation: Federation, make: Any) -> None:
    server = scripted(federation, METHODS[method], [1])
    words = "without payload 'model', which its method needs; found none|without neurons"
    refused(make(), asked(server, payload={}), PlanError, words)


def test_a_setting_that_is_no_finite_number_is_refused(server: ScriptedServer, make: Any) -> None:
    refused(make(), asked(server, settings={"keep": float("nan")}), PlanError, "plan with keep=nan; expected a finite")


def test_a_setting_that_float32_does_not_hold_is_refused(server: ScriptedServer, make: Any) -> None:
    words = r"plan with keep=1e\+300; expected a finite number of float32"
    refused(make(), asked(server, settings={"keep": 1e300}), PlanError, words)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_rate_that_float32_does_not_hold_is_refused_at_welcome(server: ScriptedServer, make: Any) -> None:
    welcome = server.welcome
    options = {**welcome.options, "lr": 1e300}
    changed = replace(server, welcome=msgspec.structs.replace(welcome, options=options))
    with pytest.raises(RunError, match=r"method fedspu of the server: lr=1e\+300; expected at most 3\.40282e\+38"):
        converse(make(), changed)


def test_a_plan_that_trips_over_itself_is_refused_with_its_round(server: ScriptedServer, make: Any) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise TypeError("no such operand")

    device = make()
    converse(device, replace(server, script={}, evaluate=None))
    object.__setattr__(device._ready()._algorithm, "train", broken)
    with pytest.raises(
        PlanError, match=r"round 1 of fedspu cannot be done as the server asks for it \(TypeError: no such"
    ):
        messages_of(device, server.script[1])
    assert not device._ready()._is_own


def test_a_round_that_broke_off_leaves_nothing_in_the_learner(server: ScriptedServer, make: Any) -> None:
    """Afterwards the device trains the round as if nothing had happened."""
    calls: list[str] = []

    @contextmanager
    def within(what: str) -> Iterator[None]:
        calls.append(what)
        yield
        if len(calls) == 1:
            raise TimeLimitError("too long")

    first, undisturbed = make(1), make(2)
    converse(undisturbed, server)
    expected = dict(server.replies)
    server.replies.clear()
    first._world = first._world._replace(within=within)
    with pytest.raises(TimeLimitError):
        converse(first, server)
    converse(first, server)
    assert calls[:2] == ["round 1", "round 1"]
    assert calls[-1].startswith("the evaluation after round")
    assert server.replies == expected


def test_more_steps_than_can_be_made_in_the_time_are_refused_beforehand(federation: Federation, make: Any) -> None:
    server = scripted(federation, replace(METHODS["fedavg"], epochs=10**9), [1])  # type: ignore[call-arg]
    device = make(profile=ANYBODY._replace(max_seconds=5.0))
    refused(device, server, PlanError, r"[0-9]+ steps; --max-seconds 5 allows at most 5000000$")


def test_an_adaptation_of_more_steps_than_can_be_made_in_the_time_is_refused(federation: Federation, make: Any) -> None:
    server = scripted(federation, replace(METHODS["fedavg"], ft=10**9), [1])  # type: ignore[call-arg]
    device = make(profile=ANYBODY._replace(max_seconds=5.0))
    with pytest.raises(PlanError, match=r"[0-9]+ steps; --max-seconds 5 allows at most 5000000$"):
        converse(device, server)
    assert server.replies  # the round itself was trained


def test_a_model_whose_round_exceeds_the_memory_is_not_even_asked_for(server: ScriptedServer, make: Any) -> None:
    size = len(server.model)
    device = make(profile=ANYBODY._replace(max_memory=COPIES * size))
    words = f"model of {size} bytes needs {COPIES * size} bytes in a round; the limit is --max-memory {COPIES * size}"
    with pytest.raises(MemoryLimitError, match=words):
        converse(device, server)
    assert device._state.received() == 0


def test_training_beyond_the_memory_is_refused_before_it_is_allocated(
    server: ScriptedServer, federation: Federation, make: Any
) -> None:
    parameters = sum(4 * math.prod(param.shape) for param in federation.graph.parameters().values())
    memory = (COPIES + 1) * parameters + NODE_BYTES * len(federation.graph.nodes) + 4096
    device = make(profile=ANYBODY._replace(max_memory=max(memory, COPIES * len(server.model) + 1)))
    refused(device, server, MemoryLimitError, r"needs [0-9]+ bytes; limit_bytes=[0-9]+$")


def test_frozen_parameters_count_once(federation: Federation) -> None:
    """At Welcome the server says what is frozen, and later the graph does."""
    fitting = COPIES * 100 + 900
    Bounds(1 << 20, fitting + 1).check_model(1000, 900)
    words = f"model of 1000 bytes needs {fitting} bytes in a round; the limit is --max-memory {fitting}"
    with pytest.raises(MemoryLimitError, match=words):
        Bounds(1 << 20, fitting).check_model(1000, 900)
    with pytest.raises(MemoryLimitError, match=f"needs {COPIES * 1000} bytes in a round"):
        Bounds(1 << 20, fitting + 1, in_envelopes=True).check_model(1000, 900)
    graph = federation.graph
    trained, *frozen = graph.parameters()
    partly = replace(graph, frozen=frozenset(frozen))
    still = sum(4 * math.prod(partly.parameters()[name].shape) for name in frozen)
    outside = COPIES * 4 * math.prod(graph.parameters()[trained].shape) + NODE_BYTES * len(graph.nodes)
    assert Bounds(1 << 20, outside + still + 1).training(partly) == still + 1
    with pytest.raises(MemoryLimitError, match=f"needs {outside + still} bytes in a round"):
        Bounds(1 << 20, outside + still).training(partly)


def test_a_graph_has_no_more_nodes_than_fit() -> None:
    assert Bounds(1 << 20, 100 * NODE_BYTES).graph().nodes == 100
    assert Bounds(1 << 20).graph().nodes > 1000
    with pytest.raises(RunError, match="model of 11 bytes; the limit is --max-model 10"):
        Bounds(10).check_model(11)
    assert Bounds(10).learner is not None


def test_what_waits_for_a_verdict_stays_below_a_frame(server: ScriptedServer, make: Any) -> None:
    said: list[str] = []
    device = make(said=said)
    device.hello(bytes(32))
    converse(device, replace(server, script={1: server.script[1]}, outcomes={}, evaluate=None))
    device._state.pending = 9  # a reply that waits
    size = frame_cap(len(server.model)) // 3
    for round in range(10, 20):
        assert messages_of(device, Train(round, b"", {"a": bytes(size)}, {}, None, True)) == []
    assert [message.round for message in device._deferred._waiting] == [17, 18, 19]
    for round in range(100):
        assert messages_of(device, Evaluate(round, True, {})) == []
    assert len(device._deferred._waiting) == MOST
    assert any(
        "round 10: request dropped, as newer ones came before the verdict on the last reply" in line for line in said
    )


def test_of_a_flood_of_what_means_nothing_the_first_lines_are_told(server: ScriptedServer, make: Any) -> None:
    said: list[str] = []
    device = make(said=said)
    device.hello(bytes(32))
    assert messages_of(device, *(Verdict(round, "accepted", "") for round in range(1, 500))) == []
    assert said == [f"verdict on round {round}, for which no reply waits: ignored" for round in range(1, 21)]


def test_of_a_flood_of_refusals_the_first_lines_are_told(server: ScriptedServer, make: Any) -> None:
    said: list[str] = []
    device = make(said=said)
    device.hello(bytes(32))
    converse(device, replace(server, script={1: server.script[1]}, outcomes={}, evaluate=None))
    told = len(said)
    for round in range(2, 500):
        device._state.pending = round  # a reply that waits
        messages_of(device, Verdict(round, "refused", "x" * 1000))
    refused = [line for line in said[told:] if "the server refused the reply" in line]
    assert (len(refused), len(said) - told) == (20, 20)
    assert sum(map(len, refused)) < 25_000
