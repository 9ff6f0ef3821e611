"""The events of the coordinator, its actions and its durable records: frozen values without behaviour.

A link is the number of one connection, never used twice in a process. Times are seconds of one monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from edgefl.methods.task import State
from edgefl.methods.throughput import Throughput
from edgefl.protocol.wire.messages import Evaluated, Message, ThroughputReport, Trained

Outcome = Literal["accepted", "late", "refused"]

# Records: what the store saves. Each comes back to the coordinator in a RecordSaved event once it is durable.


@dataclass(frozen=True)
class Enrolment:
    """A client's first appearance; what it declares never changes afterwards.

    secret    that its device proves from then on, in a run without keys
    life      of its device's directory (device/identity.py)
    examples  that it has for training; None: it does not say
    """

    client: int
    capacity: float
    secret: bytes = b""
    life: bytes = b""
    examples: int | None = None


@dataclass(frozen=True)
class DeviceReplaced:
    """Another process uses the directory of the client's device. `secret`: a new one, where that was accepted."""

    client: int
    life: bytes
    secret: bytes = b""


@dataclass(frozen=True)
class ClientStateLost:
    """The client's device has lost what it kept after round `after`; it goes on from what it kept after `kept`, 0 for
    nothing. Somebody has accepted that.
    """

    client: int
    after: int
    kept: int


@dataclass(frozen=True)
class ProvenanceRecorded:
    """A client's device trains with this version and these kernels (rounds/provenance.py)."""

    client: int
    provenance: str


@dataclass(frozen=True)
class ThroughputRecorded:
    """The throughput that a client's device has measured; plans follow it from the round `since` on."""

    client: int
    since: int
    throughput: Throughput


@dataclass(frozen=True)
class DeviceRefusal:
    """A client's device takes no part until it comes back, for this reason. An empty reason: it has come back."""

    client: int
    reason: str


@dataclass(frozen=True)
class RoundOpened:
    """A round has begun with these clients.

    deadline_s  after which it will be closed; None: it has no deadline
    candidates  clients that they were chosen among; None: all of the run
    """

    round: int
    clients: tuple[int, ...]
    deadline_s: float | None = None
    candidates: frozenset[int] | None = None


@dataclass(frozen=True)
class ReplyJudged:
    """A reply and what became of it. `message` is kept until the round is closed; not at all if it is late."""

    round: int
    client: int
    outcome: Outcome
    reason: str
    message: Trained


@dataclass(frozen=True)
class RoundClosed:
    """A round is over: the method's state after it and its line of metrics (as simulate writes it, no evaluation)."""

    round: int
    state: State
    log_record: dict[str, Any]
    done: bool


@dataclass(frozen=True)
class RoundEvaluated:
    """The evaluation after a round, as in simulate's metrics."""

    round: int
    bundle: dict[str, Any]


@dataclass(frozen=True)
class Traffic:
    """Bytes that went through the server's sockets since it started, up to the end of the round. For the record only.

    The messages of the next round are not in it. Headers are what is neither payload, selection nor model: frame
    headers and the messages' other fields.
    """

    round: int
    sent: int = 0
    received: int = 0
    sent_headers: int = 0
    received_headers: int = 0


Record = (
    Enrolment
    | DeviceReplaced
    | ClientStateLost
    | ProvenanceRecorded
    | ThroughputRecorded
    | DeviceRefusal
    | RoundOpened
    | ReplyJudged
    | RoundClosed
    | RoundEvaluated
    | Traffic
)

# Events: what happens to the coordinator.


@dataclass(frozen=True)
class Claim:
    """The state that a device says it holds.

    round    the last one that was acknowledged and counts
    pending  the round of a reply that it has not seen acknowledged, 0 if there is none
    life, before  of its directory (device/identity.py)
    is_new   it has not enrolled, or does not know that it has
    """

    round: int
    pending: int
    life: bytes
    before: bytes
    is_new: bool


@dataclass(frozen=True)
class DeviceJoined:
    """A device has proven who it is, as far as it can. `client` None asks for a free id.

    pending  the round of a reply that it has not seen acknowledged, 0 if there is none
    secret   of one that enrols in a run without keys: if it has done so before, it gets the same id
    provenance    what trains there; empty if it does not say
    claim    what it holds; None: that is not looked at
    examples for training; None if it does not say
    declares it says how fast it is before it trains, in a run that plans by it
    """

    link: int
    client: int | None
    capacity: float
    pending: int
    secret: bytes = b""
    provenance: str = ""
    claim: Claim | None = None
    examples: int | None = None
    declares: bool = False


@dataclass(frozen=True)
class DeviceLeft:
    """The connection is gone."""

    link: int


@dataclass(frozen=True)
class DeviceRefused:
    """The device on this link refuses the server for good: its process ends."""

    link: int
    reason: str


@dataclass(frozen=True)
class MessageReceived:
    """A message of an admitted device."""

    link: int
    message: Trained | Evaluated | ThroughputReport


@dataclass(frozen=True)
class RecordSaved:
    """The record is durable."""

    record: Record


@dataclass(frozen=True)
class Tick:
    """Time has passed; only the `now` of the call matters."""


Event = DeviceJoined | DeviceLeft | DeviceRefused | MessageReceived | RecordSaved | Tick

# Actions: what the coordinator asks for, carried out in order.


@dataclass(frozen=True)
class Admit:
    """The device on this link is enrolled, durably, as this client: welcome it. Only then is anything sent to it."""

    link: int
    client: int


@dataclass(frozen=True)
class Send:
    link: int
    message: Message


@dataclass(frozen=True)
class Close:
    """Refuse the connection for this reason."""

    link: int
    reason: str


@dataclass(frozen=True)
class Say:
    """Tell people."""

    line: str


@dataclass(frozen=True)
class Save:
    """Make the record durable, then report RecordSaved."""

    record: Record


@dataclass(frozen=True)
class WakeAt:
    """Call with a Tick at this time; replaces an earlier wish. None: no wish."""

    time: float | None


@dataclass(frozen=True)
class RunCompleted:
    """The run is over and every device that is connected has been told."""


Action = Admit | Send | Close | Say | Save | WakeAt | RunCompleted
