"""A SuperLink that a test scripts: the Fleet API behind a real HTTP socket on loopback.

It is not flwr's own SuperLink, which test_superlink.py uses where it is installed. Its messages go through the tables
that test_protobuf.py compares with flwr. A node that restarts is known by its key. A message is given once. Each call's
name is in `calls`, in order.
"""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from edgefl.deployment.supernode import message_objects, message_tables
from edgefl.protocol.wire.envelope import ARRAY, DTYPE, RECORD, STYPE

RUN, SERVER_APP = 77, 1
Answer = tuple[int, bytes]


class SuperLink:
    """The state of a SuperLink.

    `version` is flwr's. `faults` has answers by route that replace its own, one call each.
    """

    def __init__(self) -> None:
        self.version, self.url = "1.41.3", ""
        self.nodes: dict[bytes, int] = {}
        self.online: set[int] = set()
        self.asked: list[tuple[dict[str, Any], dict[str, Any]]] = []  # messages that were not given yet
        self.objects: dict[str, bytes] = {}
        self.replies: dict[str, dict[str, Any]] = {}  # by the id of the message that they answer
        self.pending: dict[str, str] = {}  # objects that were announced, and in which session
        self.calls: list[str] = []
        self.faults: dict[str, list[Answer]] = {}
        self.needs_keys = False
        self.has_beaten = threading.Event()  # a heartbeat has come
        self.lock = threading.Lock()

    def ask(self, envelope: bytes, stype: str = STYPE, record: str = RECORD) -> str:
        """Send a message with an envelope to the node, and return the message's id."""
        metadata = {
            "run_id": RUN, "src_node_id": SERVER_APP, "dst_node_id": 2, "group_id": "g", "ttl": 3600.0,
            "message_type": "train", "created_at": time.time(), "dst_task_id": 5,
        }  # fmt: skip
        packed = message_objects.pack(
            metadata, record, ARRAY, message_objects.Array(DTYPE, (len(envelope),), stype, envelope)
        )
        with self.lock:
            self.objects |= packed.objects
            self.asked.append(({**metadata, "message_id": packed.message_id}, packed.tree))
        return packed.message_id

    def has_all(self, message: str) -> bool:
        """Return whether all objects of the answer have arrived."""
        return all(self.objects.get(one) for one in ids(self.replies[message]["tree"]))

    def answered(self, message: str) -> bytes:
        """The envelope that answers it, from the objects that have arrived."""
        tree = self.replies[message]["tree"]
        return message_objects.array_of(tree, self.objects.__getitem__, RECORD, ARRAY, 1 << 26).data

    def told(self, line: str, key: bytes, request: dict[str, Any]) -> dict[str, Any] | Answer:
        """The answer to a call, by its route."""
        known = self.nodes.get(key)
        node = (request.get("node") or {}).get("node_id", request.get("node_id"))
        if line not in ("register-node", "activate-node") and known != node:
            return refusal(401, 0, "Invalid SuperNode authentication")
        return getattr(self, line.replace("-", "_"))(key, request)

    def register_node(self, key: bytes, request: dict[str, Any]) -> dict[str, Any] | Answer:
        if self.needs_keys:
            return refusal(412, 2001, "SuperNode authentication is enabled.")
        if key in self.nodes:
            return refusal(412, 23, "Public key already in use.")
        self.nodes[key] = 1000 + len(self.nodes)
        return {"node_id": self.nodes[key]}

    def activate_node(self, key: bytes, request: dict[str, Any]) -> dict[str, Any] | Answer:
        if key not in self.nodes or self.nodes[key] in self.online:
            return refusal(412, 2004, "Failed to activate SuperNode.")
        self.online.add(self.nodes[key])
        return {"node_id": self.nodes[key]}

    def deactivate_node(self, key: bytes, request: dict[str, Any]) -> dict[str, Any] | Answer:
        if request["node_id"] not in self.online:
            return refusal(412, 2005, "Failed to deactivate SuperNode.")
        self.online.discard(request["node_id"])
        return {}

    def send_node_heartbeat(self, key: bytes, request: dict[str, Any]) -> dict[str, Any]:
        self.online.add(request["node"]["node_id"])
        self.has_beaten.set()
        return {"success": True}

    def pull_messages(self, key: bytes, request: dict[str, Any]) -> dict[str, Any]:
        if not self.asked:
            return {}
        metadata, tree = self.asked.pop(0)
        return {"messages_list": [{"metadata": metadata, "content": {}}], "message_object_trees": [tree]}

    def pull_object(self, key: bytes, request: dict[str, Any]) -> dict[str, Any]:
        data = self.objects.get(request["object_id"])
        return {"object_found": data is not None, "object_available": bool(data), "object_content": data or b""}

    def confirm_message_received(self, key: bytes, request: dict[str, Any]) -> dict[str, Any]:
        return {}

    def push_messages(self, key: bytes, request: dict[str, Any]) -> dict[str, Any]:
        """Take a reply before its objects are there, as flwr's ServerApp does. A second reply is not wanted."""
        message, tree = request["messages_list"][0], request["message_object_trees"][0]
        asked = message["metadata"]["reply_to_message_id"]
        if asked in self.replies:
            return {"session_id": "unused"}
        self.replies[asked] = {**message, "tree": tree}
        missing = [one for one in ids(tree) if one not in self.objects]
        self.pending |= dict.fromkeys(missing, "s")
        return {"objects_to_push": missing, "session_id": "s"}

    def push_object(self, key: bytes, request: dict[str, Any]) -> dict[str, Any]:
        name, session = request["object_id"], request["session_id"]
        is_wanted = name in self.pending and session in ("", self.pending[name])
        if is_wanted:
            del self.pending[name]
            self.objects[name] = request["object_content"]
        return {"stored": is_wanted}

    def get_run(self, key: bytes, request: dict[str, Any]) -> dict[str, Any]:
        return {"run": {"run_id": request["run_id"], "fab_id": "edgefl/app", "fab_version": "1.0"}}


