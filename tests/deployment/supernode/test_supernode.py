"""edgefl/deployment/supernode/supernode.py, fleet.py and message_store.py: a node against a SuperLink that the test
scripts, over real HTTP.
"""

from __future__ import annotations

import errno
import re
import ssl
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.reconnection import TLS_FAULTS
from edgefl.deployment.supernode import fleet_api as calls
from edgefl.deployment.supernode import message_objects, node_key
from edgefl.deployment.supernode import message_store as mailboxes
from edgefl.deployment.supernode.fleet_api import SuperLinkClient, Url
from edgefl.deployment.supernode.message_store import Mailbox
from edgefl.deployment.supernode.supernode import FlowerNode
from edgefl.errors import RequestError, RunError
from edgefl.protocol.trust.certificates import make_certificates, tls_key_file
from edgefl.protocol.trust.tls import device_context, server_context
from tests.deployment.supernode.superlink import RUN, SuperLink, refusal, superlink


class Killed(BaseException):
    """The process ends here."""


class Echo:
    """A client that answers an envelope with its bytes in reverse. "end" is the last one.

    `before` is called before each answer.
    """

    limit = 1 << 20

    def __init__(self) -> None:
        self.finished: str | None = None
        self.heard: list[bytes] = []
        self.before: Callable[[], None] = lambda: None

    def answer(self, data: bytes) -> bytes:
        self.before()
        self.heard.append(data)
        self.finished = "all rounds are done" if data == b"end" else None
        return data[::-1]


class Bench:
    """A device's process, ended and started again at will."""

    def __init__(self, link: SuperLink, path: Path, give_up_s: float = 0.0) -> None:
        self.link, self.path, self.echo, self.said = link, path, Echo(), list[str]()
        self.rests, self.registers, self.give_up_s = list[float](), True, give_up_s
        self.clock_s = 0.0
        self.context: ssl.SSLContext | None = None

    def node(self) -> FlowerNode:
        """A new process on the same directory."""
        mailbox = Mailbox(self.path, self.said.append)
        key = node_key.NodeKey(mailbox.made_key(node_key.generate))
        url = Url.parse(self.link.url)
        world = DeviceEnvironment(self.said.append, self.pause, lambda: self.clock_s)
        fleets = SuperLinkClient(url, key, self.context), SuperLinkClient(url, key, self.context)
        return FlowerNode(*fleets, mailbox, self.echo, world, time.time, self.rest, self.registers, self.give_up_s)

    def rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        if len(self.rests) > 50:
            raise Killed

    def pause(self, failures: int) -> None:
        self.clock_s += 1.0


@pytest.fixture
def bench(tmp_path):
    with superlink() as link:
        yield Bench(link, tmp_path / "box", give_up_s=5.0)


def test_a_node_answers_until_its_run_is_over(bench) -> None:
    ids = [bench.link.ask(envelope) for envelope in (b"one", b"two", b"end")]
    assert bench.node().run() == "all rounds are done"
    assert [bench.link.answered(one) for one in ids] == [b"eno", b"owt", b"dne"]
    metadata = bench.link.replies[ids[0]]["metadata"]
    assert (metadata["dst_node_id"], metadata["src_node_id"], metadata["src_task_id"]) == (1, 1000, 5)
    assert (metadata["group_id"], metadata["message_type"], metadata["dst_task_id"]) == ("g", "train", None)
    assert 3500 < metadata["ttl"] < 3600
    assert bench.link.calls[:4] == ["register-node", "activate-node", "pull-messages", "get-run"]
    assert bench.link.calls[-1] == "deactivate-node"
    assert not bench.link.online
    assert not list(bench.path.glob("[mr]*.json"))


def test_while_there_is_nothing_it_asks_ever_less_often(bench) -> None:
    with pytest.raises(Killed):
        bench.node().run()
    assert bench.rests[:7] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


STEPS = ["get-run", "pull-object", "confirm-message-received", "push-messages", "push-object"]


