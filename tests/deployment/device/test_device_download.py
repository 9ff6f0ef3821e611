"""The initial model's way to a device: cut anywhere, spoilt, forged, too large."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.device_protocol import SPOILT_TRIES, Device, SpoiltError, WrongModelError
from edgefl.deployment.device.device_state import DeviceState
from edgefl.errors import RemoteProtocolError, RunError
from edgefl.experiment.federation import Federation
from edgefl.protocol.wire.model_message import pack
from tests.deployment.device.device_cases import (
    METHODS,
    cut,
    enrol,
    files,
    scripted,
)
from tests.deployment.device.device_server import ScriptedServer, converse


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
    assert pack(device._state.model()) == server.model
    assert device.finished is not None


def test_a_device_killed_between_the_last_byte_and_the_check_has_its_model(server: ScriptedServer, make: Any) -> None:
    device = make()
    cut(device, server, "handle ModelChunk")
    device._state.add(0, server.model)
    again = make()
    converse(again, server)
    assert enrol(server).model == server.welcome.model_digest
    assert again.finished is not None


def test_a_part_of_the_model_replaces_what_lay_behind_its_beginning(tmp_path: Path) -> None:
    """A write fails on a full disk after some of its bytes, and a shorter part is sent next."""
    state = DeviceState(tmp_path)
    for offset, data, received in ((0, b"abcdef", 6), (2, b"xy", 4), (4, b"z", 5), (0, b"a", 1)):
        state.add(offset, data)
        assert state.received() == received
    state.close()


def test_a_resumed_download_with_the_wrong_digest_is_made_again(server: ScriptedServer, make: Any) -> None:
    device = make()
    cut(device, server, "handle ModelChunk")
    device._state.add(0, bytes(1000))  # as a loss of power may leave it
    device = make()
    with pytest.raises(SpoiltError, match=r"does not have the SHA-256 .*; downloading it again"):
        converse(device, server)
    converse(device, server)
    assert pack(device._state.model()) == server.model


def test_a_server_whose_model_has_the_wrong_digest_is_not_believed(server: ScriptedServer, make: Any) -> None:
    server.model = server.model[:-1] + bytes([server.model[-1] ^ 1])
    device = make()
    with pytest.raises(RemoteProtocolError, match="does not have the SHA-256"):
        converse(device, server)
    assert "model.bin" not in files(device)


def spoilt(device: Device, server: ScriptedServer) -> None:
    """A download that breaks after its first bytes and then brings the rest of another model."""
    with pytest.raises(ConnectionError):
        converse(device, server, lambda what: broken(what, device))
    converse(device, server)


def broken(what: str, device: Device) -> None:
    """Breaks the connection once some of the model has come."""
    if what == "handle ModelChunk" and device._state.received():
        raise ConnectionError("cut")


def test_a_model_that_is_spoilt_in_every_download_is_asked_for_three_times(server: ScriptedServer, make: Any) -> None:
    server.model = server.model[:-1] + bytes([server.model[-1] ^ 1])
    device = make()
    for _ in range(SPOILT_TRIES - 1):
        with pytest.raises(SpoiltError, match="downloading it again"):
            spoilt(device, server)
    with pytest.raises(
        WrongModelError, match=r"does not have the SHA-256 .* after each of 3 downloads; expected an undamaged"
    ):
        spoilt(device, server)


def test_max_seconds_bounds_the_time_of_spoilt_downloads(server: ScriptedServer, make: Any) -> None:
    """The second spoilt download ends 6 s after the first one: --max-seconds 5 allows no third."""
    server.model = server.model[:-1] + bytes([server.model[-1] ^ 1])
    device = make(profile=DeviceProfile(None, None, 1.0, 1 << 20, None, 5.0))
    now = 100.0
    device._download._world = device._world._replace(clock=lambda: now)
    with pytest.raises(SpoiltError):
        spoilt(device, server)
    now = 106.0
    with pytest.raises(WrongModelError, match="6 s after the first spoilt download; --max-seconds 5 allows no other"):
        spoilt(device, server)


def test_a_model_above_the_limit_is_refused_before_it_is_asked_for(server: ScriptedServer, make: Any) -> None:
    device = make(profile=DeviceProfile(None, None, 1.0, 1000))
    with pytest.raises(RunError, match=f"model of {len(server.model)} bytes; the limit is --max-model 1000"):
        converse(device, server)
    assert "device.json" not in files(device)
