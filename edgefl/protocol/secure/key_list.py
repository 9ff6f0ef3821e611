"""The list of a round's keys, as both sides use it, and the checks of a device before it trusts the list."""

from __future__ import annotations

import hashlib

from edgefl.errors import SecurityError
from edgefl.protocol.secure.group_messages import KeyList, RoundKeys
from edgefl.protocol.secure.group_terms import GroupTerms
from edgefl.protocol.secure.identity import is_signed
from edgefl.protocol.secure.mask_graph import MaskGraph
from edgefl.protocol.secure.roster import Roster


class RoundKeyList:
    """The keys of the clients who sent them, and the graph that is drawn from the keys.

    keys        keys by client
    digest      SHA-256 of all keys with their signatures
    graph       who is a neighbour of whom
    """

    def __init__(self, keys: tuple[RoundKeys, ...], degree: int) -> None:
        self.keys = {each.client: each for each in keys}
        self.digest = hashlib.sha256(KeyList(keys).to_bytes()).digest()
        self.graph = MaskGraph([*self.keys], degree, self.digest)


def check_list(keys: tuple[RoundKeys, ...], terms: GroupTerms, own: RoundKeys) -> None:
    """Raise SecurityError unless the clients of the list are members, and the device's own keys are among the keys."""
    ids = [each.client for each in keys]
    if ids != sorted(set(ids)) or not {*ids} <= {*terms.members}:
        raise SecurityError(f"{terms.name}: round keys that are not of members, one each, in ascending order")
    if len(ids) < terms.fewest:
        raise SecurityError(f"{terms.name}: round keys of {len(ids)} clients; expected at least {terms.fewest}")
    if own not in keys:
        raise SecurityError(f"{terms.name}: a list of round keys without this device's own keys")
    public = [key for each in keys for key in (each.channel_key, each.mask_key)]
    if len({*public}) < len(public):
        raise SecurityError(f"{terms.name}: a round key that stands in the list twice; expected a key for each use")


def check_signature(keys: RoundKeys, terms: GroupTerms, roster: Roster) -> None:
    """Raise SecurityError unless the client of the keys has signed them for this group of this round."""
    if not is_signed(roster.public_key(keys.client), keys.statement(terms.context), keys.signature):
        raise SecurityError(f"{terms.name}: client {keys.client} has not signed its round keys for this group")
