"""edgefl/deployment/supernode/message_objects.py: the ids that flwr 1.41.0 gives, and objects that nobody should
send.
"""

from __future__ import annotations

import json

import pytest

from edgefl.deployment.supernode import message_objects
from edgefl.deployment.supernode.message_objects import Array
from edgefl.errors import CodecError, DamagedFrameError
from tests.deployment.supernode.superlink import ids
from tests.deployment.supernode.test_protobuf import METADATA

ENVELOPE = Array("uint8", (4,), "edgefl.letter/1", b"abcd")
IDS_OF_FLWR = [  # of ArrayChunk, Array, ArrayRecord, RecordDict and Message, by object_id
    "39e9bdc6b2c7defb99105af9174e57db26662a89dd481aee13c14a84b4ccb49b",
    "ccfecda1f7a5fd1ff262d20a2ce59ceaff35cf277bb9adb4736ab22ce114e53a",
    "75c02e8144a19fca4d0c304b93b308585fdefd6297def222643862012ebf23e1",
    "79e809cb0a80378ea7e3ce0963aeae81a831e0f0422394fa1a34e52439215e08",
    "7a1a1cc75fbe2be3ee50ba2034ed5df4c77f29bddfe2815438eac876e070b4df",
]
ERROR_OF_FLWR = "0ad37dd74d67ae8e4af0bbec0002c0d3793bfc84a5c39ad3fa239306cc4bec48"
LIMIT = 1 << 20


def packed(array: Array = ENVELOPE) -> message_objects.Packed:
    return message_objects.pack(METADATA, "edgefl", "letter", array)


def test_the_objects_of_a_message_have_the_ids_that_flwr_gives() -> None:
    made = packed()
    assert list(made.objects) == IDS_OF_FLWR
    assert made.message_id == IDS_OF_FLWR[-1]
    assert list(ids(made.tree)) == IDS_OF_FLWR


def test_so_has_an_error() -> None:
    assert message_objects.pack_error(METADATA, 2, "why").message_id == ERROR_OF_FLWR


@pytest.mark.parametrize("size", [1, message_objects.CHUNK_BYTES, 2 * message_objects.CHUNK_BYTES + 1])
def test_an_array_comes_back(size) -> None:
    array = ENVELOPE._replace(data=b"\0" * size, shape=(size,))  # whose chunks are one object
    made = packed(array)
    assert message_objects.array_of(made.tree, made.objects.__getitem__, "edgefl", "letter", 1 << 24) == array
    assert len(made.objects) == 4 + min(2, -(-size // message_objects.CHUNK_BYTES))


def test_other_records_and_arrays_are_named() -> None:
    made = packed()
    with pytest.raises(CodecError, match="without the record 'other'"):
        message_objects.array_of(made.tree, made.objects.__getitem__, "other", "letter", LIMIT)
    with pytest.raises(CodecError, match="without the array 'other'"):
        message_objects.array_of(made.tree, made.objects.__getitem__, "edgefl", "other", LIMIT)
    error = message_objects.pack_error(METADATA, 2, "why")
    with pytest.raises(CodecError, match="a Message with 0 contents"):
        message_objects.array_of(error.tree, error.objects.__getitem__, "edgefl", "letter", LIMIT)


def test_no_more_is_taken_than_the_limit() -> None:
    made = packed()
    size = sum(map(len, made.objects.values()))
    message_objects.array_of(made.tree, made.objects.__getitem__, "edgefl", "letter", size)
    with pytest.raises(CodecError, match=f"a message of more than {size - 1} bytes"):
        message_objects.array_of(made.tree, made.objects.__getitem__, "edgefl", "letter", size - 1)
    zeros = packed(ENVELOPE._replace(data=b"\0" * (3 * message_objects.CHUNK_BYTES)))  # one object, three times
    with pytest.raises(CodecError, match="a message of more than"):
        message_objects.array_of(
            zeros.tree, zeros.objects.__getitem__, "edgefl", "letter", 2 * message_objects.CHUNK_BYTES
        )


@pytest.mark.parametrize("name", IDS_OF_FLWR)
def test_an_object_that_was_changed_on_its_way_is_noticed(name) -> None:
    made = packed()
    changed = {**made.objects, name: made.objects[name][:-1] + b"x"}
    with pytest.raises(DamagedFrameError, match="expected the SHA-256 in its id"):
        message_objects.array_of(made.tree, changed.__getitem__, "edgefl", "letter", LIMIT)


def forged(kind: str, old: bytes, new: bytes) -> tuple[dict, dict[str, bytes]]:
    """The message above with a part of one object replaced, and every id above it made to fit."""
    made, renamed = packed(), {}
    for name, data in list(made.objects.items()):
        for before, after in renamed.items():
            data = data.replace(before.encode(), after.encode())
        if data.startswith(kind.encode() + b" "):
            assert old in data
            data = data.replace(old, new)
        renamed[name] = message_objects.object_id(data)
        made.objects[renamed[name]] = data
    return {"object_id": renamed[made.message_id], "children": []}, made.objects


@pytest.mark.parametrize(
    ("kind", "old", "new", "problem"),
    [
        ("Message", b"Message ", b"Massage ", "Massage of 54 bytes, with 54 bytes of content; expected Message"),
        ("Message", b" 54\0", b" 53\0", "expected Message of the stated length"),
        ("Message", b"\0", b"", "an object that begins with b'Message"),
        ("RecordDict", b'78\0{"edgefl": "', b'78\0["edgefl", "', "RecordDict is not JSON"),
        ("RecordDict", b'{"edgefl": ', b'{"edgefl":1', "RecordDict is not JSON"),
        ("ArrayRecord", b' 78\0{"letter": "ccf', b' 78\0{"letter": "ddf', "names an object that is not its child"),
        ("Array", b'"shape": [4]', b'"shape": 444', "Array with"),
        ("Array", b'"arraychunk_ids": [0]', b'"arraychunk_ids": [1]', "1 chunks in the order"),
        ("ArrayChunk", b"ArrayChunk ", b"ArrayChank ", "expected ArrayChunk"),
    ],
)
def test_what_flwr_would_not_send_is_refused(kind, old, new, problem) -> None:
    tree, found = forged(kind, old, new)
    with pytest.raises(CodecError, match=problem):
        message_objects.array_of(tree, found.__getitem__, "edgefl", "letter", LIMIT)


def test_an_id_is_hexadecimal() -> None:
    with pytest.raises(CodecError, match="expected 64 hexadecimal digits"):
        message_objects.array_of({"object_id": "../../etc/passwd"}, {}.__getitem__, "edgefl", "letter", LIMIT)


def test_a_body_says_of_what_array_it_is() -> None:
    body = next(data for data in packed().objects.values() if data.startswith(b"Array ")).partition(b"\0")[2]
    assert json.loads(body)["stype"] == "edgefl.letter/1"
