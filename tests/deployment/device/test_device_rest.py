"""A device's directory at rest: files that are damaged, missing or old are named. No result differs in silence."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_state import CURE, DeviceState
from edgefl.deployment.device.identity import LIFE_BYTES, Identity
from edgefl.errors import RunError
from tests.deployment.device.device_cases import files
from tests.deployment.device.device_server import ScriptedServer, converse

DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda data: b"",
    "halved": lambda data: data[: len(data) // 2],
    "zeroed": lambda data: bytes(len(data)),
    "a bit flipped at its beginning": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "a bit flipped in its middle": lambda data: (
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :]
    ),
    "a bit flipped at its end": lambda data: data[:-1] + bytes([data[-1] ^ 32]),
}


@pytest.fixture
def device(server: ScriptedServer, make: Any) -> Device:
    """Return a device that keeps round 1 and waits for the verdict on round 2."""
    made: Device = make()

    def step(what: str) -> None:
        if what == "send Trained" and made._state.pending == 2:
            raise ConnectionError(what)

    with pytest.raises(ConnectionError):
        converse(made, server, step)
    made._state.close()
    return made


def path_of(device: Device) -> Path:
    return device._state.path


def refusal(device: Device) -> str:
    """Why its directory cannot be opened again."""
    with pytest.raises(RunError) as error:
        DeviceState(path_of(device))
    return str(error.value)


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("name", ["identity.json", "device.json", "pending.safetensors", "local.safetensors"])
def test_a_damaged_file_is_named(name: str, damage: str, device: Device) -> None:
    file = path_of(device) / name
    file.write_bytes(DAMAGED[damage](file.read_bytes()))
    text = refusal(device)
    assert text.startswith(str(file))
    assert text.endswith(CURE)


@pytest.mark.parametrize("name", ["identity.json", "device.json"])
def test_a_file_that_is_gone_is_named_and_no_new_device_begins(name: str, device: Device) -> None:
    before = files(device)
    (path_of(device) / name).unlink()
    assert refusal(device).startswith(f"{path_of(device) / name} is missing, although ")
    assert before.keys() - files(device).keys() <= {name}


@pytest.mark.parametrize("damage", [*DAMAGED, "gone"])
def test_a_model_that_is_damaged_or_gone_is_downloaded_again(
    damage: str, device: Device, server: ScriptedServer, make: Any
) -> None:
    said: list[str] = []
    file = path_of(device) / "model.bin"
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(DAMAGED[damage](file.read_bytes()))
    again = make(said=said)
    assert said == ([] if damage == "gone" else [f"{file} is damaged; downloading it again"])
    converse(again, server)
    assert (again.finished, sorted(server.replies)) == ("all rounds are done", [1, 2])
    assert file.read_bytes() == server.model


def test_a_device_waits_for_room_while_it_removes_a_damaged_model(
    device: Device, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An fsync needs room on some file systems."""
    said, real, full = list[str](), os.fsync, [True]
    file = path_of(device) / "model.bin"
    file.write_bytes(b"")

    def fsync(handle: int) -> None:
        if not file.exists() and full:
            full.clear()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    make(said=said, pause=lambda failures: None)
    assert said == [
        f"{path_of(device)}: No space left on device; trying again until there is room",
        f"{file} is damaged; downloading it again",
    ]


def test_a_model_that_is_damaged_while_it_is_used_is_named(device: Device, make: Any) -> None:
    again = make()
    file = path_of(again) / "model.bin"
    file.write_bytes(bytes(10))
    with pytest.raises(RunError, match=r"model\.bin is damaged"):
        again._ready()


def test_a_pending_round_that_is_an_older_copy_is_named(server: ScriptedServer, make: Any, tmp_path: Path) -> None:
    made = make()
    converse(made, server)
    shutil.copy(path_of(made) / "local.safetensors", path_of(made) / "pending.safetensors")
    made._state.close()
    assert (
        "is of round 2; expected a round after 2, the round of local.safetensors: the file is an older copy"
        in refusal(made)
    )


def test_a_kept_round_that_changes_under_the_process_is_named(server: ScriptedServer, make: Any) -> None:
    made = make()
    converse(made, server)
    made._state.round = 1
    with pytest.raises(RunError, match="is of round 2; expected round 1, as this process wrote it"):
        made._state.personal()


def test_a_lost_reply_is_trained_again_to_the_same_bits(device: Device, server: ScriptedServer, make: Any) -> None:
    undisturbed = make(1)
    server.replies.clear()
    converse(undisturbed, server)
    server.replies.clear()
    (path_of(device) / "pending.safetensors").unlink()
    (path_of(device) / "local.safetensors").unlink()
    again = make()
    converse(again, server)
    assert files(again) == files(undisturbed)


def test_what_a_device_makes_is_for_its_owner_alone(device: Device) -> None:
    modes = {file.name: file.stat().st_mode & 0o777 for file in (path_of(device), path_of(device) / "identity.json")}
    assert modes == {path_of(device).name: 0o700, "identity.json": 0o600}


def test_a_life_is_drawn_once_the_last_was_heard_of() -> None:
    """A server that knows any life but these two has heard of a copy."""
    lives = iter([b"s", b"a", b"b", b"c"])
    first = Identity.drawn(lambda size: next(lives))
    assert (first.secret, first.life, first.before) == (b"s".hex(), b"a".hex(), "")
    assert first.next(bytes) == first
    second = first.heard().next(lambda size: next(lives))
    assert (second.life, second.before, second.is_heard) == (b"b".hex(), b"a".hex(), False)
    assert second.next(bytes) == second
    assert len(second.heard().next(bytes).life) == 2 * LIFE_BYTES
