"""The messages of a run with secure aggregation. protocol/secure/ has the steps that they carry.

messages.py has all other messages.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from edgefl.protocol.wire.message_fields import Count, Message, Round, Text

LARGEST_ROSTER = 1 << 22  # bytes of a signed roster
ROSTER_BYTES = 1 << 15  # bytes of a roster in one message

Step = Annotated[int, Meta(ge=1, le=5)]


class RosterPart(Message, frozen=True):
    """Bytes of a roster that is too large for SecureOffer. The parts come before SecureOffer, one after another.

    size    bytes of the whole roster, signed by its operator
    offset  first byte of this part
    """

    size: Annotated[int, Meta(ge=1, le=LARGEST_ROSTER)]
    offset: Annotated[int, Meta(ge=0, lt=LARGEST_ROSTER)]
    data: Annotated[bytes, Meta(min_length=1, max_length=ROSTER_BYTES)]


class SecureOffer(Message, frozen=True):
    """The server's word before Welcome that the run sums replies by secure aggregation (protocol/secure/).

    roster     roster of the federation, signed by its operator. Empty after parts of the roster. Empty without parts:
               the run has no operator, and the server hands on the identities of a group's clients
               (protocol/secure/handed_identities.py)
    least      least number of clients whose sum is opened
    colluders  number of clients of a group who may tell the server all that they know
    """

    roster: bytes
    least: Count
    colluders: Count


class GroupReady(Message, frozen=True):
    """The device's word that it has trained and keeps its values, in a run with secure aggregation.

    It has fields of Trained, and neither values nor figures of this client alone.
    identity  public half of the device's identity, in a run without an operator. Empty in other runs
    """

    round: Round
    selection_hash: Annotated[bytes, Meta(max_length=8)]
    examples: Count
    steps: Count
    seconds: float
    identity: Annotated[bytes, Meta(max_length=32)]


class GroupRequest(Message, frozen=True):
    """The server's request to take a step of secure aggregation in a group.

    step  1 to 5, as docs/secure-aggregation.md counts the steps of a round
    data  message of the step (secure/group_messages.py): the group's terms, the keys of all, the shares of the
          neighbours, the set of those who answered, or the consents
    """

    round: Round
    step: Step
    data: bytes


class GroupReply(Message, frozen=True):
    """The device's answer to GroupRequest.

    data     message of the step: round keys, encrypted shares, the masked vector, a signature, or an opening
    refusal  reason why the device takes no further step in the group. `data` is empty then. Empty: it has taken it
    """

    round: Round
    step: Step
    data: bytes
    refusal: Text
