"""A device as a node of a Flower federation: its turns, from joining to the end of its run.

    join    checks the SuperLink's version. The node goes online as before, or is registered and activated
    pull    gets a message and keeps it on the disk, because a SuperLink gives each message once
    answer  gets the objects of the message and their envelope, and keeps the answer of device/relayed_device.py
    push    sends the reply and its objects, until the SuperLink has them. Then the message is no longer in hand

If the process is killed in one of them, the next process goes on there. A message that was given and not kept is lost
without a trace. So a node that may have lost one goes offline for AWAY_S seconds, and its ServerApp repeats what was
not answered. A thread sends heartbeats meanwhile. After a failure the node begins again with `join`
(device/reconnection.py).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from edgefl.deployment.device.device_environment import DeviceEnvironment, durably
from edgefl.deployment.device.reconnection import Attempts
from edgefl.deployment.supernode import message_objects
from edgefl.deployment.supernode.fleet_api import (
    KEY_TAKEN,
    NODE_FAILED,
    REGISTRATION_DISABLED,
    RUN_OVER,
    RefusedError,
    SuperLinkClient,
)
from edgefl.deployment.supernode.message_store import Mailbox, PendingReply, ReceivedMessage
from edgefl.errors import CodecError, DamagedFrameError, RemoteProtocolError, RunError
from edgefl.protocol.wire.envelope import ARRAY, DTYPE, RECORD, STYPE
from edgefl.protocol.wire.printable import printable

HEARTBEAT_S = 30.0  # seconds. A node counts as offline after twice this time without a heartbeat
BEAT_AT = 0.8  # share of HEARTBEAT_S after which the next heartbeat goes
FIRST_POLL_S, LONGEST_POLL_S = 0.1, 2.0  # seconds between questions for a message
AWAY_S = 5.0  # seconds. The server_app of edgefl looks every 2 s which nodes are there
OBJECT_S = 60.0  # seconds for an object to arrive at the SuperLink
APP_FAILED = 2  # flwr's code: the client app raised an error
LONGEST_REASON = 1000  # characters


class EnvelopeHandler(Protocol):
    """The handler that answers envelopes: a RelayClient of device/relayed_device.py."""

    finished: str | None

    @property
    def limit(self) -> int: ...

    def answer(self, data: bytes) -> bytes: ...


def polls(for_s: float = math.inf) -> Iterator[float]:
    """Yield the seconds to wait after each question, which double up to a limit, until they add up to `for_s`."""
    wait_s, passed_s = FIRST_POLL_S, 0.0
    while passed_s < for_s:
        yield wait_s
        passed_s += wait_s
        wait_s = min(2 * wait_s, LONGEST_POLL_S)


class FlowerNode:
    """One device in one federation.

    fleet      calls to the SuperLink
    beats      calls over a connection of their own, for the heartbeats
    mailbox    messages that are kept on the disk
    envelopes  handler that answers envelopes
    world      functions through which the device reaches its user and clocks
    registers  whether the node registers its key itself, rather than an owner of the federation
    now        time of this machine, in seconds since 1970
    rest       waits some seconds
    give_up_s  seconds without progress after which it no longer tries, as for DeviceSocket
    """

    def __init__(
        self,
        fleet: SuperLinkClient,
        beats: SuperLinkClient,
        mailbox: Mailbox,
        envelopes: EnvelopeHandler,
        world: DeviceEnvironment,
        now: Callable[[], float],
        rest: Callable[[float], None],
        registers: bool,
        give_up_s: float = math.inf,
    ) -> None:
        self._fleet, self._beats, self._mailbox, self._envelopes = fleet, beats, mailbox, envelopes
        self._world, self._now, self._rest, self._registers = world, now, rest, registers
        self._attempts = Attempts(str(fleet.url), world, give_up_s)
        self._node = 0
        self._told: set[int] = set()  # runs whose app the user knows
        self._has_warned = False  # whether the user knows that the version was not tried
        self._is_in_doubt = True  # whether a message may have been given and lost

    def run(self) -> str:
        """Take part until the server of its run says that the run is over, and return the reason.

        Raises  EdgeflError when another attempt would not help, or when no attempt has succeeded for `give_up_s`
                seconds.
        """
        while True:
            try:
                self._join()
                with self._heartbeats():
                    return self._turns()
            except (OSError, DamagedFrameError) as error:
                self._fleet.close()
                self._attempts.failed(error)

    # Joining.

    def _join(self) -> None:
        """Go online, as the same node as before if the SuperLink still knows it."""
        words = self._fleet.check_version()
        if words is not None and not self._has_warned:
            self._world.say(words)
            self._has_warned = True
        known = self._mailbox.node(str(self._fleet.url), self._fleet.public_key)
        if known is not None:
            self._step_away(known)
        if known is not None and self._is_known(known):
            found = known
        else:
            found = self._activated()
            durably(
                lambda: self._mailbox.keep_node(str(self._fleet.url), self._fleet.public_key, found),
                self._mailbox.path,
                self._world,
            )
        if found != self._node:
            self._world.say(f"{self._fleet.url}: connected as node {found}")
        self._node, self._is_in_doubt = found, False

    def _step_away(self, node: int) -> None:
        """Go offline for a while, so that the ServerApp sees that unanswered messages may be lost."""
        is_in_hand = self._mailbox.reply() is not None or self._mailbox.message() is not None
        if not self._is_in_doubt or is_in_hand:
            return
        try:
            self._fleet.deactivate(node)
        except RefusedError:
            return  # the node was offline, or is forgotten
        self._rest(AWAY_S)

    def _is_known(self, node: int) -> bool:
        """Ask by a heartbeat, which also brings the node online. To activate it, it would first have to be offline."""
        try:
            return self._fleet.beat(node, HEARTBEAT_S)
        except RefusedError as error:
            if error.status != 401:  # 401 is the answer about a forgotten node
                raise
            return False

    def _activated(self) -> int:
        if self._registers:
            try:
                self._fleet.register()
            except RefusedError as error:
                if error.code == REGISTRATION_DISABLED:
                    raise RunError(f"{error}; expected --node-key FILE of a key that is registered there") from None
                if error.code != KEY_TAKEN:
                    raise
        try:
            return self._fleet.activate(HEARTBEAT_S)
        except RefusedError as error:
            if error.code != NODE_FAILED:
                raise
            raise ConnectionError(
                f"{error}; expected this node's key to be registered there, and no other process online with it"
            ) from None

    @contextmanager
    def _heartbeats(self) -> Iterator[None]:
        over, node = threading.Event(), self._node

        def beat() -> None:
            while not over.wait(BEAT_AT * HEARTBEAT_S):
                try:
                    self._beats.beat(node, HEARTBEAT_S)
                except (OSError, RunError):
                    continue  # the next call over the other connection finds the cause
            self._beats.close()

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    # Turns.

    def _turns(self) -> str:
        while True:
            for wait_s in polls():
                finished, was_there = self._turn()
                self._attempts.progressed()
                if finished is not None:
                    self._leave()
                    return finished
                if was_there:
                    break
                self._rest(wait_s)

    def _turn(self) -> tuple[str | None, bool]:
        """Take one turn. Return why the run is over, or None, and whether there was anything to do."""
        reply = self._mailbox.reply()
        is_again = reply is not None
        if reply is None:
            message = self._mailbox.message() or self._pulled()
            if message is None:
                return None, False
            try:
                reply = self._answer(message)
            except RefusedError as error:
                self._dropped(message.metadata["run_id"], error)
                return None, True
        try:
            self._push(reply, is_again)
        except RefusedError as error:
            self._dropped(reply.metadata["run_id"], error)
            return reply.finished, True
        self._mailbox.drop()
        return reply.finished, True

    def _pulled(self) -> ReceivedMessage | None:
        self._is_in_doubt = True
        found = self._fleet.pull(self._node)
        if found is None:
            self._is_in_doubt = False
            return None
        message = ReceivedMessage(*found)
        durably(lambda: self._mailbox.keep_message(message), self._mailbox.path, self._world)
        self._is_in_doubt = False
        return message

    def _answer(self, message: ReceivedMessage) -> PendingReply:
        """Return the reply, which is kept. Raises RefusedError if the message cannot be fetched any more."""
        run, begun = message.metadata["run_id"], self._world.clock()
        self._tell(run)
        envelope, why = b"", ""
        try:
            found = message_objects.array_of(
                message.tree,
                lambda name: self._object(run, name),
                RECORD,
                ARRAY,
                self._envelopes.limit,
            )
            if found.stype != STYPE:
                raise CodecError(
                    f"an envelope of type {found.stype!r:.80}; expected {STYPE}, as this version of edgefl reads it"
                )
            envelope = durably(lambda: self._envelopes.answer(found.data), self._mailbox.path, self._world)
        except DamagedFrameError:
            raise
        except (CodecError, RemoteProtocolError) as error:
            why = printable(str(error))[:LONGEST_REASON]
            self._world.say(f"run {run}: a message that is not for this device ({why})")
        reply = PendingReply(
            self._metadata(message), envelope, message.tree["object_id"], self._world.clock() - begun, why,
            None if why else self._envelopes.finished,
        )  # fmt: skip
        durably(lambda: self._mailbox.keep_reply(reply), self._mailbox.path, self._world)
        return reply

    def _object(self, run: int, name: str) -> bytes:
        """Return an object of the message in hand, once it has arrived."""
        for wait_s in polls(OBJECT_S):
            found = self._fleet.get_object(self._node, run, name)
            if found is not None:
                return found
            self._rest(wait_s)
        raise ConnectionError(
            f"object {name[:16]}... has not arrived at the SuperLink; expected it within {OBJECT_S:g} s"
        )

    def _metadata(self, message: ReceivedMessage) -> dict[str, object]:
        """Return the metadata of the reply to a message. The reply lives no longer than the message."""
        asked, now = message.metadata, self._now()
        return {
            "run_id": asked["run_id"],
            "src_node_id": self._node,
            "dst_node_id": asked["src_node_id"],
            "reply_to_message_id": asked["message_id"],
            "group_id": asked["group_id"],
            "ttl": asked["created_at"] + asked["ttl"] - now,
            "message_type": asked["message_type"],
            "created_at": now,
            "src_task_id": asked["dst_task_id"],
            "dst_task_id": asked["src_task_id"],
        }

    def _push(self, reply: PendingReply, is_again: bool) -> None:
        """Deliver a reply. A second delivery changes nothing. `is_again` says that it may have been sent in part."""
        run = reply.metadata["run_id"]
        if reply.error:
            packed = message_objects.pack_error(reply.metadata, APP_FAILED, reply.error)
        else:
            array = message_objects.Array(DTYPE, (len(reply.letter),), STYPE, reply.letter)
            packed = message_objects.pack(reply.metadata, RECORD, ARRAY, array)
        self._fleet.confirm(self._node, run, reply.confirms)
        message: dict[str, object] = {"metadata": {**reply.metadata, "message_id": packed.message_id}}
        message |= {"error": {"code": APP_FAILED, "reason": reply.error}} if reply.error else {"content": {}}
        if is_again:  # if the reply was announced and taken, only its old session takes objects
            for name, data in packed.objects.items():
                self._fleet.put_object(self._node, run, "", name, data)
        wanted, session = self._fleet.push(self._node, message, packed.tree, reply.seconds)
        for name, data in packed.objects.items():
            if name in wanted and not self._fleet.put_object(self._node, run, session, name, data):
                raise ConnectionError(f"object {name[:16]}... is not stored; expected an open session")

    def _dropped(self, run: int, error: RefusedError) -> None:
        """Drop the message in hand, which cannot be fetched or answered. Raises RefusedError if the run goes on."""
        if error.status == 401:  # the SuperLink has forgotten this node
            raise ConnectionError(str(error)) from None
        if error.code != RUN_OVER and error.status != 200:
            raise error
        self._world.say(f"run {run}: {error}; the message is dropped")
        self._mailbox.drop()

    def _tell(self, run: int) -> None:
        """Tell the user once to which app a run belongs. Raises RefusedError if the node has no part in the run."""
        if run not in self._told:
            about = self._fleet.run(self._node, run)
            name = printable(f"{about.get('fab_id', '')} {about.get('fab_version', '')}").strip()
            self._world.say(f"run {run} of {name or 'an app without a name'}")
            self._told.add(run)

    def _leave(self) -> None:
        """Go offline at once rather than after a minute. The SuperLink may be gone already."""
        with suppress(OSError, RunError):
            self._fleet.deactivate(self._node)
        self._fleet.close()
