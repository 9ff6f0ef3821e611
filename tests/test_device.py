"""A device's half of the protocol, driven through two connections without sockets."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from device_server import RUN, ScriptedServer, converse

from edgefl import rng
from edgefl.algorithms import FedAvg, FedSPU, LocalOnly
from edgefl.algorithms.base import MODEL, Algorithm, State, Tally, Task, refuse
from edgefl.assemble import assemble
from edgefl.device import Device, Profile, SpoiltError, World
from edgefl.device_model import Data
from edgefl.device_state import DeviceState
from edgefl.errors import AuthError, DataError, RemoteProtocolError, RequestError, RunError
from edgefl.exchange import evaluate_message, reply_of, train_message
from edgefl.experiment import Experiment
from edgefl.federation import Federation
from edgefl.graph import Model, Params
from edgefl.runs import Journal, read_metrics
from edgefl.shares import read_share, share_file, write_share
from edgefl.simulate import Settings, simulate
from edgefl.spec import ModelSpec
from edgefl.wire.messages import Enrol, Trained, Verdict, Welcome
from edgefl.wire.model import digest, pack

EXPERIMENT = Experiment(clients=3, per_round=2, partition="dirichlet:0.5", keep=(0.25, 0.5, 1.0))
ROUNDS = 4
METHODS: dict[str, Algorithm] = {
    "fedspu": FedSPU(keep=EXPERIMENT.keep, per_round=2, epochs=1),
    "fedspu-es": FedSPU(keep=EXPERIMENT.keep, per_round=2, epochs=1, es=True),
    "fedspu-code": FedSPU(keep=EXPERIMENT.keep, per_round=2, epochs=1, first_state="current_global"),
    "fedavg": FedAvg(per_round=2, epochs=1),
    "local": LocalOnly(per_round=2, epochs=1),
}


@pytest.fixture(scope="module")
def federation() -> Federation:
    return assemble(EXPERIMENT)


@pytest.fixture(scope="module")
def dealt(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dealt")
    for client in range(3):
        write_share(share_file(directory, client), federation, client)
    return directory


def initial(federation: Federation) -> Params:
    return federation.graph.init(rng.stream(EXPERIMENT.seed, rng.INIT))


def welcome(federation: Federation, method: Algorithm, client: int) -> Welcome:
    data = pack(Model(federation.graph, initial(federation)))
    options = {name: list(v) if isinstance(v, tuple) else v for name, v in vars(method).items()}
    shares = EXPERIMENT.train_share, EXPERIMENT.validation_share
    name = method.name
    return Welcome(client, 3, EXPERIMENT.seed, name, options, "float32", shares, len(data), digest(data))


@dataclass
class Served:
    """The rounds of a method over devices: what simulate does, with messages between the two sides."""

    federation: Federation
    method: Algorithm
    servers: list[ScriptedServer]
    devices: list[Device]

    def run(self) -> State:
        spec = ModelSpec.of(self.federation.graph)
        task = Task(spec, 3, EXPERIMENT.seed)
        state = self.method.start(task, initial(self.federation))
        for round in range(1, ROUNDS + 1):
            tally = Tally(spec)
            for plan in self.method.plan(task, state, round):
                server = self.servers[plan.client]
                server.script = {round: train_message(plan, spec, "float32")}
                converse(self.devices[plan.client], server)
                reply = reply_of(server.replies[round], plan, spec)
                assert refuse(plan, reply) is None
                self.method.fold(tally, plan, reply)
            state = self.method.finish(task, state, tally, round)
            for server, device in zip(self.servers, self.devices, strict=True):
                device.finished = None
                server.script, server.evaluate = {}, evaluate_message(round, self.method, state, spec)
                converse(device, server)
                device.finished, server.evaluate = None, None
        return state


def refuse_to_wait(failures: int) -> None:
    raise AssertionError("the device waits, and nothing is full")


def world(said: list[str] | None = None, pause: Callable[[int], None] = refuse_to_wait) -> World:
    return World([].append if said is None else said.append, pause, lambda: 0.0)


ANYBODY = Profile(None, None, 1.0, 1 << 20)


@pytest.fixture
def make(federation: Federation, dealt: Path, tmp_path: Path) -> Callable[..., Device]:
    """Opens a device's directory by number; one that is opened again stands for a device whose process died."""
    opened: dict[int, DeviceState] = {}

    def opening(place: int = 0, data: int = 0, profile: Profile = ANYBODY, **rest: Any) -> Device:
        if place in opened:
            opened[place].close()
        opened[place] = DeviceState(tmp_path / f"device{place}")
        return Device(opened[place], profile, Data(*read_share(share_file(dealt, data))), world(**rest))

    return opening


@pytest.fixture
def server(federation: Federation) -> ScriptedServer:
    """Two rounds of FedSPU at keep 0.25 for client 0, and the evaluation of the initial global model."""
    return scripted(federation, METHODS["fedspu-es"], [1, 2])


