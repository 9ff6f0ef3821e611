"""The messages about a device's presence in a run: its tags, whether it may sleep, that it leaves, and for how long it
may be away.

messages.py has all other messages.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from edgefl.protocol.wire.message_fields import Message, Name

MOST_TAGS = 32
LONGEST_SLEEP_S = 604800.0  # seconds of 7 days


class DeviceNotice(Message, frozen=True):
    """The device's statement about itself in a connection, once it holds the model and before it trains.

    A device without tags that neither sleeps nor leaves sends no notice, as earlier servers do not know the message.
    tags    values by name, from the device's owner
    sleeps  whether the server may send the device away with ComeAgain
    leaves  whether the device leaves the run. The server answers with Finished once it has recorded this durably
    """

    tags: Annotated[dict[Name, Name], Meta(max_length=MOST_TAGS)]
    sleeps: bool
    leaves: bool


class ComeAgain(Message, frozen=True):
    """The server's word that it has no work, to a device whose notice says that it sleeps. It closes the connection.

    seconds  time after which the device connects again
    """

    seconds: Annotated[float, Meta(ge=0, le=LONGEST_SLEEP_S)]
