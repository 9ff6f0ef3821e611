"""Tests of the servers that a device believes, and of the runs in which it takes part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.errors import AuthError, DataError, RequestError, RunError
from tests.deployment.device.device_cases import (
    enrol,
)
from tests.deployment.device.device_server import RUN, ScriptedServer, converse


def test_both_sides_prove_the_key(server: ScriptedServer, make: Any) -> None:
    server.key = bytes(range(32))
    device = make(profile=DeviceProfile(0, server.key, 0.5, 1 << 20))
    converse(device, server)
    assert (len(enrol(server).proof), enrol(server).capacity) == (32, 0.5)
    assert device.finished is not None


@pytest.mark.parametrize(
    ("mine", "theirs", "message"),
    [
        (bytes(32), bytes(range(32)), "the server: proof .* is wrong"),
        (None, bytes(32), "the server: proof of 32 bytes; expected no proof"),
        (bytes(32), None, "the server: proof of 0 bytes; expected 32"),
    ],
)
def test_a_server_without_the_key_is_not_answered(
    mine: bytes | None, theirs: bytes | None, message: str, server: ScriptedServer, make: Any
) -> None:
    server.key = theirs
    with pytest.raises(AuthError, match=message):
        converse(make(profile=DeviceProfile(0, mine, 1.0, 1 << 20)), server)
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
        make(profile=DeviceProfile(1, None, 1.0, 1 << 20))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "magic"}, "method magic of the server"),
        ({"loss": "hinge"}, "the server's loss=hinge; expected one of cross-entropy, bce"),
        ({"loss": "cross-entropy:weight=1,2"}, "2 numbers in weight; expected 10"),
        ({"options": {"power": 1}}, "power; expected one of lr_decay, momentum"),
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
