"""The primitives of secure aggregation give what RFCs and NIST publish, through the functions of the protocol."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl.protocol.secure.identity import SigningIdentity, is_signed
from edgefl.protocol.secure.key_agreement import AgreementKey, hkdf
from edgefl.protocol.secure.mask_stream import add_masks, counter_mode, stream_bytes
from edgefl.protocol.secure.sealed_shares import decrypt, encrypt

RFC_7748 = [  # section 5.2, the two vectors and the first iteration: scalar, u, result
    (
        "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
        "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
    ),
    (
        "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
        "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
        "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
    ),
    (
        "0900000000000000000000000000000000000000000000000000000000000000",
        "0900000000000000000000000000000000000000000000000000000000000000",
        "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079",
    ),
]
RFC_5869 = [  # test cases 1 and 3: salt, info, first 32 bytes of the output
    (
        "000102030405060708090a0b0c",
        "f0f1f2f3f4f5f6f7f8f9",
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf",
    ),
    ("", "", "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"),
]
RFC_8032 = [  # section 7.1, tests 1 to 3: private key, public key, message, signature
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe2465"
        "5141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb0"
        "0d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc0"
        "27beceea1ec40a",
    ),
]
CTR = {  # NIST SP 800-38A, F.5.5, four blocks
    "key": "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
    "start": "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
    "plain": "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52eff69f24"
    "45df4f9b17ad2b417be66c3710",
    "cipher": "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c52b0930daa23de94ce87017ba2d84988ddfc9c5"
    "8db67aada613c2dd08457941a6",
}
KEY_BOX = [  # NIST's known answers for AES-256 of a block of zeros, KeySbox256 0 and 1, VarKey256 0: key, first block
    ("c47b0294dbbbee0fec4757f22ffeee3587ca4730c3d33b691df38bab076bc558", "46f2fb342d6f0ab477476fc501242c5f"),
    ("28d46cffa158533194214a91e712fc2b45b518076675affd910edeca5f41ac64", "4bf3b0a69aeb6657794f2901b1440ad4"),
    ("8000000000000000000000000000000000000000000000000000000000000000", "e35a6dcb19b201a01ebcfa8aa22b5759"),
]
GCM = {  # NIST's gcmEncryptExtIV256: IV 96 bits, plain 408 bits, associated 160 bits, tag 128 bits, count 0
    "key": "24501ad384e473963d476edcfe08205237acfd49b5b8f33857f8114e863fec7f",
    "nonce": "9ff18563b978ec281b3f2794",
    "plain": "27f348f9cdc0c5bd5e66b1ccb63ad920ff2219d14e8d631b3872265cf117ee86757accb158bd9abb3868fdc0d0b074b5f01b2c",
    "associated": "adb5ec720ccf9898500028bf34afccbcaca126ef",
    "sealed": "eb7cb754c824e8d96f7c6d9b76c7d26fb874ffbf1d65c6f64a698d839b0b06145dae82057ad55994cf59ad7f67c0fa5e85fab8"
    "bc95c532fecc594c36d1550286a7a3f0",
}
b = bytes.fromhex


@pytest.mark.parametrize(("scalar", "point", "result"), RFC_7748)
def test_x25519(scalar: str, point: str, result: str) -> None:
    assert AgreementKey(b(scalar)).agreed(b(point)) == b(result)


def test_a_public_key_is_the_product_with_the_base_point() -> None:
    scalar, base, result = RFC_7748[2]
    assert base == "09" + 31 * "00"
    assert AgreementKey(b(scalar)).public == b(result)


def test_a_point_of_low_order_is_refused() -> None:
    with pytest.raises(ValueError):
        AgreementKey(b(RFC_7748[0][0])).agreed(bytes(32))


@pytest.mark.parametrize(("salt", "info", "output"), RFC_5869)
def test_hkdf_sha256(salt: str, info: str, output: str) -> None:
    assert hkdf(22 * b"\x0b", b(salt), b(info)) == b(output)


def test_hkdf_sha256_of_long_inputs() -> None:
    secret, salt, info = bytes(range(0x50)), bytes(range(0x60, 0xB0)), bytes(range(0xB0, 0x100))
    assert hkdf(secret, salt, info) == b("b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c")


@pytest.mark.parametrize(("private", "public", "message", "signature"), RFC_8032)
def test_ed25519(private: str, public: str, message: str, signature: str) -> None:
    identity = SigningIdentity(b(private))
    assert identity.public == b(public)
    assert identity.private_bytes() == b(private)
    assert identity.sign(b(message)) == b(signature)
    assert is_signed(b(public), b(message), b(signature))
    assert not is_signed(b(public), b(message) + b"x", b(signature))
    assert not is_signed(b(RFC_8032[0][1])[:31], b(message), b(signature))


def test_aes_256_in_counter_mode() -> None:
    cipher = counter_mode(b(CTR["key"]), b(CTR["start"]))
    assert cipher.update(b(CTR["plain"])) == b(CTR["cipher"])


@pytest.mark.parametrize(("key", "block"), KEY_BOX)
def test_a_mask_is_the_key_stream_from_block_zero_in_little_endian_integers(key: str, block: str) -> None:
    assert stream_bytes(b(key), 16) == b(block)
    for dtype in (np.uint32, np.uint64):
        vector = np.ones(16 // np.dtype(dtype).itemsize, dtype)
        add_masks(vector, [b(key)], [1])
        assert (vector - dtype(1)).astype(vector.dtype.newbyteorder("<")).tobytes() == b(block)


def test_aes_256_gcm() -> None:
    key, nonce, plain, associated, sealed = (b(GCM[each]) for each in ("key", "nonce", "plain", "associated", "sealed"))
    assert encrypt(key, nonce, plain, associated) == sealed
    assert decrypt(key, nonce, sealed, associated) == plain
    for wrong in (
        (key, nonce, sealed, associated[1:]),
        (key, nonce, sealed[:-1] + b"\0", associated),
        (key, bytes(12), sealed, associated),
        (bytes(32), nonce, sealed, associated),
    ):
        with pytest.raises(ValueError, match="tag does not fit"):
            decrypt(*wrong)
