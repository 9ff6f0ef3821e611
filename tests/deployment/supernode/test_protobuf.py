"""edgefl/deployment/supernode/protobuf.py and message_tables.py: what flwr 1.41.0 wrote, byte for byte, and bytes that
nobody should send.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefl.deployment.supernode import message_tables, protobuf
from edgefl.errors import CodecError

METADATA = {
    "run_id": 2**64 - 1, "src_node_id": 7, "dst_node_id": 1, "reply_to_message_id": "ab", "group_id": "é", "ttl": 12.5,
    "message_type": "train", "created_at": 1760000000.25, "src_task_id": 0, "dst_task_id": 3,
}  # fmt: skip
WRITTEN_BY_FLWR = [  # 1.41.0, by SerializeToString(deterministic=True)
    (
        "Metadata",
        {**METADATA, "message_id": "x"},
        "08ffffffffffffffffff01120178180720012a0261623202c3a93900000000000029404205747261696e4900001000de39da4150005803",
    ),
    (
        "PullMessagesResponse",
        {
            "messages_list": [{"metadata": {"run_id": 5, "message_id": "m", "ttl": 3600.0}, "content": {}}],
            "message_object_trees": [{"object_id": "aaaa", "children": [{"object_id": "b"}, {"object_id": "c"}]}],
        },
        "12120a0e080512016d39000000000020ac4012001a100a046161616112030a016212030a0163",
    ),
    (
        "PushMessagesRequest",
        {
            "node": {"node_id": 9},
            "messages_list": [{"metadata": {"run_id": 5}, "error": {"code": -2, "reason": "no"}}],
            "message_object_trees": [{"object_id": "d"}],
            "clientapp_runtime_list": [0.5, 2.0],
        },
        "0a020809120c0a0208051a06080312026e6f1a030a01642210000000000000e03f0000000000000040",
    ),
    (
        "SendNodeHeartbeatRequest",
        {"node": {"node_id": 300}, "heartbeat_interval": 30.0},
        "0a0308ac02110000000000003e40",
    ),
]


@pytest.mark.parametrize(("kind", "fields", "written"), WRITTEN_BY_FLWR)
def test_writes_what_flwr_writes(kind, fields, written) -> None:
    assert message_tables.write(kind, fields).hex() == written


@pytest.mark.parametrize(("kind", "fields", "written"), WRITTEN_BY_FLWR)
def test_reads_what_flwr_wrote(kind, fields, written) -> None:
    found = message_tables.read(kind, bytes.fromhex(written))
    assert message_tables.write(kind, found).hex() == written
    for name, value in fields.items():
        if isinstance(value, int | float | str):
            assert found[name] == value


def test_absent_fields_have_their_defaults() -> None:
    assert message_tables.read("Metadata", b"")["src_task_id"] is None
    assert message_tables.read("Metadata", b"")["ttl"] == 0.0
    assert message_tables.read("PullMessagesResponse", b"") == {"messages_list": [], "message_object_trees": []}


def test_fields_that_no_table_has_are_passed_over() -> None:
    unknown = bytes.fromhex("f806 01 c23e 03 616263 dd3e 01020304 e13e 0102030405060708")
    assert message_tables.read("Node", unknown + b"\x08\x05") == {"node_id": 5}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("08", "a number whose end is missing"),
        ("08ffffffffffffffffffff01", "a number whose end is missing"),
        ("0a05", "of wire type 2; expected 0"),
        ("0d0000", "4 bytes announced, 2 left"),
        ("0b", "wire type 3"),
        ("0000", "Node with field 0"),
        ("12ffffffffffffffff7f", "bytes announced, 0 left"),
    ],
)
def test_bytes_that_are_no_message_are_refused(data, problem) -> None:
    with pytest.raises(CodecError, match=problem):
        message_tables.read("Node", bytes.fromhex(data) + (b"\0" * 5 if data == "0a05" else b""))


def test_a_text_has_to_be_utf8() -> None:
    with pytest.raises(CodecError, match="object_id is not UTF-8"):
        message_tables.read("ObjectTree", b"\x0a\x01\xff")


def test_depth_and_values_are_bounded() -> None:
    data = b""
    for _ in range(protobuf.DEEPEST + 1):
        data = b"\x12" + protobuf.varint(len(data)) + data
    with pytest.raises(CodecError, match="within 33 messages"):
        message_tables.read("ObjectTree", data)
    message_tables.read("ObjectTree", data[2:])
    with pytest.raises(CodecError, match="more than 65536 values"):
        message_tables.read("Node", b"\x08\x01" * (protobuf.MOST_VALUES + 1))
    with pytest.raises(CodecError, match="more than 65536 values"):  # of one packed list
        message_tables.read("PushMessagesRequest", b"\x22" + protobuf.varint(8 << 17) + b"\0" * (8 << 17))


@pytest.mark.parametrize(
    ("kind", "fields", "problem"),
    [
        ("Node", {"id": 1}, "Node with an unknown field 'id'; expected node_id"),
        ("Node", {"node_id": -1}, "Node.node_id = -1; expected uint64"),
        ("Node", {"node_id": 2**64}, "expected uint64"),
        ("Node", {"node_id": True}, "expected uint64"),
        ("Error", {"code": 2**63}, "expected sint64"),
        ("ObjectTree", {"object_id": 5}, "expected string"),
        ("Metadata", {"ttl": "1"}, "expected double"),
    ],
)
def test_values_that_do_not_fit_are_refused(kind, fields, problem) -> None:
    with pytest.raises(CodecError, match=problem):
        message_tables.write(kind, fields)


@given(st.sampled_from(sorted(message_tables.SHAPES)), st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(kind, data) -> None:
    try:
        found = message_tables.read(kind, data)
    except CodecError:
        return
    assert set(found) == {field.name for field in message_tables.SHAPES[kind]}


@given(st.integers(-(2**63), 2**63 - 1), st.text(max_size=5))
def test_what_is_written_is_read(code, reason) -> None:
    assert message_tables.read("Error", message_tables.write("Error", {"code": code, "reason": reason})) == {
        "code": code,
        "reason": reason,
    }
