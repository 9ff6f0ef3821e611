"""Tables of rows, and id sets by group, as bytes in both directions. Updates and neuron sets share these parts.

The docstring of the package specifies the tables, and ids.py encodes single sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from edgefl.errors import CodecError
from edgefl.protocol.codec.format import ALIGNMENT, ENTRY, ActiveNeuronSets
from edgefl.protocol.codec.ids import decode_ids, encode_ids, size_of

if TYPE_CHECKING:
    from edgefl.models.neurons.model_spec import ModelSpec


@dataclass(frozen=True)
class Entry:
    """A row of a table: a group or parameter by name, its coding, and its number of ids or values."""

    name: str
    coding: int
    count: int


class ByteReader:
    """A reader of bytes that somebody sent, with its position `at`."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, what: str, size: int) -> memoryview:
        """Return the next `size` bytes. Raises CodecError that begins with `what` if fewer are left."""
        left = len(self.data) - self.at
        if size > left:
            raise CodecError(f"{what}: {left} bytes left; expected {size}")
        self.at += size
        return memoryview(self.data)[self.at - size : self.at]

    def skip_padding(self) -> None:
        padding = self.take("padding", -self.at % ALIGNMENT)
        if any(padding):
            raise CodecError(f"padding {padding.hex()}; expected zero bytes")


def write_sets(sets: ActiveNeuronSets, spec: ModelSpec) -> tuple[bytes, bytes]:
    """Return the table of id sets, in the order of `sets`, and the sets' bytes. Raises CodecError if a key gives other
    ids.
    """
    number = {group: i for i, group in enumerate(spec.groups)}
    table, payload = [], []
    for group, neurons in sets.active.items():
        coding, data = encode_ids(f"group {group!r}", neurons, spec.groups[group], sets.keys.get(group))
        table.append(ENTRY.pack(number[group], coding, neurons.size))
        payload.append(data)
    return b"".join(table), b"".join(payload)


def read_table(reader: ByteReader, what: str, member: str, count: int, names: list[str]) -> list[Entry]:
    """Read `count` entries with the names of their groups or parameters. Raises CodecError unless their numbers
    increase.
    """
    data, entries, last = reader.take(f"table of {count} {what}s", count * ENTRY.size), [], -1
    for number, coding, size in ENTRY.iter_unpack(data):
        if number >= len(names):
            raise CodecError(f"{what} of {member} {number}; expected {member}s below {len(names)}")
        if number <= last:
            raise CodecError(f"{what} of {member} {number} after {last}; expected each {member} once and in order")
        entries.append(Entry(names[number], coding, size))
        last = number
    return entries


def read_sets(reader: ByteReader, table: list[Entry], spec: ModelSpec) -> ActiveNeuronSets:
    """Read the id sets of a table of groups. Raises CodecError if a set is not in its one valid encoding."""
    active: dict[str, npt.NDArray[np.int32]] = {}
    keys: dict[str, int | None] = {}
    for entry in table:
        n, k, where = spec.groups[entry.name], entry.count, f"group {entry.name!r}"
        if not 0 < k < n:
            raise CodecError(f"{where}: {k} active neurons of {n}; expected at least 1 and fewer than {n}")
        data = reader.take(f"ids of {where}", size_of(where, entry.coding, n, k, seed_allowed=True))
        ids, keys[entry.name] = decode_ids(where, entry.coding, data, n, k)
        active[entry.name] = ids.astype(np.int32)
    return ActiveNeuronSets(active, keys)
