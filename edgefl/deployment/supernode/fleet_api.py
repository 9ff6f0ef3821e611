"""The calls of the Fleet API of a SuperLink, from flwr 1.41 on: signed POSTs of protocol buffers over HTTP.

supernode.py decides when to call, and device/reconnection.py when to try again. An answer is limited before it is read,
to LONGEST_ANSWER bytes, or to LONGEST_ERROR bytes for an error.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from edgefl.deployment.device.device_socket import ServerAddress
from edgefl.deployment.supernode import message_tables
from edgefl.deployment.supernode.node_key import NodeKey
from edgefl.errors import CodecError, RequestError, RunError
from edgefl.protocol.wire.printable import printable

OLDEST = (1, 41)  # first version of flwr with this Fleet API. Nodes spoke gRPC before
NEWEST = (1, 42)  # newest version that was tried (scripts/frameworks.sh)
MEDIA = "application/protobuf"
CALL_S = 30.0  # seconds for each step of a call
KEPT_S = 4.0  # seconds after which an idle connection is made anew, as uvicorn closes it after 5
LONGEST_ANSWER = 32 << 20  # bytes. An object is a chunk of 5 MB, or describes other objects
LONGEST_ERROR = 1 << 16
VERSION_BYTES = 1 << 12  # bytes of the server's description of itself
UNREADABLE = (400, 405, 415, 422)  # status of HTTP for a call in another form than the server's
KEY_TAKEN, REGISTRATION_DISABLED, NODE_FAILED, RUN_OVER = 23, 2001, 2004, 2007  # codes of errors


_TRIED = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"


class RefusedError(RunError):
    """The refusal of a SuperLink. `status` is the status of HTTP, and `code` is Flower's own, or 0."""

    def __init__(self, sentence: str, status: int, code: int) -> None:
        super().__init__(sentence)
        self.status, self.code = status, code


class Url(NamedTuple):
    """The address of a SuperLink."""

    address: ServerAddress
    is_https: bool

    @staticmethod
    def parse(text: str) -> Url:
        """Parse http://HOST[:PORT] or https://HOST[:PORT]. Raises RequestError for another text."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            raise RequestError(f"--flower {text!r}; expected http://HOST:PORT or https://HOST:PORT") from None
        is_plain = not (parts.query or parts.fragment or parts.username or parts.path.strip("/"))
        if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain or port == 0:
            raise RequestError(f"--flower {text!r}; expected http://HOST:PORT or https://HOST:PORT")
        is_https = parts.scheme == "https"
        return Url(ServerAddress(parts.hostname, port or (443 if is_https else 80)), is_https)

    def __str__(self) -> str:
        return f"{'https' if self.is_https else 'http'}://{self.address}"


def _release(version: str) -> tuple[int, int] | None:
    """Return the first two numbers of a version, or None if it does not begin with two numbers."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})(?!\d)", version)
    return None if found is None else (int(found[1]), int(found[2]))


def utc() -> datetime:
    """Return the time of this machine, with the time zone UTC."""
    return datetime.now(tz=timezone.utc)


