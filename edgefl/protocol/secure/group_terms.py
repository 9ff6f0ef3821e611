"""The terms of a group, which the server states and every device checks against what it knows itself.

Every signature and every key of the protocol belongs to the digest of the terms. So nothing that a device says in a
run, a round and a group can be used in another.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from edgefl.errors import SecurityError
from edgefl.protocol.secure.group_shape import GroupShape, is_safe, shape_for
from edgefl.protocol.secure.roster import Roster, Version
from edgefl.protocol.wire.group_defaults import LEAST
from edgefl.protocol.wire.message_fields import Client, Count, Name, Round

MOST_MEMBERS = 10_000
SHOWN_DIGITS = 16  # of a draw

Members = Annotated[tuple[Client, ...], Meta(max_length=MOST_MEMBERS)]
Weights = Annotated[tuple[Annotated[int, Meta(ge=1, lt=1 << 53)], ...], Meta(max_length=MOST_MEMBERS)]


class GroupTerms(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, dict=True):
    """The terms of one group of one round.

    federation  name of the federation
    roster      version of its roster
    run, round  name of the run (wire/run_terms.py), and round of the run
    draw        id of the draw of neurons that the group's clients have in common
    members     ids of the clients, ascending
    weights     weight of each member's numbers in the sum, by which it multiplies them
    values      number of integers in each vector
    bits        the integers are summed modulo 2^bits
    least       least number of members whose sum may be opened
    colluders   members who may tell the server all that they know
    losses      members who may be lost in all, over all steps of the round
    degree      number of neighbours of each member (group_shape.py)
    threshold   number of shares that give a secret (group_shape.py)
    """

    federation: Name
    roster: Version
    run: Name
    round: Round
    draw: Name
    members: Members
    weights: Weights
    values: Count
    bits: Literal[32, 64]
    least: Count
    colluders: Count
    losses: Count
    degree: Count
    threshold: Count

    @cached_property
    def context(self) -> bytes:
        """The SHA-256 of the terms, to which every key and signature belongs."""
        return hashlib.sha256(b"edgefl secure terms 1" + self.to_bytes()).digest()

    @property
    def is_complete(self) -> bool:
        """Return whether everybody is a neighbour of everybody."""
        return self.degree == len(self.members) - 1

    @property
    def fewest(self) -> int:
        """The least number of members who must take each step, so that the group can be opened."""
        return self.threshold if self.is_complete else len(self.members) - self.losses

    @property
    def name(self) -> str:
        """The name of the group in sentences, which has the first digits of the draw."""
        return f"group {self.draw[:SHOWN_DIGITS]!r} of round {self.round}"

    def to_bytes(self) -> bytes:
        """Return the bytes that the server sends to the members."""
        return msgspec.msgpack.encode(self)

    def weight(self, client: int) -> int:
        """Return the weight of a member."""
        return self.weights[bisect_left(self.members, client)]

    def point(self, client: int) -> int:
        """Return the point at which a member holds its shares."""
        return bisect_left(self.members, client) + 1


@dataclass(frozen=True)
class OwnView:
    """A device's own knowledge of a round, with which the terms must agree.

    draw              id of the draw of neurons with which it was asked to train
    values, bits      number of integers in its vector, and their bits
    last_round        last round of the run in which the device began a group, 0 if there is none
    heaviest          largest weight with which it may be counted
    least, colluders  numbers below which the device does not take part
    """

    client: int
    run: str
    round: int
    draw: str
    values: int
    bits: int
    last_round: int
    heaviest: int = 1 << 53
    least: int = LEAST
    colluders: int = 0


def group_terms(
    roster: Roster, run: str, round: int, draw: str, members: list[int], values: int, bits: Literal[32, 64],
    losses: int, colluders: int = 0, least: int = LEAST, weights: Sequence[int] | None = None,
) -> GroupTerms:  # fmt: skip
    """Return the terms of a group, with the shape that follows from its numbers.

    members  ids of the clients, ascending
    weights  weight of each member. None: 1 for each
    Raises  ValueError if the group is too small, or cannot lose as many members as `losses` says.
    """
    shape = shape_for(len(members), colluders, losses, least)
    terms = GroupTerms(
        roster.federation, roster.version, run, round, draw, tuple(members), tuple(weights or [1] * len(members)),
        values, bits, least, colluders, losses, *shape,
    )  # fmt: skip
    if len(members) - losses < terms.fewest:
        raise ValueError(
            f"{terms.name}: {len(members)} members, {colluders} colluders and {losses} losses; expected at least "
            f"{terms.fewest} members to remain"
        )
    return terms


def read_terms(data: bytes) -> GroupTerms:
    """Return the terms that a server sent, unchecked. Raises SecurityError for bytes that are not terms."""
    try:
        return msgspec.msgpack.decode(data, type=GroupTerms)
    except msgspec.DecodeError as error:
        raise SecurityError(f"terms of a group that cannot be read: {error}") from None


def accepted_terms(data: bytes, view: OwnView, roster: Roster) -> GroupTerms:
    """Return the terms that a server sent, if the device may take part. Raises SecurityError otherwise."""
    terms = read_terms(data)
    stated = [
        ("federation", terms.federation, roster.federation), ("version of the roster", terms.roster, roster.version),
        ("run", terms.run, view.run), ("round", terms.round, view.round), ("draw", terms.draw, view.draw),
        ("number of values", terms.values, view.values), ("number of bits", terms.bits, view.bits),
    ]  # fmt: skip
    for what, given, expected in stated:
        if given != expected:
            raise SecurityError(f"terms with the {what} {given!r}; expected {expected!r}")
    if terms.round <= view.last_round:
        raise SecurityError(f"{terms.name}, but this device has begun round {view.last_round}; expected a later round")
    _check_numbers(terms, view)
    for member in terms.members:
        roster.public_key(member)
    return terms


def _check_numbers(terms: GroupTerms, view: OwnView) -> None:
    """Raise SecurityError unless members and numbers protect this device as well as it asks for."""
    if list(terms.members) != sorted(set(terms.members)) or view.client not in terms.members:
        raise SecurityError(
            f"{terms.name} has the members {_listed(terms.members)}; expected ascending ids with {view.client}"
        )
    for what, given, lowest in (
        ("least members", terms.least, view.least),
        ("colluders", terms.colluders, view.colluders),
        ("members", len(terms.members), terms.least),
    ):
        if given < lowest:
            raise SecurityError(f"{terms.name} has {given} {what}; expected at least {lowest}")
    if len(terms.weights) != len(terms.members) or terms.weight(view.client) > view.heaviest:
        raise SecurityError(
            f"{terms.name} has {len(terms.weights)} weights for {len(terms.members)} members; expected a weight each, "
            f"of at most {view.heaviest} for this device"
        )
    shape = GroupShape(terms.degree, terms.threshold)
    count = len(terms.members)
    if terms.losses > count or not is_safe(count, terms.colluders, terms.losses, terms.least, shape):
        raise SecurityError(
            f"{terms.name} has {count} members, each with {shape.degree} neighbours, and the threshold "
            f"{shape.threshold}; expected what follows from {terms.colluders} colluders"
        )


def _listed(clients: tuple[int, ...], most: int = 8) -> str:
    """Return ids for a sentence, of which the first few are shown."""
    return ", ".join(map(str, clients[:most])) + (", ..." if len(clients) > most else "")
