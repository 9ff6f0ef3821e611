"""The errors edgefl raises, typed by who is at fault, and what their sentences say of a name that nobody knows.

One sentence each: what, the value, what was expected.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST = 3  # near names in a sentence
ALIKE = 0.7  # of difflib's ratio, from which a name is near


class EdgeflError(Exception):
    """Base of every error that is not a plain ValueError or OSError."""


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
    """A training step that cannot be taken: non-finite loss, an empty data set."""


class MemoryLimitError(EdgeflError):
    """A learner that would need more memory than it may take."""


class TimeLimitError(EdgeflError):
    """Work that takes longer than it may."""


class PlanError(EdgeflError):
    """A plan that a client will not or cannot follow: it lacks something, contradicts itself, or asks for too much."""


class RunError(EdgeflError):
    """A run directory that is corrupt, or belongs to another run."""


class StuckError(RunError):
    """A run in which nobody's reply is accepted any more."""


class RequestError(EdgeflError):
    """Something that cannot be done as it was asked for on the command line."""


class ProtocolError(EdgeflError):
    """A conversation between server and device that breaks the protocol."""


class RemoteProtocolError(ProtocolError):
    """Bytes or a message from the peer that the protocol does not allow. Tell it why and close."""


class DamagedFrameError(RemoteProtocolError):
    """Bytes that no sender of this protocol makes: changed on their way, or not of this protocol at all. Close, and try
    again.
    """


class OtherVersionError(RemoteProtocolError):
    """A whole frame of another version of the wire: its version, its type, and its body if that is whole too."""

    def __init__(self, version: int, type: int, body: bytes) -> None:
        super().__init__(f"frame of version {version}")
        self.version, self.type, self.body = version, type, body


class LocalProtocolError(ProtocolError):
    """A message that we must not send: in this state, of these values, or of this size. Nothing was sent."""


class AuthError(EdgeflError):
    """A peer that has not shown that it knows the key it should."""


def nearest(name: str, known: Iterable[str], most: int = MOST) -> list[str]:
    """The known names nearest to this one, the nearest first; letters of either case count as the same."""
    by_lower = {each.lower(): each for each in known}
    return [by_lower[each] for each in difflib.get_close_matches(name.lower(), list(by_lower), most, ALIKE)]


def expected_name(name: str, known: Iterable[str], more: str = "") -> str:
    """The end of a sentence about an unknown name: "the nearest are A and B", or "expected one of" all of them.

    more  what else than a known name may stand there, as "FILE.safetensors"
    """
    known = list(known)
    near = nearest(name, known)
    if near:
        return f"the nearest {'is' if len(near) == 1 else 'are'} {', '.join(near)}"
    return f"expected one of {', '.join(known)}" + (f", or {more}" if more else "")
