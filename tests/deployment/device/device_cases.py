"""Helpers of the tests of devices: an experiment, scripts of rounds for one client, and conversations that break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from edgefl import rng
from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.device_protocol import Device
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.methods import (
    APFL,
    FedAvg,
    FedAvgFT,
    FedBABU,
    FedDyn,
    FedMP,
    FedRep,
    FedSelect,
    FedSpa,
    FedSPU,
    FedUmf,
    FedUmfDC,
    FjORD,
    Hermes,
    LGFedAvg,
    LocalOnly,
    PruneFL,
    RandomDropout,
    Scaffold,
    Subsampling,
)
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.rounds.exchange import evaluate_message, train_message
from edgefl.methods.task import Task
from edgefl.models.graph import Model, Params
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.protocol.wire.messages import Enrol, Welcome
from edgefl.protocol.wire.model_message import digest, pack
from tests.deployment.device.device_server import ScriptedServer, converse

EXPERIMENT = Experiment(clients=3, per_round=2, partition="dirichlet:0.5", keep=(0.25, 0.5, 1.0))
ROUNDS = 4
METHODS: dict[str, Algorithm] = {
    "fedspu": FedSPU(keep=EXPERIMENT.keep, per_round=2, epochs=1),
    "fedspu-es": FedSPU(keep=EXPERIMENT.keep, per_round=2, epochs=1, es=True),
    "fedspu-code": FedSPU(keep=EXPERIMENT.keep, per_round=2, epochs=1, first_state="current_global"),
    "fedavg": FedAvg(per_round=2, epochs=1),
    "fedavg-ft": FedAvgFT(per_round=2, epochs=1, ft_epochs=2),
    "fedbabu": FedBABU(per_round=2, epochs=1),
    "fedrep": FedRep(per_round=2, epochs=1, head_epochs=1),
    "fedselect": FedSelect(per_round=2, epochs=1, growth=0.3),
    "lg-fedavg": LGFedAvg(per_round=2, epochs=1),
    "apfl": APFL(per_round=2, epochs=1, adaptive=True),
    "subsampling": Subsampling(per_round=2, epochs=1, share=0.3),
    "local": LocalOnly(per_round=2, epochs=1),
    "fedumf": FedUmf(per_round=1, epochs=1, lr_decay=0.5),
    "feddyn": FedDyn(per_round=2, epochs=1),
    "scaffold": Scaffold(per_round=2, epochs=1),
    "fedumf-feddc": FedUmfDC(per_round=1, epochs=1),
    "fedspa": FedSpa(per_round=2, epochs=1, density=0.3),
    "prunefl": PruneFL(per_round=2, epochs=1, density=0.3, initial_rounds=0, every=1, times="equal"),
    "random-dropout": RandomDropout(keep=EXPERIMENT.keep, per_round=2, epochs=1),
    "fedmp": FedMP(keep=EXPERIMENT.keep, per_round=2, epochs=1),
    "hermes": Hermes(keep=EXPERIMENT.keep, per_round=2, epochs=1, accuracy=0.0),
    "fjord": FjORD(keep=EXPERIMENT.keep, per_round=2, epochs=1),
}


def initial(federation: Federation) -> Params:
    return federation.graph.init(rng.stream(EXPERIMENT.seed, rng.INIT))


def welcome(federation: Federation, method: Algorithm, client: int) -> Welcome:
    data = pack(Model(federation.graph, initial(federation)))
    options = {name: list(v) if isinstance(v, tuple) else v for name, v in vars(method).items()}
    shares = EXPERIMENT.train_share, EXPERIMENT.validation_share
    name = method.name
    return Welcome(
        client, 3, EXPERIMENT.seed, name, options, "float32", shares, len(data), digest(data), "cross-entropy"
    )


def refuse_to_wait(failures: int) -> None:
    raise AssertionError("the device waits, and nothing is full")


def world(
    said: list[str] | None = None,
    pause: Callable[[int], None] = refuse_to_wait,
    random_bytes: Callable[[int], bytes] = bytes,
) -> DeviceEnvironment:
    return DeviceEnvironment([].append if said is None else said.append, pause, lambda: 0.0, random_bytes=random_bytes)


ANYBODY = DeviceProfile(None, None, 1.0, 1 << 20)


def scripted(federation: Federation, method: Algorithm, rounds: list[int]) -> ScriptedServer:
    spec, method = ModelSpec.of(federation.graph), replace(method, per_round=3)  # type: ignore[call-arg]
    state = method.start(Task(spec, 3, EXPERIMENT.seed), initial(federation))
    script = {
        r: train_message(method.plan(Task(spec, 3, EXPERIMENT.seed), state, r)[0], spec, "float32") for r in rounds
    }
    model = pack(Model(federation.graph, initial(federation)))
    return ScriptedServer(welcome(federation, method, 0), model, script, evaluate_message(2, method, state, spec))


def enrol(server: ScriptedServer) -> Enrol:
    return next(message for message in server.received if isinstance(message, Enrol))


def cut(device: Device, server: ScriptedServer, before: str) -> None:
    """A connection that breaks before the device handles or sends a message of that name."""

    def step(what: str) -> None:
        if what == before:
            raise ConnectionError(before)

    with pytest.raises(ConnectionError, match=before):
        converse(device, server, step)


def messages_of(device: Device, *messages: Any) -> list[Any]:
    return [answer for message in messages for answer in device.handle(message)]


def files(device: Device) -> dict[str, bytes]:
    """Return the files of a device, without the file that tells its process."""
    found = sorted(device._state.path.iterdir())
    return {file.name: file.read_bytes() for file in found if file.name != "identity.json"}


def bits(params: Params) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in sorted(params.items())}