def scripted(federation: Federation, method: Algorithm, rounds: list[int]) -> ScriptedServer:
    spec, method = ModelSpec.of(federation.graph), replace(method, per_round=3)  # type: ignore[call-arg]
    state = method.start(Task(spec, 3, EXPERIMENT.seed), initial(federation))
    script = {
        r: train_message(method.plan(Task(spec, 3, EXPERIMENT.seed), state, r)[0], spec, "float32") for r in rounds
    }
    model = pack(Model(federation.graph, initial(federation)))
    return ScriptedServer(welcome(federation, method, 0), model, script, evaluate_message(2, method, state, spec))


# What it computes.


@pytest.mark.parametrize("name", METHODS)
def test_devices_end_bit_identical_to_a_simulation(
    name: str, federation: Federation, make: Callable[..., Device], tmp_path: Path
) -> None:
    method = METHODS[name]
    journal = Journal(tmp_path / "simulated")
    expected = simulate(method, federation, Settings(ROUNDS, 1, ROUNDS), journal)
    model = pack(Model(federation.graph, initial(federation)))
    servers = [ScriptedServer(welcome(federation, method, client), model, {}) for client in range(3)]
    devices = [make(client, client) for client in range(3)]
    found = Served(federation, method, servers, devices).run()
    assert found.values == expected.values
    assert {g: bits(p) for g, p in found.arrays.items()} == {g: bits(p) for g, p in expected.arrays.items()}
    for client in range(3):
        theirs, mine = journal.load_local(client), devices[client]._state.personal()
        assert (theirs is None) == (mine is None or not mine.params)
        if theirs is not None and mine is not None:
            assert bits(mine.params) == bits(theirs[0])
            assert mine.private == theirs[1]
    assert [scores(server) for server in servers] == simulated_scores(tmp_path / "simulated")
    journal.close()


def bits(params: Params) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in sorted(params.items())}


def scores(server: ScriptedServer) -> list[tuple[int | None, int | None]]:
    """Hits of the personal and of the global model, round by round."""
    return [(s.personal and s.personal.correct, s.global_model and s.global_model.correct) for s in server.scores]


def simulated_scores(path: Path) -> list[list[tuple[int | None, int | None]]]:
    lines = [line["evaluation"] for line in read_metrics(path)]
    kinds = "personal", "global_local"
    return [
        [tuple(line[kind]["correct"][client] if kind in line else None for kind in kinds) for line in lines]  # type: ignore[misc]
        for client in range(3)
    ]


def test_half_precision_payloads_are_answered_in_half_precision(federation: Federation, make: Any) -> None:
    server = scripted(federation, METHODS["fedspu"], [1])
    server.welcome = msgspec.structs.replace(server.welcome, values="float16")
    converse(make(), server)
    full = scripted(federation, METHODS["fedspu"], [1])
    converse(make(1), full)
    assert len(server.replies[1].payload[MODEL]) < 0.6 * len(full.replies[1].payload[MODEL])


# The order of things.


def test_a_round_is_trained_acknowledged_and_kept(server: ScriptedServer, make: Callable[..., Device]) -> None:
    device = make()
    converse(device, server)
    assert device.finished == "all rounds are done"
    assert [reply.round for reply in server.replies.values()] == [1, 2]
    state = device._state
    assert (state.round, state.pending, state.path.joinpath("pending.safetensors").exists()) == (2, 0, False)
    personal = state.personal()
    assert personal is not None
    assert personal.private["status"] == server.replies[2].status


def enrol(server: ScriptedServer) -> Enrol:
    return next(message for message in server.received if isinstance(message, Enrol))


def cut(device: Device, server: ScriptedServer, before: str) -> None:
    """A connection that breaks before the device handles or sends a message of that name."""

    def step(what: str) -> None:
        if what == before:
            raise ConnectionError(before)

    with pytest.raises(ConnectionError, match=before):
        converse(device, server, step)


def test_an_unacknowledged_reply_is_sent_first(server: ScriptedServer, make: Callable[..., Device]) -> None:
    cut(make(), server, "send Trained")
    again = make()
    assert again.is_waiting
    converse(again, server)
    assert (enrol(server).pending, type(server.received[2])) == (1, Trained)
    assert again.finished is not None


def test_a_lost_verdict_is_given_again(server: ScriptedServer, make: Callable[..., Device]) -> None:
    cut(make(), server, "handle Verdict")
    assert list(server.replies) == [1]
    again = make()
    converse(again, server)
    assert enrol(server).pending == 1
    assert list(server.replies) == [1, 2]


def messages_of(device: Device, *messages: Any) -> list[Any]:
    return [answer for message in messages for answer in device.handle(message)]


