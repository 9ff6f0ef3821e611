"""Protocol buffers as bytes and back, by tables of fields. The messages of Flower are in message_tables.py.

A message is a dict of its fields by name. The reader skips fields that the table lacks, and gives absent fields their
default. Whatever the bytes say, it makes at most MOST_VALUES values, and messages nest at most DEEPEST levels.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from edgefl.errors import CodecError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
WIDTHS = {FIXED64: 8, FIXED32: 4}
WIRE = {
    "uint64": VARINT, "uint32": VARINT, "sint64": VARINT, "bool": VARINT, "double": FIXED64, "string": BYTES,
    "bytes": BYTES,
}  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "uint64": 0, "uint32": 0, "sint64": 0, "bool": False, "double": 0.0, "string": "", "bytes": b"",
}  # fmt: skip
MOST_VALUES = 1 << 16
DEEPEST = 32
U64 = (1 << 64) - 1


class Field(NamedTuple):
    """A row of a table.

    number    number on the wire
    name      name in the dict
    kind      a key of WIRE, or the name of a message's table
    repeated  whether the value is a list
    present   whether an absent value is None rather than a default, as for members of a oneof and optional fields
    """

    number: int
    name: str
    kind: str
    repeated: bool = False
    present: bool = False

    @property
    def default(self) -> Any:
        """The value of the field where the bytes have no value. An absent message is None."""
        if self.repeated:
            return []
        return None if self.present or self.kind not in DEFAULTS else DEFAULTS[self.kind]


Shapes = Mapping[str, tuple[Field, ...]]


def write(shapes: Shapes, kind: str, values: Mapping[str, Any]) -> bytes:
    """Write the message of that table. Fields come by ascending number, without fields that have their default.

    Raises  CodecError for a name that the table does not have, or a value that does not fit its field.
    """
    fields = sorted(shapes[kind])
    if unknown := set(values) - {field.name for field in fields}:
        raise CodecError(
            f"{kind} with an unknown field {min(unknown)!r}; expected {', '.join(field.name for field in fields)}"
        )
    parts: list[bytes] = []
    for field in fields:
        value = values.get(field.name, field.default)
        if value is None or (not field.present and value == field.default):
            continue
        try:
            parts += _written(shapes, field, value)
        except (TypeError, ValueError, AttributeError, struct.error) as error:
            raise CodecError(f"{kind}.{field.name} = {value!r:.80}; expected {field.kind} ({error})") from None
    return b"".join(parts)


def read(shapes: Shapes, kind: str, data: bytes) -> dict[str, Any]:
    """Read the fields of a message by name. Raises CodecError unless `data` is such a message."""
    return _ProtobufReader(shapes).message(kind, memoryview(data), 0)


def varint(value: int) -> bytes:
    """Return 0 <= value < 2^64 in seven bits a byte, the lowest bits first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _written(shapes: Shapes, field: Field, value: Any) -> Iterator[bytes]:
    wire = WIRE.get(field.kind, BYTES)
    if not field.repeated:
        yield _key(field.number, wire) + _scalar(shapes, field.kind, value)
    elif wire == BYTES:
        for item in value:
            yield _key(field.number, BYTES) + _scalar(shapes, field.kind, item)
    else:
        packed = b"".join(_scalar(shapes, field.kind, item) for item in value)
        yield _key(field.number, BYTES) + varint(len(packed)) + packed


def _key(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def _scalar(shapes: Shapes, kind: str, value: Any) -> bytes:
    if kind == "double":
        return struct.pack("<d", value)
    if kind == "bool":
        return varint(int(bool(value)))
    if kind in ("uint64", "uint32", "sint64"):
        return varint(_unsigned(kind, value))
    data = write(shapes, kind, value) if kind in shapes else value.encode() if kind == "string" else bytes(value)
    return varint(len(data)) + data


def _unsigned(kind: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{type(value).__name__}")
    lowest, highest = (-(1 << 63), (1 << 63) - 1) if kind == "sint64" else (0, U64 if kind == "uint64" else U64 >> 32)
    if not lowest <= value <= highest:
        raise ValueError(f"expected {lowest} to {highest}")
    return (value << 1 ^ value >> 63) & U64 if kind == "sint64" else value


class _ProtobufReader:
    """A reader of one message and the messages inside it, within the bounds of this file."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes, self._values = shapes, 0

    def message(self, kind: str, data: memoryview, depth: int) -> dict[str, Any]:
        if depth > DEEPEST:
            raise CodecError(f"{kind} within {depth} messages; expected at most {DEEPEST}")
        fields = {field.number: field for field in self._shapes[kind]}
        out = {field.name: field.default for field in fields.values()}
        at = 0
        while at < len(data):
            key, at = _varint(data, at, kind)
            if not key >> 3:
                raise CodecError(f"{kind} with field 0; expected fields from 1")
            field = fields.get(key >> 3)
            value, at = _taken(data, at, key & 7, kind)
            self._count()
            if field is not None:
                self._put(out, field, key & 7, value, depth)
        return out

    def _count(self) -> None:
        self._values += 1
        if self._values > MOST_VALUES:
            raise CodecError(f"a message of more than {MOST_VALUES} values; expected fewer")

    def _put(self, out: dict[str, Any], field: Field, wire: int, value: Any, depth: int) -> None:
        own = WIRE.get(field.kind, BYTES)
        if field.repeated and wire == BYTES and own != BYTES:
            at = 0
            while at < len(value):
                item, at = _taken(value, at, own, field.name)
                self._count()
                out[field.name].append(_meant(field, item))
        elif wire != own:
            raise CodecError(f"{field.name} of wire type {wire}; expected {own}")
        else:
            meant = self.message(field.kind, value, depth + 1) if field.kind in self._shapes else _meant(field, value)
            if field.repeated:
                out[field.name].append(meant)
            else:
                out[field.name] = meant


def _varint(data: memoryview, at: int, what: str) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value & U64, at
    raise CodecError(f"{what}: a number whose end is missing; expected at most 10 bytes")


def _taken(data: memoryview, at: int, wire: int, what: str) -> tuple[Any, int]:
    """Return a value as the wire has it, and the position of the next value."""
    if wire == VARINT:
        return _varint(data, at, what)
    if wire == BYTES:
        length, at = _varint(data, at, what)
    elif wire in WIDTHS:
        length = WIDTHS[wire]
    else:
        raise CodecError(f"{what} with wire type {wire}; expected 0, 1, 2 or 5")
    if length > len(data) - at:
        raise CodecError(f"{what}: {length} bytes announced, {len(data) - at} left")
    return data[at : at + length], at + length


def _meant(field: Field, value: Any) -> Any:
    match field.kind:
        case "double":
            return struct.unpack("<d", value)[0]
        case "bool":
            return bool(value)
        case "sint64":
            return value >> 1 ^ -(value & 1)
        case "uint32":
            return value & U64 >> 32
        case "bytes":
            return bytes(value)
        case "string":
            try:
                return str(value, "utf-8")
            except UnicodeDecodeError as error:
                raise CodecError(f"{field.name} is not UTF-8 ({error.reason}); expected text") from None
    return value