@pytest.mark.parametrize("step", STEPS)
def test_killed_before_a_call_it_goes_on_there(bench, monkeypatch, step) -> None:
    ids = [bench.link.ask(envelope) for envelope in (b"one", b"end")]
    call, left = SuperLinkClient._call, [1]

    def die(self: SuperLinkClient, route: str, *rest: object) -> object:
        if route == step and left:
            left.pop()
            raise Killed
        return call(self, route, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(SuperLinkClient, "_call", die)
    with pytest.raises(Killed):
        bench.node().run()
    assert bench.node().run() == "all rounds are done"
    assert [bench.link.answered(one) for one in ids] == [b"eno", b"dne"]
    assert bench.link.calls.count("activate-node") == 1  # a heartbeat brought it online again
    assert bench.echo.heard.count(b"one") == 1


def test_killed_before_it_keeps_a_message_it_is_away_for_a_while(bench, monkeypatch) -> None:
    """Then the writer of that message writes it again."""
    bench.link.ask(b"lost")
    kept = Mailbox.keep_message
    monkeypatch.setattr(Mailbox, "keep_message", lambda *_: (_ for _ in ()).throw(Killed))
    with pytest.raises(Killed):
        bench.node().run()
    monkeypatch.setattr(Mailbox, "keep_message", kept)
    bench.rests.clear()
    away = []
    rest = bench.rest
    bench.rest = lambda seconds: (rest(seconds), away.append((seconds, not bench.link.online)), bench.link.ask(b"end"))
    assert bench.node().run() == "all rounds are done"
    assert away == [(5.0, True)]
    assert bench.echo.heard == [b"end"]


def test_so_is_one_whose_question_got_no_answer(bench) -> None:
    bench.link.faults["pull-messages"] = [(500, b"")]
    bench.link.ask(b"end")
    assert bench.node().run() == "all rounds are done"
    assert bench.rests == [5.0]


def test_one_that_was_offline_is_back_at_once(bench) -> None:
    for _ in range(2):
        bench.link.ask(b"end")
        assert bench.node().run() == "all rounds are done"
    assert bench.rests == []


def test_envelopes_of_another_version_are_answered_with_an_error(bench) -> None:
    other, _ = bench.link.ask(b"one", stype="edgefl.letter/9"), bench.link.ask(b"end")
    assert bench.node().run() == "all rounds are done"
    assert "'edgefl.letter/9'; expected edgefl.letter/1" in bench.link.replies[other]["error"]["reason"]


def test_killed_while_it_answers_it_answers_once_more(bench) -> None:
    ids = [bench.link.ask(envelope) for envelope in (b"one", b"end")]

    def die() -> None:
        bench.echo.before = lambda: None
        raise Killed

    bench.echo.before = die
    with pytest.raises(Killed):
        bench.node().run()
    assert bench.node().run() == "all rounds are done"
    assert [bench.link.answered(one) for one in ids] == [b"eno", b"dne"]


def test_killed_after_the_last_answer_it_still_knows_that_the_run_is_over(bench, monkeypatch) -> None:
    bench.link.ask(b"end")
    drop = Mailbox.drop

    def die(self: Mailbox) -> None:
        if self.reply() is not None:
            monkeypatch.setattr(Mailbox, "drop", drop)
            raise Killed
        drop(self)

    monkeypatch.setattr(Mailbox, "drop", die)
    with pytest.raises(Killed):
        bench.node().run()
    assert bench.node().run() == "all rounds are done"
    assert bench.echo.heard == [b"end"]


@pytest.mark.parametrize("route", ["register-node", "pull-messages", "pull-object", "push-messages", "push-object"])
@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ((500, b"oops"), "answers {route} with HTTP 500"),
        ((503, b'{"detail": "busy \\u001b[2J"}'), r"HTTP 503: busy \\x1b\[2J"),
        ((200, b"\xff" * 20), "the answer to {route} is damaged"),
        ((200, b"\0" * 2000), "the answer to {route} is damaged"),
    ],
)
def test_what_breaks_is_tried_again(bench, route, fault, problem) -> None:
    one, end = bench.link.ask(b"one"), bench.link.ask(b"end")
    bench.link.faults[route] = [fault, fault] if route != "pull-messages" else [fault]
    assert bench.node().run() == "all rounds are done"
    assert bench.link.answered(one) == b"eno" and bench.link.answered(end) == b"dne"
    line = next(line for line in bench.said if "trying again" in line)
    assert re.search(problem.format(route=route), line), line


def test_a_damaged_object_is_asked_for_again(bench) -> None:
    one, _ = bench.link.ask(b"one"), bench.link.ask(b"end")
    name = next(iter(bench.link.objects))
    whole = bench.link.objects[name]
    bench.link.objects[name] = whole[:-1] + b"?"
    pause = bench.pause
    bench.pause = lambda failures: (pause(failures), bench.link.objects.update({name: whole}))
    assert bench.node().run() == "all rounds are done"
    assert bench.link.answered(one) == b"eno"
    assert any("expected the SHA-256 in its id; trying again" in line for line in bench.said)


def test_it_waits_for_objects_that_come_later(bench) -> None:
    one, _ = bench.link.ask(b"one"), bench.link.ask(b"end")
    kept, bench.link.objects = bench.link.objects, dict.fromkeys(bench.link.objects, b"")
    rest = bench.rest
    bench.rest = lambda seconds: (rest(seconds), bench.link.objects.update(kept))
    assert bench.node().run() == "all rounds are done"
    assert bench.link.answered(one) == b"eno"
    assert not any("trying again" in line for line in bench.said)


