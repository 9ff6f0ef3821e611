"""The errors that edgefl raises, typed by who is at fault, and sentences about unknown and former names.

The message of an error is one sentence: it says what is wrong, the value, and what was expected.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST = 3  # names that a sentence suggests for an unknown name, at most
GOES_AWAY_IN = {"0.2.0": "0.4.0"}  # version with a present name -> version without the former name
ALIKE = 0.7  # least ratio of difflib, from 0 to 1, at which two names are alike


class EdgeflError(Exception):
    """Base class of every error of edgefl that is not a plain ValueError or OSError."""


class GraphError(EdgeflError, ValueError):
    """A model that edgefl cannot represent, or a graph that contradicts itself."""


class SelectionError(EdgeflError, ValueError):
    """A neuron set or mask that does not fit the model."""


class CodecError(EdgeflError, ValueError):
    """Bytes that are not a payload, or a payload that contradicts the model it is for."""


class DataError(EdgeflError):
    """A data set that is missing, corrupt or not what was asked for."""


class BackendError(EdgeflError):
    """A kernel backend or instruction set that was named and is not there."""


class TrainingError(EdgeflError):
    """A training step that cannot be taken, for example because the loss is not finite or the data set is empty."""


class MemoryLimitError(EdgeflError):
    """A learner that would need more memory than its limit."""


class TimeLimitError(EdgeflError):
    """Work that takes longer than its time limit."""


class PlanError(EdgeflError):
    """A plan that a client cannot or will not follow: it lacks something, contradicts itself or asks for too much."""


class RunError(EdgeflError):
    """A run directory that is corrupt or belongs to another run."""


class StuckError(RunError):
    """A run in which the server accepts no client's reply any more."""


class RequestError(EdgeflError):
    """A request on the command line that cannot be carried out as it was made."""


class ProtocolError(EdgeflError):
    """A conversation between server and device that breaks the protocol."""


class RemoteProtocolError(ProtocolError):
    """Bytes or a message from the peer that the protocol does not allow. Tell the peer the reason and close."""


class DamagedFrameError(RemoteProtocolError):
    """Bytes that no sender of this protocol makes. They were changed in transit, or belong to another protocol.

    Close the connection and try again.
    """


class OtherVersionError(RemoteProtocolError):
    """A frame of another version of the wire protocol.

    version  version in the frame
    type     number of the message's type
    body     bytes of the message, or empty if the body is damaged or too large to be kept
    """

    def __init__(self, version: int, type: int, body: bytes) -> None:
        super().__init__(f"frame of version {version}")
        self.version, self.type, self.body = version, type, body


class LocalProtocolError(ProtocolError):
    """A message that we must not send in this state, with these values or of this size. Nothing was sent."""


class AuthError(EdgeflError):
    """A peer that has not shown that it knows the expected key."""


class SecurityError(ProtocolError):
    """A request of a server that could open more than the sum of a group. The device has not answered it."""


class NotOpenedError(EdgeflError):
    """A group of secure aggregation whose sum cannot be opened, for example because too many clients were lost."""


def nearest(name: str, known: Iterable[str], most: int = MOST) -> list[str]:
    """Return at most `most` known names that are like `name`, the nearest name first. Case is ignored."""
    by_lower = {each.lower(): each for each in known}
    return [by_lower[each] for each in difflib.get_close_matches(name.lower(), list(by_lower), most, ALIKE)]


def expected_name(name: str, known: Iterable[str], more: str = "") -> str:
    """Return the end of a sentence about an unknown name: "the nearest are A and B", or "expected one of A, B, C".

    more  text for what else may stand in place of a known name, such as "FILE.safetensors"
    """
    known = list(known)
    near = nearest(name, known)
    if near:
        return f"the nearest {'is' if len(near) == 1 else 'are'} {', '.join(near)}"
    return f"expected one of {', '.join(known)}" + (f", or {more}" if more else "")


def former_name(before: str, now: str, since: str = "0.2.0") -> str:
    """Return the warning about a former name that still works: the present name, and when the former name goes away.

    since  version of edgefl in which the present name is new
    """
    return f"{before} is called {now} now; the former name goes away in edgefl {GOES_AWAY_IN[since]}"
