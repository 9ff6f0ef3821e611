"""The store of frozen parts: what it returns, what damage does, and its bound."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from edgefl.deployment.device.base_store import BaseStore, HeldPart

FIRST, SECOND, THIRD = b"a" * 1000, b"b" * 500, b"c" * 700


def named(*parts: bytes) -> list[tuple[bytes, HeldPart]]:
    return [(sha256(part).digest(), HeldPart(memoryview(part))) for part in parts]


def wanted(*parts: bytes) -> list[tuple[bytes, int]]:
    return [(sha256(part).digest(), len(part)) for part in parts]


def found(store: BaseStore, *parts: bytes) -> list[bytes]:
    """Return which of the parts the store has, as it reads them."""
    places = store.find(wanted(*parts))
    return [b"".join(places[digest].read()) for digest, _ in wanted(*parts) if digest in places]


def files(store: BaseStore) -> list[Path]:
    return sorted(store.path.iterdir())


def test_parts_are_found_by_their_digest(tmp_path: Path) -> None:
    store = BaseStore(tmp_path / "base")
    assert found(store, FIRST) == []
    store.keep(named(FIRST, SECOND))
    assert found(BaseStore(tmp_path / "base"), THIRD, SECOND, FIRST) == [SECOND, FIRST]
    assert store.find([(sha256(FIRST).digest(), len(FIRST) + 1)]) == {}


def test_a_part_is_kept_once(tmp_path: Path) -> None:
    store = BaseStore(tmp_path / "base")
    store.keep(named(FIRST, SECOND, SECOND))
    store.keep(named(FIRST, SECOND))
    assert len(files(store)) == 1
    store.keep(named(SECOND, THIRD))
    assert len(files(store)) == 2
    assert sum(file.stat().st_size for file in files(store)) < 1000 + 500 + 700 + 400  # with two lists
    assert found(store, FIRST, SECOND, THIRD) == [FIRST, SECOND, THIRD]


@pytest.mark.parametrize("at", [0, 3, 9, 30, -1500, -1])
def test_a_damaged_file_is_removed_and_its_parts_are_not_found(tmp_path: Path, at: int) -> None:
    """The damage is in the length, the list, the first part or the second part."""
    store = BaseStore(tmp_path / "base")
    store.keep(named(FIRST, SECOND))
    (file,) = files(store)
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)
    assert found(store, FIRST, SECOND) == []
    assert files(store) == []
    store.keep(named(FIRST, SECOND))
    assert found(store, FIRST, SECOND) == [FIRST, SECOND]


def test_a_file_that_is_cut_short_is_removed(tmp_path: Path) -> None:
    store = BaseStore(tmp_path / "base")
    store.keep(named(FIRST, SECOND))
    (file,) = files(store)
    for size in (file.stat().st_size - 1, 4, 0):
        os.truncate(file, size)
        assert found(store, SECOND) == []
        store.keep(named(FIRST, SECOND))


def test_the_least_recently_used_files_make_room(tmp_path: Path) -> None:
    """A store of 2,000 bytes holds two of three parts, with about 80 bytes of list each."""
    store = BaseStore(tmp_path / "base", 2000)
    for number, part in enumerate((FIRST, SECOND)):
        store.keep(named(part))
        for file in files(store):
            os.utime(file, (number, number))
    assert found(store, FIRST) == [FIRST]  # so SECOND was used before
    store.keep(named(THIRD))
    assert found(store, FIRST, SECOND, THIRD) == [FIRST, THIRD]
    store.keep(named(b"d" * 3000))
    assert found(store, FIRST, THIRD) == [FIRST, THIRD]
