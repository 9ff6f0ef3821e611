"""The events of the coordinator, its actions and its durable records: frozen values without behaviour.

A link is the number of one connection, never used twice in a process. Times are seconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Literal

from edgefl.methods.task import State
from edgefl.methods.throughput import Throughput
from edgefl.protocol.wire.attendance_messages import DeviceNotice
from edgefl.protocol.wire.messages import Evaluated, GroupReady, GroupReply, Message, ThroughputReport, Trained
from edgefl.server.member_records import (
    AnswerOperator,
    ClientRemoved,
    CommandGiven,
    OperatorCommand,
    TagsRecorded,
)

Outcome = Literal["accepted", "late", "refused", "masked", "not-opened"]

# Records, which the store saves. Each comes back to the coordinator in a RecordSaved event once it is durable.


@dataclass(frozen=True)
class Enrolment:
    """The enrolment of a client. Its declarations never change afterwards.

    capacity  largest share of the neurons that it trains
    secret    secret that its device proves from then on, in a run without keys
    life      life of its device's directory (device/identity.py)
    examples  number of its training samples. None: it does not say
    """

    client: int
    capacity: float
    secret: bytes = b""
    life: bytes = b""
    examples: int | None = None


@dataclass(frozen=True)
class DeviceReplaced:
    """A new process uses the directory of the client's device. `secret` is a new secret, where that was accepted."""

    client: int
    life: bytes
    secret: bytes = b""


@dataclass(frozen=True)
class ClientStateLost:
    """A loss that somebody has accepted: the client's device has lost what it kept after round `after`. It goes on from
    what it kept after round `kept`, or from nothing if that is 0.
    """

    client: int
    after: int
    kept: int


@dataclass(frozen=True)
class ProvenanceRecorded:
    """The version and the kernels with which a client's device trains (rounds/provenance.py)."""

    client: int
    provenance: str


@dataclass(frozen=True)
class ThroughputRecorded:
    """The throughput that a client's device has measured. Plans follow it from the round `since` on."""

    client: int
    since: int
    throughput: Throughput


@dataclass(frozen=True)
class DeviceRefusal:
    """The reason why a client's device takes no part until it comes back. An empty reason: it has come back."""

    client: int
    reason: str


@dataclass(frozen=True)
class RoundOpened:
    """The beginning of a round with these clients.

    deadline_s  seconds after which it will be closed. None: it has no deadline
    candidates  clients among which they were chosen. None: all clients of the run
    """

    round: int
    clients: tuple[int, ...]
    deadline_s: float | None = None
    candidates: AbstractSet[int] | None = None


@dataclass(frozen=True)
class ReplyJudged:
    """A reply with its verdict. `message` is kept until the round is closed, and not at all if the reply is late. With
    secure aggregation the message has no values.

    closes  round that takes the reply in, which may come after its own in an asynchronous run. 0: its own round
    """

    round: int
    client: int
    outcome: Outcome
    reason: str
    message: Trained
    closes: int = 0


@dataclass(frozen=True)
class GroupEvent:
    """An event of a group of the open round, in a run with secure aggregation. It is kept until the round is closed.

    place  number of the event in the round, from 0 on
    draw   draw of neurons that the group's clients share
    kind   'formed' with the group's terms, 'left-out' for a group that is too small, 'step' with a client's message,
           'closed' for a step, or 'failed' with the reason why the group is not opened
    """

    round: int
    place: int
    draw: str
    kind: Literal["formed", "left-out", "step", "closed", "failed"]
    client: int = -1
    data: bytes = b""


@dataclass(frozen=True)
class RoundClosed:
    """The end of a round.

    state       state of the method after the round
    log_record  metrics of the round, as simulate writes them, without an evaluation
    done        whether no round follows
    """

    round: int
    state: State
    log_record: dict[str, Any]
    done: bool


@dataclass(frozen=True)
class RoundEvaluated:
    """The evaluation after a round, and the entry about its adaptations, as in the metrics of simulate."""

    round: int
    bundle: dict[str, Any]
    adaptation: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Traffic:
    """The bytes that went through the server's sockets since it started, up to the end of the round, for the record.

    Messages of the next round do not count. Header bytes are all bytes that are neither payload, selection nor model:
    frame headers and the other fields of messages.
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
    | ClientRemoved
    | TagsRecorded
    | OperatorCommand
    | RoundOpened
    | ReplyJudged
    | GroupEvent
    | RoundClosed
    | RoundEvaluated
    | Traffic
)

DeviceMessage = Trained | Evaluated | ThroughputReport | GroupReady | GroupReply | DeviceNotice

# Events, which happen to the coordinator.


@dataclass(frozen=True)
class Claim:
    """The state that a device says it holds.

    round    last round that was acknowledged and counts
    pending  round of a reply that it has not seen acknowledged, 0 if there is no such reply
    life, before  present and earlier life of its directory (device/identity.py)
    is_new   whether it has not enrolled, or does not know that it has
    """

    round: int
    pending: int
    life: bytes
    before: bytes
    is_new: bool


@dataclass(frozen=True)
class DeviceJoined:
    """The event that a device has proven who it is, as far as it can. `client` None asks for a free id.

    capacity    largest share of the neurons that it is willing to train
    pending     round of a reply that it has not seen acknowledged, 0 if there is no such reply
    secret      secret of a device that enrols in a run without keys. A known secret gets the same id again
    provenance  version and kernels that train there. Empty: it does not say
    claim       state that it says it holds. None: the state is not checked
    examples    number of its training samples. None: it does not say
    declares    whether it tells how fast it is before it trains, in a run that plans by speed
    key         key that it has proven. None: the run has no keys
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
    key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class DeviceLeft:
    """The event that the connection is gone."""

    link: int


@dataclass(frozen=True)
class DeviceRefused:
    """The event that the device on this link refuses the server for good. Its process ends."""

    link: int
    reason: str


@dataclass(frozen=True)
class KeyChanged:
    """The event that keys of a client were withdrawn or replaced while the server runs.

    valid  keys that the client has now. A device that has proven one of them stays connected. Empty: withdrawn
    """

    client: int
    reason: str
    valid: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class MessageReceived:
    """The event that a message of an admitted device has come."""

    link: int
    message: DeviceMessage


@dataclass(frozen=True)
class RecordSaved:
    """The event that the record is durable."""

    record: Record


@dataclass(frozen=True)
class Tick:
    """The event that time has passed. Only the argument `now` of the call matters."""


Event = DeviceJoined | DeviceLeft | DeviceRefused | KeyChanged | CommandGiven | MessageReceived | RecordSaved | Tick

# Actions, which the coordinator asks for, and which are carried out in order.


@dataclass(frozen=True)
class Admit:
    """Welcome the device on this link, which is durably enrolled as this client. Nothing is sent to it before."""

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
    """Show this line to people."""

    line: str


@dataclass(frozen=True)
class Save:
    """Make the record durable, then report RecordSaved."""

    record: Record


@dataclass(frozen=True)
class WakeAt:
    """Call with a Tick at this time, which replaces an earlier time. If the time is None, do not call."""

    time: float | None


@dataclass(frozen=True)
class RunDrained:
    """The end of the server's process at the operator's wish. No round is open, and the run is not over."""


@dataclass(frozen=True)
class RunCompleted:
    """The end of the run, of which every connected device has been told."""


Action = Admit | Send | Close | Say | Save | WakeAt | AnswerOperator | RunDrained | RunCompleted
