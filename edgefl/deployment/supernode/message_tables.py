"""The messages of the Fleet API, flwr 1.41 and 1.42, as tables of fields. protobuf.py has the encoding.

Fields that a device neither sends nor reads are left out, and a reader skips them. So the content of a message is empty
here, and travels as objects (message_objects.py).
"""

from __future__ import annotations

from typing import Any

from edgefl.deployment.supernode import protobuf
from edgefl.deployment.supernode.protobuf import Field

NODE = Field(1, "node", "Node")

SHAPES: dict[str, tuple[Field, ...]] = {
    "RecordDict": (),
    "Node": (Field(1, "node_id", "uint64"),),
    "Error": (Field(1, "code", "sint64"), Field(2, "reason", "string")),
    "Metadata": (
        Field(1, "run_id", "uint64"),
        Field(2, "message_id", "string"),
        Field(3, "src_node_id", "uint64"),
        Field(4, "dst_node_id", "uint64"),
        Field(5, "reply_to_message_id", "string"),
        Field(6, "group_id", "string"),
        Field(7, "ttl", "double"),
        Field(8, "message_type", "string"),
        Field(9, "created_at", "double"),
        Field(10, "src_task_id", "uint64", present=True),
        Field(11, "dst_task_id", "uint64", present=True),
    ),
    "Message": (Field(1, "metadata", "Metadata"), Field(2, "content", "RecordDict"), Field(3, "error", "Error")),
    "ObjectTree": (Field(1, "object_id", "string"), Field(2, "children", "ObjectTree", repeated=True)),
    "RegisterNodeFleetRequest": (Field(1, "public_key", "bytes"),),
    "RegisterNodeFleetResponse": (Field(1, "node_id", "uint64"),),
    "ActivateNodeRequest": (Field(1, "public_key", "bytes"), Field(2, "heartbeat_interval", "double")),
    "ActivateNodeResponse": (Field(1, "node_id", "uint64"),),
    "DeactivateNodeRequest": (Field(1, "node_id", "uint64"),),
    "DeactivateNodeResponse": (),
    "SendNodeHeartbeatRequest": (NODE, Field(2, "heartbeat_interval", "double")),
    "SendNodeHeartbeatResponse": (Field(1, "success", "bool"),),
    "PullMessagesRequest": (NODE,),
    "PullMessagesResponse": (
        Field(2, "messages_list", "Message", repeated=True),
        Field(3, "message_object_trees", "ObjectTree", repeated=True),
    ),
    "PushMessagesRequest": (
        NODE,
        Field(2, "messages_list", "Message", repeated=True),
        Field(3, "message_object_trees", "ObjectTree", repeated=True),
        Field(4, "clientapp_runtime_list", "double", repeated=True),
    ),
    "PushMessagesResponse": (Field(3, "objects_to_push", "string", repeated=True), Field(4, "session_id", "string")),
    "PullObjectRequest": (NODE, Field(2, "run_id", "uint64"), Field(3, "object_id", "string")),
    "PullObjectResponse": (
        Field(1, "object_found", "bool"),
        Field(2, "object_available", "bool"),
        Field(3, "object_content", "bytes"),
    ),
    "PushObjectRequest": (
        NODE,
        Field(2, "run_id", "uint64"),
        Field(3, "object_id", "string"),
        Field(4, "object_content", "bytes"),
        Field(5, "session_id", "string"),
    ),
    "PushObjectResponse": (Field(1, "stored", "bool"),),
    "ConfirmMessageReceivedRequest": (NODE, Field(2, "run_id", "uint64"), Field(3, "message_object_id", "string")),
    "ConfirmMessageReceivedResponse": (),
    "GetRunRequest": (NODE, Field(2, "run_id", "uint64")),
    "Run": (
        Field(1, "run_id", "uint64"),
        Field(2, "fab_id", "string"),
        Field(3, "fab_version", "string"),
        Field(12, "federation", "string"),
    ),
    "GetRunResponse": (Field(1, "run", "Run"),),
}


def write(kind: str, values: dict[str, Any]) -> bytes:
    """Return the message of type `kind` as bytes. Raises CodecError if a value does not fit its field."""
    return protobuf.write(SHAPES, kind, values)


def read(kind: str, data: bytes) -> dict[str, Any]:
    """Return the fields of a message of type `kind`. Raises CodecError if `data` is not such a message."""
    return protobuf.read(SHAPES, kind, data)