def test_what_is_asked_while_a_reply_waits_is_done_after_its_verdict(server: ScriptedServer, make: Any) -> None:
    assert server.evaluate is not None
    cut(make(), server, "send Trained")
    device = make()
    device.hello(bytes(32))
    assert messages_of(device, server.script[2], server.evaluate) == []
    first = messages_of(device, Verdict(1, "accepted", ""))
    assert [answer.round for answer in first] == [2]  # the evaluation waits for the second verdict
    second = messages_of(device, Verdict(2, "late", ""))
    assert [type(answer).__name__ for answer in second] == ["Evaluated"]


def test_what_was_asked_over_a_broken_connection_is_forgotten(server: ScriptedServer, make: Any) -> None:
    cut(make(), server, "send Trained")
    device = make()
    assert messages_of(device, server.script[2]) == []
    device.hello(bytes(32))
    assert messages_of(device, Verdict(1, "accepted", "")) == []


def test_a_round_that_has_been_is_not_trained_again(server: ScriptedServer, make: Any) -> None:
    said: list[str] = []
    device = make(said=said)
    converse(device, server)
    before = files(device)
    assert messages_of(device, server.script[1], server.script[2]) == []
    assert said == [f"round {r} asked for after round 2: ignored" for r in (1, 2)]
    assert files(device) == before


def files(device: Device) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(device._state.path.iterdir())}


def test_a_verdict_on_another_round_is_ignored(server: ScriptedServer, make: Any) -> None:
    said: list[str] = []
    cut(make(), server, "send Trained")
    device = make(said=said)
    assert messages_of(device, Verdict(2, "accepted", "")) == []
    assert device.is_waiting
    assert said == ["verdict on round 2, which does not wait for one: ignored"]


def test_a_late_round_is_kept(server: ScriptedServer, make: Any) -> None:
    accepted = make(0)
    converse(accepted, server)
    late = make(1)
    server.replies, server.outcomes = {}, {2: "late"}
    converse(late, server)
    assert files(late) == files(accepted)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_refused_round_leaves_the_device_as_it_was(restarted: bool, server: ScriptedServer, make: Any) -> None:
    said: list[str] = []
    device = make(said=said)
    cut(device, server, "send Trained")
    if restarted:
        device = make(said=said)
    assert messages_of(device, Verdict(1, "refused", "reply of client 0 has loss=nan")) == []
    assert said == ["round 1: the server refuses the reply (reply of client 0 has loss=nan)"]
    assert not {"pending.safetensors", "local.safetensors"} & files(device).keys()
    untouched = make(1)
    only = replace(server, script={2: server.script[2]}, replies={})
    converse(untouched, only)
    server.script = {2: server.script[2]}
    converse(device, server)
    assert server.replies[2] == only.replies[2]  # as if round 1 had not been


# The model's way to the device.


def test_a_download_cut_anywhere_is_resumed_there(federation: Federation, make: Callable[..., Device]) -> None:
    server = scripted(federation, METHODS["fedspu"], [1])
    size = len(server.model)
    offsets = [*range(0, size, 1 << 15)]
    for offset in offsets:
        seen = iter(range(len(offsets)))

        def step(what: str, seen: Any = seen) -> None:
            if what == "handle ModelChunk" and next(seen) == 1:
                raise ConnectionError("cut")

        device = make()
        if offset < offsets[-1]:
            with pytest.raises(ConnectionError):
                converse(device, server, step)
        else:
            converse(device, server)
        request = server.received[2]
        assert (type(request).__name__, request.offset) == ("ModelRequest", offset)  # type: ignore[attr-defined]
    assert device._state.model() == server.model
    assert device.finished is not None


def test_a_device_killed_between_the_last_byte_and_the_check_has_its_model(server: ScriptedServer, make: Any) -> None:
    device = make()
    cut(device, server, "handle ModelChunk")
    device._state.add(0, server.model)
    again = make()
    converse(again, server)
    assert enrol(server).model == server.welcome.model_digest
    assert again.finished is not None


def test_a_resumed_download_with_the_wrong_digest_is_made_again(server: ScriptedServer, make: Any) -> None:
    device = make()
    cut(device, server, "handle ModelChunk")
    device._state.add(0, bytes(1000))  # as a loss of power may leave it
    device = make()
    with pytest.raises(SpoiltError, match=r"another digest than .*; downloading it again"):
        converse(device, server)
    converse(device, server)
    assert device._state.model() == server.model


def test_a_server_whose_model_has_the_wrong_digest_is_not_believed(server: ScriptedServer, make: Any) -> None:
    server.model = server.model[:-1] + bytes([server.model[-1] ^ 1])
    device = make()
    with pytest.raises(RemoteProtocolError, match="has another digest"):
        converse(device, server)
    assert "model.bin" not in files(device)


