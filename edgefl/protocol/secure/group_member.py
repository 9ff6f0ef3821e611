"""A device's half of secure aggregation in one group: five steps, each of which takes and returns bytes.

    member = GroupMember.begin(terms, view, identity, roster, draw)
    member.round_keys()       1. its signed keys of the round
    member.share(keys)        2. shares of its two secrets, encrypted for its neighbours
    member.receive(shares)       the neighbours' shares for it
    member.mask(vector)       3. masks its vector in place
    member.consent(answered)  4. its signature of the set of those who answered
    member.open(consents)     5. a share of one of the two secrets of each neighbour

Before the result of a step is sent, `to_bytes()` has to be saved where a kill does not reach it. A step that is asked
for again in the same words gives the same bytes, and is refused in other words. So a device never opens two sets, never
masks two vectors, and never gives shares of both secrets of a client. A refusal raises SecurityError and changes
nothing.
The protocol follows figure 4 of Bonawitz et al. 2017.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from edgefl.errors import SecurityError
from edgefl.protocol.secure.group_messages import (
    Answered,
    Consents,
    KeyList,
    M,
    Opening,
    RoundKeys,
    SealedShares,
    keys_statement,
    read_message,
)
from edgefl.protocol.secure.group_terms import OwnView, accepted_terms
from edgefl.protocol.secure.handed_identities import handed_roster
from edgefl.protocol.secure.identity import SigningIdentity, is_signed
from edgefl.protocol.secure.key_agreement import AgreementKey, Purpose, derived
from edgefl.protocol.secure.key_list import RoundKeyList, check_list, check_signature
from edgefl.protocol.secure.mask_stream import Vector, add_masks, check_vector
from edgefl.protocol.secure.member_state import MemberState, Stage
from edgefl.protocol.secure.prime_field import ELEMENT_BYTES
from edgefl.protocol.secure.roster import Roster
from edgefl.protocol.secure.round_secrets import SEED_BYTES, RoundSecrets, own_digest
from edgefl.protocol.secure.sealed_shares import seal, unseal


class GroupMember:
    """One device in one group of one round."""

    def __init__(self, state: MemberState, identity: SigningIdentity, roster: Roster) -> None:
        """Go on from a saved state.

        Raises  SecurityError if the identity is not the one that the roster has for the client.
        """
        if roster.public_key(state.client) != identity.public:
            raise SecurityError(f"the roster has another identity for client {state.client} than this device")
        self.state = state
        self._terms = state.terms
        self._identity, self._roster = identity, roster
        self._secrets = RoundSecrets(state.seed, state.terms.context) if state.seed else None
        self._list = RoundKeyList(state.keys, state.terms.degree)
        self._channels: dict[int, bytes] = {}  # keys for the encryption of shares, which cost an agreement each

    @classmethod
    def begin(
        cls,
        terms: bytes,
        view: OwnView,
        identity: SigningIdentity,
        roster: Roster,
        draw: Callable[[int], bytes],
        is_handed: bool = False,
    ) -> GroupMember:
        """Take part in a group.

        terms      bytes of the terms that the server sent
        draw       returns as many random bytes as its argument says
        is_handed  whether the roster came with the terms (handed_identities.py), so that the state has to keep it
        Raises     SecurityError if the terms disagree with the device's own view.
        """
        accepted = accepted_terms(terms, view, roster)
        kept = roster.keys if is_handed else {}
        return cls(MemberState(view.client, accepted, draw(SEED_BYTES), identities=kept), identity, roster)

    @classmethod
    def from_bytes(cls, data: bytes, identity: SigningIdentity, roster: Roster | None) -> GroupMember:
        """Go on from the bytes of a saved state.

        roster  roster of the federation. None: the state has the identities that the server handed on
        Raises  RunError for other bytes.
        """
        state = MemberState.from_bytes(data)
        return cls(state, identity, handed_roster(state.identities) if roster is None else roster)

    def to_bytes(self) -> bytes:
        """Return the bytes to save before the result of a step is sent."""
        return self.state.to_bytes()

    def __repr__(self) -> str:
        return f"<GroupMember with {self.state!r}>"

    def round_keys(self) -> bytes:
        """Return this device's public keys of the round, signed."""
        return self._own_keys().to_bytes()

    def share(self, key_list: bytes) -> bytes:
        """Return shares of this device's two secrets, encrypted for its neighbours.

        key_list  the keys of all who sent them, as bytes
        """
        keys = self._read(key_list, KeyList).keys
        secrets = self._live_secrets()
        if self.state.stage == Stage.BEGUN:
            self._take_keys(keys)
        self._refuse_unless(keys == self.state.keys, "a second list of round keys; expected the first one again")
        circle = sorted([*self._neighbours(), self.state.client])
        shares = secrets.shares(self._terms.threshold, [self._terms.point(client) for client in circle])
        context, me = self._terms.context, self.state.client
        return SealedShares(
            {
                client: seal(self._channel(client), context, me, client, share)
                for client, share in zip(circle, shares, strict=True)
                if client != me
            }
        ).to_bytes()

    def receive(self, shares: bytes) -> None:
        """Take the shares that the neighbours have encrypted for this device."""
        sealed = self._read(shares, SealedShares).shares
        self._refuse_unless(self.state.stage >= Stage.SHARED, "shares before the list of round keys")
        if self.state.stage > Stage.SHARED:
            self._live_secrets()
            first = {*self.state.shares} - {self.state.client}
            self._refuse_unless({*sealed} == first, "shares of other clients; expected the first ones again")
            return
        stranger = min({*sealed} - {*self._neighbours()}, default=None)
        self._refuse_unless(stranger is None, f"shares of client {stranger}, who is not a neighbour in the graph")
        self._refuse_unless(
            len(sealed) + 1 >= self._terms.threshold,
            f"shares of {len(sealed)} neighbours; expected at least {self._terms.threshold - 1}",
        )
        found = {client: self._unsealed(client, each) for client, each in sorted(sealed.items())}
        self._advance(Stage.READY, shares={**found, self.state.client: self._own_shares()})

    def mask(self, vector: Vector) -> None:
        """Add all masks of this device to its vector, in place.

        vector  uint32 or uint64, as many values as the terms say
        """
        check_vector(vector)
        self._refuse_unless(
            (len(vector), 8 * vector.itemsize) == (self._terms.values, self._terms.bits),
            f"a vector of {len(vector)} values of {8 * vector.itemsize} bits; expected what the terms say",
        )
        self._refuse_unless(self.state.stage >= Stage.READY, "a vector before the neighbours' shares")
        digest = hashlib.sha256(vector.data).digest()
        if self.state.stage > Stage.READY:
            self._refuse_unless(digest == self.state.input_digest, "a second vector; expected the first one again")
        seeds, signs = self._masks()
        add_masks(vector, seeds, signs)
        if self.state.stage == Stage.READY:
            self._advance(Stage.MASKED, input_digest=digest)

    def consent(self, answered: bytes) -> bytes:
        """Return the signature by which this device consents to the opening of one set.

        answered  the ids of the clients whose vectors are in the sum, as bytes
        """
        message = self._read(answered, Answered)
        self._refuse_unless(self.state.stage >= Stage.MASKED, "a set of answers before this device has answered")
        if self.state.stage > Stage.MASKED:
            same = message.clients == self.state.answered
            self._refuse_unless(same, "a second set of answers; expected the first one again")
        self._check_answered(message.clients)
        if self.state.stage == Stage.MASKED:
            self._advance(Stage.CONSENTED, answered=message.clients)
        return self._identity.sign(message.statement(self._terms.context, self._list.digest))

    def open(self, consents: bytes) -> bytes:
        """Return a share of the own seed of each neighbour who answered, and of the mask's key of each who was lost.

        consents  the signatures of the others, as bytes
        """
        signatures = self._read(consents, Consents).signatures
        self._refuse_unless(self.state.stage >= Stage.CONSENTED, "consents before this device has consented")
        if self.state.stage == Stage.CONSENTED:
            self._check_consents(signatures)
            opening = self._opening().to_bytes()
            self._advance(Stage.OPENED, opening=opening, seed=b"", shares={})
            self._secrets = None
            self._channels.clear()
        return self.state.opening

    def _own_keys(self) -> RoundKeys:
        secrets, context, me = self._live_secrets(), self._terms.context, self.state.client
        fields = secrets.channel.public, secrets.mask.public, own_digest(secrets.own_seed)
        return RoundKeys(me, *fields, self._identity.sign(keys_statement(context, me, *fields)))

    def _take_keys(self, keys: tuple[RoundKeys, ...]) -> None:
        check_list(keys, self._terms, self._own_keys())
        found = RoundKeyList(keys, self._terms.degree)
        neighbours = found.graph.neighbours(self.state.client)
        for client in neighbours:
            check_signature(found.keys[client], self._terms, self._roster)
        self._channels = {client: self._channel_key(found.keys[client]) for client in neighbours}
        self._list = found
        self._advance(Stage.SHARED, keys=keys)

    def _neighbours(self) -> list[int]:
        return self._list.graph.neighbours(self.state.client)

    def _channel(self, client: int) -> bytes:
        """Return the key for the encryption of shares between this device and a neighbour."""
        if client not in self._channels:
            self._channels[client] = self._channel_key(self._list.keys[client])
        return self._channels[client]

    def _channel_key(self, theirs: RoundKeys) -> bytes:
        return self._pair_key(theirs.client, self._live_secrets().channel, theirs.channel_key, "channel")

    def _pair_key(self, client: int, own: AgreementKey, theirs: bytes, purpose: Purpose) -> bytes:
        try:
            return own.pair_key(theirs, self._terms.context, purpose, (self.state.client, client))
        except ValueError:
            raise self._refusal(f"a round key of client {client} with which no secret can be agreed") from None

    def _unsealed(self, client: int, sealed: bytes) -> bytes:
        try:
            return unseal(self._channel(client), self._terms.context, client, self.state.client, sealed)
        except ValueError:
            raise self._refusal(f"shares that client {client} has not encrypted for this device") from None

    def _own_shares(self) -> bytes:
        """Return the shares of this device's own secrets that it holds itself."""
        (shares,) = self._live_secrets().shares(self._terms.threshold, [self._terms.point(self.state.client)])
        return shares

    def _masks(self) -> tuple[list[bytes], list[int]]:
        """Return seed and sign of the own mask, and of the masks with all neighbours who have shared their secrets.

        The neighbour with the lower id adds the mask of a pair, and the other neighbour subtracts it.
        """
        secrets, me = self._live_secrets(), self.state.client
        others = sorted({*self.state.shares} - {me})
        keys = self._list.keys
        seeds = [self._pair_key(client, secrets.mask, keys[client].mask_key, "pairwise mask") for client in others]
        own = derived(secrets.own_seed, self._terms.context, "own mask")
        return [own, *seeds], [1, *(1 if me < client else -1 for client in others)]

    def _check_answered(self, clients: tuple[int, ...]) -> None:
        """Raise SecurityError unless a sum over these clients is one that this device may help to open."""
        found, terms = {*clients}, self._terms
        is_in_order = list(clients) == sorted(found) and found <= {*self._list.keys}
        self._refuse_unless(is_in_order, "a set of answers that is not of the round's clients in ascending order")
        self._refuse_unless(self.state.client in found, "a set of answers without this device, which has answered")
        without = min(found & {*self._neighbours()} - {*self.state.shares}, default=None)
        self._refuse_unless(without is None, f"an answer of client {without}, who has not shared its secrets")
        fewest = max(terms.fewest, terms.least)
        self._refuse_unless(len(found) >= fewest, f"a set of {len(found)} answers; expected at least {fewest}")
        holders = len(found & {*self.state.shares})
        enough = holders >= terms.threshold
        self._refuse_unless(enough, f"answers of {holders} holders of shares; expected at least {terms.threshold}")
        self._refuse_unless(self._list.graph.is_connected(found), "a set of answers that no masks connect")

    def _check_consents(self, signatures: dict[int, bytes]) -> None:
        """Raise SecurityError unless enough neighbours have signed the set that this device has signed."""
        others = {*self.state.answered} & {*self._neighbours()}
        stranger = min({*signatures} - others - {self.state.client}, default=None)
        self._refuse_unless(stranger is None, f"a consent of client {stranger}, who has not answered")
        signers = sorted(others & {*signatures})[: self._terms.threshold - 1]
        self._refuse_unless(
            len(signers) == self._terms.threshold - 1,
            f"consents of {len(signers)} others; expected at least {self._terms.threshold - 1}",
        )
        message = Answered(self.state.answered).statement(self._terms.context, self._list.digest)
        for client in signers:
            is_theirs = is_signed(self._roster.public_key(client), message, signatures[client])
            self._refuse_unless(is_theirs, f"a consent that client {client} has not signed for this set")

    def _opening(self) -> Opening:
        answered, shares = {*self.state.answered}, self.state.shares
        own = {client: each[:ELEMENT_BYTES] for client, each in shares.items() if client in answered}
        mask = {client: each[ELEMENT_BYTES:] for client, each in shares.items() if client not in answered}
        return Opening(own, mask)

    def _live_secrets(self) -> RoundSecrets:
        if self._secrets is None:
            raise self._refusal("a step after the last one; expected another group")
        return self._secrets

    def _advance(self, stage: Stage, **changes: Any) -> None:
        self.state = replace(self.state, stage=stage, **changes)

    def _read(self, data: bytes, kind: type[M]) -> M:
        return read_message(data, kind, self._terms.name, SecurityError)

    def _refuse_unless(self, is_right: bool, what: str) -> None:
        if not is_right:
            raise self._refusal(what)

    def _refusal(self, what: str) -> SecurityError:
        return SecurityError(f"{self._terms.name}: {what}")