def test_an_answer_that_is_too_large_is_not_read(bench, monkeypatch) -> None:
    monkeypatch.setattr(calls, "LONGEST_ANSWER", 1000)
    bench.link.faults["register-node"] = [(200, b"\0" * 1001)]
    bench.link.ask(b"end")
    assert bench.node().run() == "all rounds are done"
    assert any("an answer of more than 1000 bytes to /v1/fleet/register-node" in line for line in bench.said)


def test_it_gives_up_in_time(bench) -> None:
    bench.link.faults["pull-messages"] = [(500, b"")] * 20
    with pytest.raises(RunError, match="expected a connection within 5 s"):
        bench.node().run()


@pytest.mark.parametrize(
    ("version", "answer", "problem"),
    [
        ("1.40.0", None, "SuperLink API 1.40.0; expected a SuperLink of flwr 1.41 to 1.42, or a later one"),
        ("1.4.0", None, "SuperLink API 1.4.0; expected"),
        ("0.41.0", None, "SuperLink API 0.41.0; expected"),
        ("soon", None, "SuperLink API soon; expected"),
        ("", (404, b"{}"), r"no SuperLink answers there \(HTTP 404\)"),
        ("", (200, b"<html>" + b"x" * 10_000), r"no SuperLink answers there \(HTTP 200\)"),
    ],
)
def test_other_servers_are_refused_by_name(bench, version, answer, problem) -> None:
    bench.link.version = version
    bench.link.faults["openapi"] = [] if answer is None else [answer]
    with pytest.raises(RunError, match=problem):
        bench.node().run()
    assert bench.link.calls == []


@pytest.mark.parametrize(
    ("version", "is_told"), [("1.41.0", False), ("1.42.7", False), ("1.43.0", True), ("1.410.0", True), ("2.0.0", True)]
)
def test_a_version_that_was_not_tried_is_tried_and_told_once(bench, version, is_told) -> None:
    bench.link.version = version
    bench.link.faults["pull-messages"] = [(500, b"")]  # it joins twice
    bench.link.faults["register-node"] = [refusal(412, 2001, "SuperNode authentication is enabled.")]
    with pytest.raises(RunError, match="expected --node-key FILE"):
        bench.node().run()
    told = [line for line in bench.said if "is newer than 1.41 to 1.42, which were tried" in line]
    assert len(told) == is_told
    assert "register-node" in bench.link.calls


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (refusal(404, 0, "Not Found"), "it answers register-node with HTTP 404"),
        (refusal(422, 0, "field required"), "it answers register-node with HTTP 422"),
        ((200, b"\xff\xff\xff"), "the answer to register-node has an unknown form"),
    ],
)
def test_what_differs_in_a_version_that_was_not_tried_is_final_and_said(bench, answer, what) -> None:
    bench.link.version = "1.43.0"
    bench.link.faults["register-node"] = [answer]
    with pytest.raises(RunError, match=f"flwr 1.43.0 differs from 1.41 to 1.42, which were tried: {what}.*update"):
        bench.node().run()


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (refusal(401, 0, "Invalid SuperNode authentication"), "does not accept this node's key or signature"),
        (refusal(404, 0, "Not Found"), "it has no route register-node"),
        (refusal(412, 2001, "SuperNode authentication is enabled."), "expected --node-key FILE"),
    ],
)
def test_what_a_superlink_refuses_for_good_ends_the_device(bench, fault, problem) -> None:
    bench.link.faults["register-node"] = [fault]
    with pytest.raises(RunError, match=problem):
        bench.node().run()


def test_a_key_that_is_not_registered_is_tried_until_the_time_is_over(bench) -> None:
    bench.link.needs_keys, bench.registers = True, False
    with pytest.raises(RunError, match="expected this node's key to be registered there, and no other process"):
        bench.node().run()
    assert bench.link.calls == ["activate-node"] * 6


def test_a_superlink_that_has_forgotten_the_node_learns_of_it_again(bench) -> None:
    bench.link.ask(b"one")

    def forget() -> None:
        bench.echo.before = lambda: None
        bench.link.nodes.clear()
        bench.link.ask(b"end")

    bench.echo.before = forget
    assert bench.node().run() == "all rounds are done"
    assert bench.link.calls.count("register-node") == 2