class SuperLinkClient:
    """A node's calls to one SuperLink, over one connection that is made anew when it has been closed.

    url      address of the SuperLink
    key      key of the node
    context  for https
    now      returns the time, with its time zone
    Every call raises OSError if it may be tried again, and RefusedError if the SuperLink refuses it.
    """

    def __init__(
        self, url: Url, key: NodeKey, context: ssl.SSLContext | None = None, now: Callable[[], datetime] = utc
    ) -> None:
        self.url, self._key, self._context, self._now = url, key, context, now
        self._link: http.client.HTTPConnection | None = None
        self._used = 0.0  # time of the last use, by the monotonic clock
        self._untried = ""  # version of the SuperLink, if it is newer than the versions that were tried

    @property
    def public_key(self) -> bytes:
        """The public key of the node, PEM."""
        return self._key.public

    def close(self) -> None:
        """End the connection. The next call makes another one."""
        if self._link is not None:
            self._link.close()
        self._link = None

    def check_version(self) -> str | None:
        """Return a line for the user if the SuperLink says that it is newer than the versions that were tried, or None.

        Raises  RunError if it is older, or is not a SuperLink.
        """
        status, data = self._exchange("GET", "/openapi.json", None, {}, VERSION_BYTES, is_part=True)
        self.close()  # the rest of it is not read
        found = re.search(rb'"info":\{"title":"([^"]{1,80})","version":"([^"]{1,40})"', data)
        if status != 200 or found is None:
            raise RunError(
                f"{self.url}: no SuperLink answers there (HTTP {status}); expected a SuperLink of flwr {_TRIED}"
            )
        title, version = (printable(part.decode("utf-8", "replace")) for part in found.groups())
        release = _release(version)
        if title != "SuperLink API" or release is None or release < OLDEST:
            raise RunError(f"{self.url}: {title} {version}; expected a SuperLink of flwr {_TRIED}, or a later one")
        self._untried = version if release > NEWEST else ""
        if not self._untried:
            return None
        return f"{self.url}: flwr {version} is newer than {_TRIED}, which were tried; edgefl reports what differs"

    def register(self) -> None:
        """Register the key, with a SuperLink that lets nodes register themselves."""
        self._call("register-node", "RegisterNodeFleet", {"public_key": self._key.public})

    def activate(self, interval_s: float) -> int:
        """Go online, and return the id of the node."""
        fields = {"public_key": self._key.public, "heartbeat_interval": interval_s}
        return int(self._call("activate-node", "ActivateNode", fields)["node_id"])

    def deactivate(self, node: int) -> None:
        """Go offline."""
        self._call("deactivate-node", "DeactivateNode", {"node_id": node})

    def beat(self, node: int, interval_s: float) -> bool:
        """Send a heartbeat, which keeps the node online for two intervals. Return whether the SuperLink knows it."""
        fields = {"node": {"node_id": node}, "heartbeat_interval": interval_s}
        return bool(self._call("send-node-heartbeat", "SendNodeHeartbeat", fields)["success"])

    def pull(self, node: int) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Pull the next message for the node: its metadata and its tree of objects. The SuperLink gives it once."""
        found = self._call("pull-messages", "PullMessages", {"node": {"node_id": node}})
        messages, trees = found["messages_list"], found["message_object_trees"]
        if len(messages) != len(trees) or len(messages) > 1 or any(not one["metadata"] for one in messages):
            raise ConnectionError(
                f"{len(messages)} messages with {len(trees)} trees; expected one message with one tree, or no message"
            )
        return (messages[0]["metadata"], trees[0]) if messages else None

    def get_object(self, node: int, run: int, name: str) -> bytes | None:
        """Return the bytes of an object, or None while they have not arrived at the SuperLink."""
        fields = {"node": {"node_id": node}, "run_id": run, "object_id": name}
        found = self._call("pull-object", "PullObject", fields)
        if not found["object_found"]:
            raise RefusedError(
                f"{self.url}: object {name[:16]}... is gone; expected the SuperLink to keep it until it is confirmed",
                200,
                0,
            )
        return bytes(found["object_content"]) if found["object_available"] else None

    def confirm(self, node: int, run: int, name: str) -> None:
        """Confirm that the objects of the message are no longer needed."""
        fields = {"node": {"node_id": node}, "run_id": run, "message_object_id": name}
        self._call("confirm-message-received", "ConfirmMessageReceived", fields)

    def push(
        self, node: int, message: Mapping[str, Any], tree: Mapping[str, Any], seconds: float
    ) -> tuple[set[str], str]:
        """Announce a reply. Return the ids of the objects that the SuperLink lacks, and the session to push them in.

        seconds  seconds that the answer took
        """
        fields = {
            "node": {"node_id": node},
            "messages_list": [message],
            "message_object_trees": [tree],
            "clientapp_runtime_list": [seconds],
        }
        found = self._call("push-messages", "PushMessages", fields)
        return set(found["objects_to_push"]), found["session_id"]

    def put_object(self, node: int, run: int, session: str, name: str, data: bytes) -> bool:
        """Put an object of a reply, and return whether it is stored. "" as `session` is any one that waits for it."""
        fields = {
            "node": {"node_id": node},
            "run_id": run,
            "object_id": name,
            "object_content": data,
            "session_id": session,
        }
        return bool(self._call("push-object", "PushObject", fields)["stored"])

    def run(self, node: int, run: int) -> dict[str, Any]:
        """Return the SuperLink's description of a run: fab_id, fab_version, federation."""
        found = self._call("get-run", "GetRun", {"node": {"node_id": node}, "run_id": run})["run"]
        return found or {}

    def _call(self, route: str, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        path, body = f"/v1/fleet/{route}", message_tables.write(f"{name}Request", fields)
        headers = {"content-type": MEDIA, "accept": MEDIA, **self._key.headers(self._now())}
        status, data = self._exchange("POST", path, body, headers, LONGEST_ANSWER)
        if status != 200:
            raise self._refusal(route, status, data)
        try:
            return message_tables.read(f"{name}Response", data)
        except CodecError as error:
            self.close()
            if self._untried:
                raise self._differs(f"the answer to {route} has an unknown form ({error})") from None
            raise ConnectionError(f"the answer to {route} is damaged ({error}); expected protocol buffers") from None

    def _differs(self, what: str) -> RunError:
        """Return the error of a version that was not tried and differs. Another attempt would not help."""
        return RunError(
            f"{self.url}: flwr {self._untried} differs from {_TRIED}, which were tried: {what}; update edgefl, or run a"
            " SuperLink of a version that was tried"
        )

    def _refusal(self, route: str, status: int, data: bytes) -> Exception:
        code, said = _said(data)
        if self._untried and (status == 404 or status in UNREADABLE):
            return self._differs(f"it answers {route} with HTTP {status}{said}")
        if status >= 500 or status in (408, 429):
            return OSError(f"the SuperLink answers {route} with HTTP {status}{said}")
        meaning = {
            401: "it does not accept this node's key or signature; expected the key that it activated, and a clock "
            "that is right within 5 minutes",
            404: f"it has no route {route}; expected a SuperLink of flwr {_TRIED}",
        }.get(status, f"HTTP {status}{said}")
        return RefusedError(f"{self.url} refuses {route}: {meaning}", status, code)

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], most: int, is_part: bool = False
    ) -> tuple[int, bytes]:
        """Return the status and the body of the answer. With `is_part`, a longer body is cut off at `most` bytes."""
        if time.monotonic() - self._used > KEPT_S:
            self.close()
        link = self._link = self._link or self._connection()
        try:
            link.request(method, path, body, headers)
            answer = link.getresponse()
            most = most if answer.status == 200 else LONGEST_ERROR
            data = answer.read(most if is_part else most + 1)
            if len(data) > most:
                raise ConnectionError(f"an answer of more than {most} bytes to {path}; expected at most {most}")
        except http.client.HTTPException as error:
            self.close()
            raise ConnectionError(
                f"the answer is not HTTP, or it broke off ({error or type(error).__name__})"
            ) from None
        except OSError:
            self.close()
            raise
        self._used = time.monotonic()
        return answer.status, data

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self.url.address
        if self.url.is_https:
            return http.client.HTTPSConnection(host, port, timeout=CALL_S, context=self._context)
        return http.client.HTTPConnection(host, port, timeout=CALL_S)


def _said(data: bytes) -> tuple[int, str]:
    """Return Flower's code of an error, and its words for people."""
    try:
        found = json.loads(data)
        code, words = found.get("code", 0), [found.get("detail"), found.get("extra")]
    except (ValueError, AttributeError, RecursionError):
        return 0, ""
    text = "; ".join(printable(word)[:300] for word in words if isinstance(word, str))
    return code if type(code) is int else 0, f": {text}" if text else ""