def test_a_model_above_the_limit_is_refused_before_it_is_asked_for(server: ScriptedServer, make: Any) -> None:
    device = make(profile=Profile(None, None, 1.0, 1000))
    with pytest.raises(RunError, match=f"model of {len(server.model)} bytes; the limit is --max-model 1000"):
        converse(device, server)
    assert "device.json" not in files(device)


# Who it talks to.


def test_both_sides_prove_the_key(server: ScriptedServer, make: Any) -> None:
    server.key = bytes(range(32))
    device = make(profile=Profile(0, server.key, 1.0, 1 << 20))
    converse(device, server)
    assert len(enrol(server).proof) == 32
    assert device.finished is not None


@pytest.mark.parametrize(
    ("mine", "theirs", "message"),
    [
        (bytes(32), bytes(range(32)), "the server: proof .* is wrong"),
        (None, bytes(32), "the server: proof of 32 bytes; expected none"),
        (bytes(32), None, "the server: proof of 0 bytes; expected 32"),
    ],
)
def test_a_server_without_the_key_is_not_answered(
    mine: bytes | None, theirs: bytes | None, message: str, server: ScriptedServer, make: Any
) -> None:
    server.key = theirs
    with pytest.raises(AuthError, match=message):
        converse(make(profile=Profile(0, mine, 1.0, 1 << 20)), server)
    assert [type(message).__name__ for message in server.received] == ["Hello"]


def test_another_run_is_refused(server: ScriptedServer, make: Any) -> None:
    converse(make(), server)
    server.run = "another"
    with pytest.raises(RunError, match=f"the server refuses: run={RUN}; expected another"):
        converse(make(), server)


def test_a_run_that_has_changed_is_refused(server: ScriptedServer, make: Any) -> None:
    converse(make(), server)
    server.welcome = msgspec.structs.replace(server.welcome, seed=2)
    with pytest.raises(RunError, match=r"has seed=2 now; expected 1, as when this device enrolled"):
        converse(make(), server)


def test_a_directory_belongs_to_one_client(server: ScriptedServer, make: Any) -> None:
    converse(make(), server)
    with pytest.raises(RequestError, match="belongs to client 0; expected --id 0"):
        make(profile=Profile(1, None, 1.0, 1 << 20))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "magic"}, "method magic of the server"),
        ({"options": {"power": 1}}, "power; expected one of keep, per_round"),
        ({"options": {"lr": -1.0}}, "lr=-1.0; expected a finite lr > 0"),
    ],
)
def test_a_method_that_is_not_known_here_is_refused(
    changes: Any, message: str, server: ScriptedServer, make: Any
) -> None:
    server.welcome = msgspec.structs.replace(server.welcome, **changes)
    with pytest.raises(RunError, match=message):
        converse(make(), server)


def test_data_that_do_not_fit_the_model_are_named(server: ScriptedServer, make: Any) -> None:
    device = make()
    samples = device._data.samples
    device._data = Data(replace(samples, x=samples.x[:, :, :4].copy()), device._data.split)
    with pytest.raises(DataError, match="expected"):
        converse(device, server)


# A full disk.


class FullDisk:
    """A disk on which every write fails until the device has waited a few times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, waits: int) -> None:
        self.waits, self.paused = waits, []  # type: tuple[int, list[int]]
        self.monkeypatch = monkeypatch

    def fill(self) -> None:
        def refused(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        self.freed = self.monkeypatch.context()
        self.freed.__enter__().setattr("os.fsync", refused)

    def pause(self, failures: int) -> None:
        self.paused.append(failures)
        if len(self.paused) == self.waits:
            self.freed.__exit__(None, None, None)


@pytest.mark.parametrize("before", ["handle Welcome", "handle ModelChunk", "handle Train", "handle Verdict"])
def test_a_full_disk_delays_and_loses_nothing(
    before: str, server: ScriptedServer, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = make(1)
    converse(undisturbed, server)
    expected, server.replies = files(undisturbed), {}
    disk, said = FullDisk(monkeypatch, waits=3), []  # type: tuple[FullDisk, list[str]]
    device = make(said=said, pause=disk.pause)
    sent: list[tuple[str, int]] = []

    def step(what: str) -> None:
        if what == before and not disk.paused:
            disk.fill()
        sent.append((what, len(disk.paused)))

    converse(device, server, step)
    assert files(device) == expected
    assert disk.paused == [0, 1, 2]
    assert said == [f"{device._state.path}: No space left on device; trying again until there is room"]
    assert sent[[waits for _, waits in sent].index(3) - 1] == (before, 0)  # nothing was sent before there was room


def test_a_disk_that_fails_otherwise_ends_the_device(server: ScriptedServer, make: Any, monkeypatch: Any) -> None:
    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    device = make()
    cut(device, server, "handle Train")
    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(RunError, match=r"cannot be written .*Input/output error"):
        messages_of(device, server.script[1])
