"""The commands that an operator gives to the server of a run. `edgefl control` writes them into the run's directory.

    pause | resume              open no round until further notice, or go on
    stop                        end the run after the open round
    drain                       end the server's process after the open round. The run goes on with --resume
    remove CLIENT | NAME=VALUE  refuse a client, or every client whose device has told this tag, from now on
    readmit CLIENT              take the client's device back
    set deadline=S|auto|none    the deadline of the open round, and of the rounds that follow
    set evaluation-deadline=S|auto|none    the deadline of the open evaluation, and of the evaluations that follow
    set rounds=N                the number of rounds of the run
    set select=CHOICE           the clients among which a round's clients are chosen, as --select

A command that is not understood changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from edgefl.server.client_choice import ClientChoice
from edgefl.server.round_deadline import AdaptiveDeadline, Deadline

DEADLINE, EVALUATION_DEADLINE, ROUNDS, SELECT = SETTINGS = ("deadline", "evaluation-deadline", "rounds", "select")
ALONE = ("pause", "resume", "stop", "drain")
EVERYBODY, ENROLLED, SEEN = "all", "enrolled", "seen"
LARGEST_ROUNDS = 1 << 31
EXPECTED = "expected pause, resume, stop, drain, remove CLIENT, readmit CLIENT, or set NAME=VALUE"


class ClientSelection(NamedTuple):
    """The clients among which a round's clients are chosen.

    seen_s          number of seconds within which the clients were connected. None: no limit
    among_enrolled  whether the clients have enrolled
    choice          condition that the enrolled clients fulfil, or None
    """

    seen_s: float | None = None
    among_enrolled: bool = False
    choice: ClientChoice | None = None

    def __str__(self) -> str:
        if self.choice is not None:
            return self.choice.text
        return f"{SEEN}:{self.seen_s:g}" if self.seen_s is not None else ENROLLED if self.among_enrolled else EVERYBODY


def checked(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words of a command. Raises ValueError if there is no such command, or its value makes no sense."""
    words = tuple(words)
    name, rest = (words[0], words[1:]) if words else ("", ())
    if name in ALONE and not rest:
        return words
    if name in ("remove", "readmit") and len(rest) == 1:
        whom(rest[0])
        return words
    if name == "set" and len(rest) == 1:
        setting, _, value = rest[0].partition("=")
        if setting not in SETTINGS or not value:
            raise ValueError(f"set {rest[0]}; expected one of {', '.join(f'{each}=VALUE' for each in SETTINGS)}")
        {DEADLINE: deadline, EVALUATION_DEADLINE: deadline, ROUNDS: rounds, SELECT: selection}[setting](value)
        return words
    raise ValueError(f"command {' '.join(words)!r}; {EXPECTED}")


def whom(text: str) -> int | tuple[str, str]:
    """Return the client that is meant, or the name and the value of the tag of the clients that are meant."""
    if text.isascii() and text.isdigit() and len(text) < 11:
        return int(text)
    name, is_tag, value = text.partition("=")
    if not is_tag or not name or not value:
        raise ValueError(f"client {text!r}; expected the id of a client, or a tag as NAME=VALUE")
    return name, value


def deadline(text: str) -> Deadline:
    """Return the deadline that the text describes. Raises ValueError."""
    if text in ("auto", "none"):
        return AdaptiveDeadline() if text == "auto" else None
    seconds = _number(text)
    if not 0 < seconds < float("inf"):
        raise ValueError(f"deadline {text!r}; expected auto, none or a number of seconds > 0")
    return seconds


def rounds(text: str) -> int:
    """Return the number of rounds that the text says. Raises ValueError."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:11]) < LARGEST_ROUNDS):
        raise ValueError(f"rounds={text}; expected a whole number of rounds, at least 1")
    return int(text)


def selection(text: str) -> ClientSelection:
    """Return the clients that the text describes. Raises ValueError."""
    if text in (EVERYBODY, ENROLLED):
        return ClientSelection(among_enrolled=text == ENROLLED)
    kind, is_seen, seconds = text.partition(":")
    if kind == SEEN and is_seen:
        within_s = _number(seconds)
        if not 0 < within_s < float("inf"):
            raise ValueError(f"selection {text!r}; expected all, enrolled, or seen:SECONDS")
        return ClientSelection(seen_s=within_s)
    return ClientSelection(choice=ClientChoice.parse(text))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