def ids(tree: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ids of all objects of a tree, children first."""
    for child in tree["children"]:
        yield from ids(child)
    yield tree["object_id"]


def refusal(status: int, code: int, detail: str) -> Answer:
    """An error as flwr words it."""
    return status, json.dumps({"code": code, "detail": detail} if code else {"detail": detail}).encode()


NAMES = {
    "register-node": "RegisterNodeFleet", "activate-node": "ActivateNode", "deactivate-node": "DeactivateNode",
    "send-node-heartbeat": "SendNodeHeartbeat", "pull-messages": "PullMessages", "push-messages": "PushMessages",
    "pull-object": "PullObject", "push-object": "PushObject", "get-run": "GetRun",
    "confirm-message-received": "ConfirmMessageReceived",
}  # fmt: skip


def handler(link: SuperLink) -> Callable[..., http.server.BaseHTTPRequestHandler]:
    """Answers for that SuperLink."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # an answer is one packet: two wait for each other's acknowledgement

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

        def do_GET(self) -> None:
            title = {"openapi": "3.1.0", "info": {"title": "SuperLink API", "version": link.version}, "paths": {}}
            self._send(link.faults["openapi"].pop(0) if link.faults.get("openapi") else (200, _json(title)))

        def do_POST(self) -> None:
            route = self.path.removeprefix("/v1/fleet/")
            body = self.rfile.read(int(self.headers["content-length"]))
            key = base64.b64decode(self.headers["flwr-public-key"])
            with link.lock:
                link.calls.append(route)
                if link.faults.get(route):
                    self._send(link.faults[route].pop(0))
                    return
                found = link.told(route, key, message_tables.read(f"{NAMES[route]}Request", body))
            self._send(
                found if isinstance(found, tuple) else (200, message_tables.write(f"{NAMES[route]}Response", found))
            )

        def _send(self, answer: Answer) -> None:
            status, data = answer
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@contextmanager
def superlink(context: ssl.SSLContext | None = None) -> Iterator[SuperLink]:
    """Yield a SuperLink that listens on a free port of loopback until the block ends. `context` is for https."""
    link = SuperLink()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(link))
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    link.url = f"{'http' if context is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield link
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
