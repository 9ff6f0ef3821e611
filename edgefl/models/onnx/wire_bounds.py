"""The number of fields in an ONNX file, counted in its bytes before anything is made of them.

A file of a few megabytes can hold millions of empty messages, each of which takes a hundred times its bytes once the
onnx package has read it. This walk follows the lengths of protobuf's wire format and makes no objects. The onnx
package itself says which fields hold messages. The wire format is described at protobuf.dev, "Encoding".
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from edgefl.errors import GraphError

MOST_FIELDS = 1 << 20  # fields outside the values of tensors: a model of 4096 nodes has about 200,000
DEEPEST = 12  # messages within messages: a weight in the node of a graph is at depth 5
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
FIXED_BYTES = {FIXED64: 8, FIXED32: 4}
LONGEST_VARINT = 10  # bytes
TEXT = 9  # protobuf's number of the type string
NOT_VARINT = frozenset((1, 2, TEXT, 11, 12))  # double, float, string, message, bytes


class _Fields(NamedTuple):
    """The fields of a message: the messages in them, and the numbers of the fields of integers and of texts."""

    messages: dict[int, Any]
    integers: frozenset[int]
    texts: frozenset[int]


@lru_cache(maxsize=64)
def _fields_of(descriptor: Any) -> _Fields:
    fields = descriptor.fields
    messages = {field.number: field.message_type for field in fields if field.message_type is not None}
    integers = frozenset(field.number for field in fields if field.type not in NOT_VARINT)
    return _Fields(messages, integers, frozenset(field.number for field in fields if field.type == TEXT))


def check_bounds(content: bytes, descriptor: Any) -> None:
    """Check that bytes are protobuf of a bounded number of fields and depth.

    descriptor  the onnx package's description of the outermost message
    Raises      GraphError that says where the bytes end too early, or which bound they exceed
    """
    view, count = memoryview(content), 0
    waiting = [(0, len(view), descriptor, 0)]
    while waiting:
        at, end, message, depth = waiting.pop()
        if depth > DEEPEST:
            raise GraphError(f"messages within messages, more than {DEEPEST} deep; expected a graph without subgraphs")
        fields = _fields_of(message)
        while at < end:
            number, at, length = _field(view, at, end)
            count += 1
            if length is not None:
                if number in fields.messages:
                    waiting.append((at, at + length, fields.messages[number], depth + 1))
                if number in fields.texts:
                    _check_text(view[at : at + length], at)
                count += length * (number in fields.integers)  # each byte may be an integer, which takes 8 bytes
                at += length
            if count > MOST_FIELDS:
                raise GraphError(f"more than {MOST_FIELDS} fields; expected a model with fewer nodes")


def _check_text(content: memoryview, at: int) -> None:
    try:
        bytes(content).decode()
    except UnicodeDecodeError:
        raise GraphError(f"the text at byte {at} is not UTF-8; expected an undamaged ONNX file") from None


def _field(view: memoryview, at: int, end: int) -> tuple[int, int, int | None]:
    """Return the number of a field, where its content begins, and the length of the content if it has one.

    For a field without a length, the position is that of the next field.
    """
    began = at
    key, at = _varint(view, at, end)
    number, kind = key >> 3, key & 7
    if kind == VARINT and number:
        return number, _varint(view, at, end)[1], None
    length = FIXED_BYTES.get(kind, -1)
    if kind == LENGTH:
        length, at = _varint(view, at, end)
    if number == 0 or not 0 <= length <= end - at:
        raise GraphError(f"the field at byte {began} of {len(view)} has no end; expected an undamaged ONNX file")
    return (number, at, length) if kind == LENGTH else (number, at + length, None)


def _varint(view: memoryview, at: int, end: int) -> tuple[int, int]:
    """Return an integer of 7 bits per byte, and the position after it."""
    value = 0
    for place in range(min(LONGEST_VARINT, end - at)):
        byte = view[at + place]
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    raise GraphError(f"the number at byte {at} of {len(view)} has no end; expected an undamaged ONNX file")