def test_the_message_of_a_run_that_is_over_is_dropped(bench) -> None:
    bench.link.ask(b"one")
    bench.link.ask(b"end")
    bench.link.faults["get-run"] = [refusal(403, 2007, "The current run status does not allow this.")]
    assert bench.node().run() == "all rounds are done"
    assert bench.echo.heard == [b"end"]
    assert any(f"run {RUN}: " in line and "the message is dropped" in line for line in bench.said)


def test_a_message_of_another_app_is_answered_with_an_error(bench) -> None:
    other, end = bench.link.ask(b"one", record="weights"), bench.link.ask(b"end")
    assert bench.node().run() == "all rounds are done"
    error = bench.link.replies[other]["error"]
    assert error["code"] == 2
    assert error["reason"].startswith("a message without the record 'edgefl'")
    assert message_objects.pack_error({}, 2, "").message_id != other
    assert bench.link.answered(end) == b"dne"


def test_it_sends_heartbeats_while_it_answers(bench, monkeypatch) -> None:
    monkeypatch.setattr("edgefl.deployment.supernode.supernode.HEARTBEAT_S", 0.01)
    bench.link.ask(b"end")
    beaten = []
    bench.echo.before = lambda: beaten.append(bench.link.has_beaten.wait(30))
    assert bench.node().run() == "all rounds are done"
    assert beaten == [True]


def test_a_full_disk_is_waited_for(bench, monkeypatch) -> None:
    """The disk is full at each file that it writes."""
    one, _ = bench.link.ask(b"one"), bench.link.ask(b"end")
    write, full = mailboxes.write_atomically, Counter()

    def write_or_not(path: Path, *rest: object) -> None:
        full[path.name] += 1
        if full[path.name] <= 2 and path.name != "node.key":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(mailboxes, "write_atomically", write_or_not)
    assert bench.node().run() == "all rounds are done"
    assert bench.link.answered(one) == b"eno"
    assert bench.echo.heard == [b"one", b"end"]
    assert {"node.json", "message.json", "reply.json", "reply.bytes"} < set(full)
    assert f"{bench.path}: No space left on device; trying again until there is room" in bench.said


def test_a_disk_that_cannot_be_written_ends_the_device(bench, monkeypatch) -> None:
    bench.link.ask(b"one")
    broken = OSError(errno.EROFS, "Read-only file system")
    monkeypatch.setattr(Mailbox, "keep_message", lambda *_: (_ for _ in ()).throw(broken))
    with pytest.raises(RunError, match=r"cannot be written .*Read-only file system"):
        bench.node().run()


def test_over_tls_the_servers_certificate_is_checked(tmp_path) -> None:
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
        make_certificates(tmp_path / name, ["127.0.0.1"], 0, datetime.now(timezone.utc), 1)
    served = server_context(tmp_path / "own" / "server.pem", tls_key_file(tmp_path / "own" / "server"))
    with superlink(served) as link:
        bench = Bench(link, tmp_path / "box", give_up_s=100.0)
        bench.context = device_context(tmp_path / "other" / "ca.pem")
        with pytest.raises(RunError, match="the server's certificate is not accepted"):
            bench.node().run()
        assert bench.clock_s == TLS_FAULTS - 1
        bench.context = device_context(tmp_path / "own" / "ca.pem")
        link.ask(b"end")
        assert bench.node().run() == "all rounds are done"


@pytest.mark.parametrize("name", ["node.json", "message.json", "reply.json", "reply.bytes"])
def test_a_damaged_file_counts_as_lost(bench, monkeypatch, name) -> None:
    bench.link.ask(b"one")
    monkeypatch.setattr(Mailbox, "drop", lambda self: (_ for _ in ()).throw(Killed))
    monkeypatch.setattr(Mailbox, "node", lambda *_: 1000)
    with pytest.raises(Killed):
        bench.node().run()
    monkeypatch.undo()
    file = bench.path / name
    file.write_bytes(b"?" + file.read_bytes()[1:])
    bench.link.ask(b"end")
    if name == "node.json":
        bench.link.online.clear()
    assert bench.node().run() == "all rounds are done"
    assert any(f"{file} is damaged" in line and "the reply counts as lost" in line for line in bench.said) != (
        name == "message.json"
    )


@pytest.mark.parametrize(
    "text", ["", "localhost:80", "ftp://a:1", "http://", "http://a:0", "http://a:99999", "http://u@a:1", "http://a/b"]
)
def test_urls_that_are_none(text) -> None:
    with pytest.raises(RequestError, match="expected http://HOST:PORT or https://HOST:PORT"):
        Url.parse(text)


def test_urls() -> None:
    assert str(Url.parse("https://a.example")) == "https://a.example:443"
    assert str(Url.parse("http://[::1]:8000/")) == "http://[::1]:8000"
