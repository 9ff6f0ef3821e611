"""The content of a Flower message as the objects by which it travels, in both directions. The calls that carry the
objects are in fleet_api.py.

    object   TYPE, ids of its children with commas between them, number of bytes of its body, a zero byte, the body
    id       SHA-256 of the object, 64 hexadecimal digits
    tree     ids in the order of the children, as flwr's ObjectTree: {"object_id": ..., "children": [...]}

Message > RecordDict > ArrayRecord > Array > ArrayChunk is the order of the objects. Other records are skipped, because
a device does not use them. Every object is checked against its id before it is read, and no more bytes are asked for
than the caller's limit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from edgefl.deployment.supernode import message_tables
from edgefl.errors import CodecError, DamagedFrameError

CHUNK_BYTES = 5 << 20  # bytes of an array in one object
MOST_HEAD = 1 << 20  # bytes before the body
MOST_REFERENCES = 1 << 10  # ids by name in a record
MOST_CHUNKS = 1 << 12  # chunks of an array, some of which may be equal
ID_DIGITS = 64
HEX = frozenset("0123456789abcdef")

Tree = Mapping[str, Any]


class Array(NamedTuple):
    """An array of a record: its type, shape and format as Flower names them, and its bytes."""

    dtype: str
    shape: tuple[int, ...]
    stype: str
    data: bytes


class Packed(NamedTuple):
    """A message as it is sent: its id, the tree under it, and the objects by id, children first."""

    message_id: str
    tree: dict[str, Any]
    objects: dict[str, bytes]


def object_id(data: bytes) -> str:
    """Return the id of an object: its SHA-256 in 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def pack(metadata: Mapping[str, Any], record: str, name: str, array: Array) -> Packed:
    """Pack a message with one array in one record. `metadata` has the fields of flwr's Metadata, without message_id."""
    objects: dict[str, bytes] = {}
    chunks = [array.data[at : at + CHUNK_BYTES] for at in range(0, len(array.data), CHUNK_BYTES)]
    leaves = [_add(objects, "ArrayChunk", [], chunk) for chunk in chunks]
    ids = list(dict.fromkeys(leaf["object_id"] for leaf in leaves))
    unique = [{"object_id": one, "children": []} for one in ids]
    about = {
        "dtype": array.dtype,
        "shape": array.shape,
        "stype": array.stype,
        "arraychunk_ids": [ids.index(leaf["object_id"]) for leaf in leaves],
    }
    tree = _add(objects, "Array", unique, json.dumps(about).encode())
    tree = _add(objects, "ArrayRecord", [tree], json.dumps({name: tree["object_id"]}).encode())
    tree = _add(objects, "RecordDict", [tree], json.dumps({record: tree["object_id"]}).encode())
    return _message(objects, [tree], {"metadata": dict(metadata)})


def pack_error(metadata: Mapping[str, Any], code: int, reason: str) -> Packed:
    """Pack a message that says what went wrong."""
    return _message({}, [], {"metadata": dict(metadata), "error": {"code": code, "reason": reason}})


def array_of(tree: Tree, get: Callable[[str], bytes], record: str, name: str, limit: int) -> Array:
    """Return the array of that name in that record of the message with this tree.

    get     returns the object of an id
    limit   largest number of bytes of all objects
    Raises  CodecError if there is no such array, or its objects exceed the limit. DamagedFrameError if an object does
            not match its id.
    """
    objects = _Objects(get, limit)
    children, _ = objects.take(tree["object_id"], "Message")
    if len(children) != 1:
        raise CodecError(f"a Message with {len(children)} contents; expected one content")
    records = objects.references(children[0], "RecordDict")
    if record not in records:
        raise CodecError(f"a message without the record {record!r}; expected one of edgefl's server_app")
    arrays = objects.references(records[record], "ArrayRecord")
    if name not in arrays:
        raise CodecError(f"a record {record!r} without the array {name!r}; expected one of edgefl's server_app")
    return objects.array(arrays[name])


