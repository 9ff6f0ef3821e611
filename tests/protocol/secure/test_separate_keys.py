"""Keys, nonces and signed bytes of one purpose, group or direction serve no other one."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from edgefl.protocol.secure.identity import statement
from edgefl.protocol.secure.key_agreement import AgreementKey, derived
from edgefl.protocol.secure.prime_field import ELEMENT_BYTES, PRIME, element_from_bytes
from edgefl.protocol.secure.round_secrets import RoundSecrets
from edgefl.protocol.secure.sealed_shares import SEALED_BYTES, SHARES_BYTES, encrypt, seal, unseal

KEY, CONTEXT, SHARES = 32 * b"k", 32 * b"c", bytes(SHARES_BYTES)


def test_a_derived_key_belongs_to_its_secret_context_purpose_and_clients() -> None:
    cases = product((KEY, 32 * b"l"), (CONTEXT, 32 * b"d"), ("channel", "own mask"), ((), (1,), (1, 2), (2, 1)))
    keys = [derived(*case) for case in cases]
    assert len({*keys}) == len(keys) == 32


def test_two_clients_derive_one_key() -> None:
    one, two, three = (AgreementKey(bytes([each]) * 32) for each in (1, 2, 3))
    mine = one.pair_key(two.public, CONTEXT, "pairwise mask", (7, 4))
    assert mine == two.pair_key(one.public, CONTEXT, "pairwise mask", (4, 7))
    others = [
        one.pair_key(two.public, CONTEXT, "channel", (7, 4)),
        one.pair_key(two.public, KEY, "pairwise mask", (7, 4)),
        one.pair_key(two.public, CONTEXT, "pairwise mask", (7, 5)),
        one.pair_key(three.public, CONTEXT, "pairwise mask", (7, 4)),
    ]
    assert len({mine, *others}) == 5


def test_the_two_clients_of_a_key_never_use_one_nonce() -> None:
    """With one nonce, the server would see the difference of the two clients' shares."""
    there, back = seal(KEY, CONTEXT, 1, 2, SHARES), seal(KEY, CONTEXT, 2, 1, SHARES)
    assert all(a[:SHARES_BYTES] != b[:SHARES_BYTES] for a, b in combinations((there, back, SHARES), 2))


def test_the_bytes_of_sealed_shares() -> None:
    number = [each.to_bytes(8, "little") for each in (1, 2)]
    sealed = seal(KEY, CONTEXT, 1, 2, SHARES)
    assert sealed == encrypt(KEY, b"\x01" + bytes(11), SHARES, CONTEXT + number[0] + number[1])
    assert len(sealed) == SEALED_BYTES
    assert unseal(KEY, CONTEXT, 1, 2, sealed) == SHARES


@pytest.mark.parametrize(
    "other", [(KEY, CONTEXT, 2, 1), (KEY, CONTEXT, 1, 3), (KEY, KEY, 1, 2), (CONTEXT, CONTEXT, 1, 2)]
)
def test_shares_are_for_one_receiver_of_one_group(other: tuple[bytes, bytes, int, int]) -> None:
    with pytest.raises(ValueError, match="the tag does not fit"):
        unseal(*other, seal(KEY, CONTEXT, 1, 2, SHARES))


def test_the_two_secrets_are_shared_by_polynomials_of_their_own() -> None:
    """With one polynomial, the difference of a holder's two shares would be the difference of the secrets."""
    both = RoundSecrets(KEY, CONTEXT).shares(3, [1, 2])
    pairs = [(element_from_bytes(each[:ELEMENT_BYTES]), element_from_bytes(each[ELEMENT_BYTES:])) for each in both]
    assert len({(own - mask) % PRIME for own, mask in pairs}) == 2


def test_shares_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="65 bytes of shares; expected 66"):
        unseal(KEY, CONTEXT, 1, 2, seal(KEY, CONTEXT, 1, 2, SHARES[1:]))


def test_no_two_statements_have_the_same_bytes() -> None:
    statements = [
        statement("roster", b"ab", b"c"), statement("roster", b"a", b"bc"), statement("roster", b"abc"),
        statement("answered", b"abc"), statement("round keys", b"abc"),
    ]  # fmt: skip
    assert len({*statements}) == 5
