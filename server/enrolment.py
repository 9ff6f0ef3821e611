"""The devices that join: which client each one is, whether it may take part, and what must be durable before that.

round_sequence.py decides what an admitted device is sent, and device_holdings.py judges what it holds. The module has
no I/O.
"""

from __future__ import annotations

from collections.abc import Callable

from edgefl.server.action_queue import ActionQueue
from edgefl.server.client_links import ClientConnection, Clients
from edgefl.server.client_tags import ClientTags
from edgefl.server.device_holdings import DeviceStateTracker, check_secret
from edgefl.server.events import (
    Claim,
    ClientStateLost,
    Close,
    DeviceJoined,
    DeviceReplaced,
    Enrolment,
    ProvenanceRecorded,
    Say,
)
from edgefl.server.refusal_register import RefusalRegister


class Arrivals:
    """The devices that are joining.

    clients, holdings  clients and states of the run, which are told of what comes in
    method             name of the method, for messages to people
    queue              takes the actions of the server
    admit              takes a connection that may be sent messages from now on, and the time
    plan_again         takes a client whose plans have changed, as it has lost what it kept
    refusals           takes clients that are turned away for good
    tags               takes the provenance of each device
    too_small          takes a client and its number of training samples, and returns why it cannot train with so few,
                       or ""
    """

    def __init__(
        self,
        clients: Clients,
        holdings: DeviceStateTracker,
        method: str,
        queue: ActionQueue,
        admit: Callable[[ClientConnection, float], None],
        plan_again: Callable[[int], None],
        refusals: RefusalRegister,
        tags: ClientTags,
        too_small: Callable[[int, int], str] = lambda client, examples: "",
    ) -> None:
        self._clients, self._holdings, self._method = clients, holdings, method
        self._queue, self._admit, self._plan_again = queue, admit, plan_again
        self._refusals, self._tags, self._too_small = refusals, tags, too_small
        self._beginning: dict[int, bytes] = {}  # lives by client that are not durable yet

    def join(self, event: DeviceJoined, now: float) -> None:
        """Handle a device that asks to take part: turn it away in words, or admit it, now or once that is durable."""
        client = self._clients.find(event.client, event.secret)
        if client in self._refusals.removed:
            self._queue.add(Close(event.link, self._refusals.removed[client]))
            return
        problem = self._nobody(event) if client is None else self._wrong(client, event)
        if client is None or problem:
            self._queue.add(Close(event.link, problem or ""))
            return
        if small := self._small(event, client):
            self._queue.add(Close(event.link, f"client {client} declares {small}"))
            if event.client is not None:
                self._refusals.add(client, f"it declares {small}")
            return
        link = self._connect(event, client)
        if client in self._clients.capacities:
            self._return(link, event, now)
        elif self._clients.begin_enrolment(client, event.secret):
            self._holdings.lives[client] = link.life
            self._queue.save(Enrolment(client, event.capacity, event.secret, link.life, event.examples))
        self._tags.trains_with(client, event.provenance)
        if event.provenance and self._clients.add_provenance(client, event.provenance):
            self._queue.save(ProvenanceRecorded(client, event.provenance))

    def enrolled(self, record: Enrolment, now: float) -> None:
        """Go on after an enrolment is durable, and the clients have been told."""
        link = self._clients.link_of(record.client)
        if link is not None and link.life == record.life:
            self._admit(link, now)
        elif link is not None:
            self._begin(link)

    def begun(self, record: DeviceReplaced, now: float) -> None:
        """Go on after it is durable that another process of a client's device has begun."""
        if self._beginning.get(record.client) != record.life:
            return  # yet another process has begun
        del self._beginning[record.client]
        link = self._clients.link_of(record.client)
        if link is not None and not link.admitted and link.life == record.life:
            self._admit(link, now)

    def _nobody(self, event: DeviceJoined) -> str:
        """Return why there is no client for this device."""
        if event.client is None:
            return f"no id is free; all {self._clients.count} clients of this run have enrolled"
        return f"client {event.client}; expected an id below {self._clients.count}"

    def _wrong(self, client: int, event: DeviceJoined) -> str | None:
        """Return why a device may not take part as this client, in one sentence, or None."""
        if event.claim is None:
            return None
        known = self._clients.secrets.get(client, b"") if event.claim.is_new else b""
        problem = check_secret(client, known, event.secret, self._holdings.accepting)
        return problem or self._holdings.problem(client, event.claim)

    def _small(self, event: DeviceJoined, client: int) -> str:
        """Return why a device that enrols has too few samples, or "" if it has enough or does not say."""
        if client in self._clients.capacities or event.examples is None:
            return ""
        return self._too_small(client, event.examples)

    def _connect(self, event: DeviceJoined, client: int) -> ClientConnection:
        """Return the client's new connection, after closing an older one."""
        life = event.claim.life if event.claim else b""
        link = ClientConnection(event.link, client, event.pending, life, declares=event.declares, key=event.key)
        older = self._clients.connect(link)
        if older is not None:
            copy = ", from another process" if older.life != link.life else ""
            self._queue.add(Close(older.number, f"client {client} has connected again{copy}"))
        return link

    def _return(self, link: ClientConnection, event: DeviceJoined, now: float) -> None:
        """Admit a client that has enrolled before, once the news about it are durable."""
        loss = None if event.claim is None else self._accept(link.client, event.claim)
        is_new = loss is not None or link.life != self._holdings.lives.get(link.client, b"")
        if is_new or (event.secret and event.secret != self._clients.secrets.get(link.client)):
            self._begin(link, event.secret)
        elif link.client not in self._beginning:
            self._admit(link, now)

    def _begin(self, link: ClientConnection, secret: bytes = b"") -> None:
        """Record that another process of the client's device is there. It is admitted once that is durable."""
        self._holdings.lives[link.client] = self._beginning[link.client] = link.life
        self._clients.bind(link.client, secret)
        self._queue.save(DeviceReplaced(link.client, link.life, secret))

    def _accept(self, client: int, claim: Claim) -> ClientStateLost | None:
        """Let in a device as it is. Return its loss, if it has lost a state."""
        has_changed, due = self._holdings.has_changed(client, claim), self._holdings.due(client)
        loss = self._holdings.lost(client, claim)
        if loss is not None:
            self._queue.save(loss)
            self._plan_again(client)
            what = f"goes on from what it kept after round {loss.kept}" if loss.kept else "begins again with nothing"
            self._queue.add(Say(f"client {client} has lost what it kept after round {due}, and {what}: accepted"))
        elif has_changed:
            keeps = f"clients of {self._method} keep no state between rounds"
            self._queue.add(Say(f"client {client} has lost its state of round {due}: accepted, as {keeps}"))
        return loss