class _Objects:
    """The objects that a message refers to, taken one by one within a limit of bytes."""

    def __init__(self, get: Callable[[str], bytes], limit: int) -> None:
        self._get, self._left, self._limit = get, limit, limit

    def take(self, name: str, kind: str) -> tuple[list[str], bytes]:
        """Return the ids of an object's children, and its body."""
        _check_id(name)
        data = self._get(name)
        self._spend(len(data))
        if object_id(data) != name:
            raise DamagedFrameError(
                f"object {name[:16]}... has SHA-256 {object_id(data)[:16]}...; expected the SHA-256 in its id"
            )
        return _opened(data, kind)

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise CodecError(f"a message of more than {self._limit} bytes; the limit is {self._limit}")

    def references(self, name: str, kind: str) -> dict[str, str]:
        """Return the ids by name in a record, each of which must be a child of the record."""
        children, body = self.take(name, kind)
        found = _json(body, kind)
        if len(found) > MOST_REFERENCES or not all(isinstance(value, str) for value in found.values()):
            raise CodecError(f"{kind} of {len(found)} names; expected at most {MOST_REFERENCES}, each with an id")
        if not set(found.values()) <= set(children):
            raise CodecError(f"{kind} names an object that is not its child; expected only ids of its children")
        return found

    def array(self, name: str) -> Array:
        children, body = self.take(name, "Array")
        about = _json(body, "Array")
        dtype, stype = about.get("dtype"), about.get("stype")
        shape, order = _numbers(about.get("shape")), _numbers(about.get("arraychunk_ids"))
        if not isinstance(dtype, str) or not isinstance(stype, str) or shape is None or order is None:
            raise CodecError(f"Array with {sorted(about)}; expected dtype, shape, stype and arraychunk_ids")
        if set(order) != set(range(len(children))) or len(order) > MOST_CHUNKS:
            raise CodecError(
                f"Array of {len(children)} chunks in the order {order[:8]}; expected each chunk at least once"
            )
        chunks = [self.take(child, "ArrayChunk")[1] for child in children]
        repeated = sum(len(chunks[at]) for at in order) - sum(map(len, chunks))
        self._spend(repeated)
        return Array(dtype, tuple(shape), stype, b"".join(chunks[at] for at in order))


def _opened(data: bytes, kind: str) -> tuple[list[str], bytes]:
    head, divider, body = data[:MOST_HEAD].partition(b"\0")
    parts = head.decode("ascii", "replace").split(" ")
    if not divider or len(parts) != 3:
        raise CodecError(f"an object that begins with {data[:16]!r}; expected a type, ids of children and a length")
    found, children, length = parts
    body = data[len(head) + 1 :]
    if found != kind or length != str(len(body)):
        raise CodecError(
            f"{found} of {length} bytes, with {len(body)} bytes of content; expected {kind} of the stated length"
        )
    return children.split(",") if children else [], body


def _json(body: bytes, kind: str) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"{kind} is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise CodecError(f"{kind} is {type(found).__name__} as JSON; expected an object")
    return found


def _numbers(value: object) -> list[int] | None:
    """Return the value if it is a list of integers from 0 on, without bools, or None otherwise."""
    if not isinstance(value, list) or not all(type(item) is int and item >= 0 for item in value):
        return None
    return value


def _check_id(name: str) -> None:
    if len(name) != ID_DIGITS or not HEX.issuperset(name):
        raise CodecError(f"object {name[:80]!r}; expected {ID_DIGITS} hexadecimal digits")


def _add(objects: dict[str, bytes], kind: str, children: list[dict[str, Any]], body: bytes) -> dict[str, Any]:
    """Add an object to `objects`, and return the tree under it."""
    head = f"{kind} {','.join(child['object_id'] for child in children)} {len(body)}"
    data = head.encode() + b"\0" + body
    name = object_id(data)
    objects[name] = data
    return {"object_id": name, "children": children}


def _message(objects: dict[str, bytes], children: list[dict[str, Any]], message: dict[str, Any]) -> Packed:
    tree = _add(objects, "Message", children, message_tables.write("Message", message))
    return Packed(tree["object_id"], tree, objects)
