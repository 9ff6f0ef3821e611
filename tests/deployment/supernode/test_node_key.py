"""edgefl/deployment/supernode/node_key.py and libcrypto.py: keys as ssh-keygen and OpenSSL write them, and signatures
that verify.
"""

from __future__ import annotations

import base64
from datetime import datetime, timezone
from pathlib import Path

import pytest

from edgefl.deployment.supernode import libcrypto, node_key
from edgefl.errors import RequestError

pytest.importorskip("cryptography", reason="signatures are verified by the package cryptography")
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

# A key made by ssh-keygen -t ecdsa -b 384, for these tests alone.
OPENSSH = b"""-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAiAAAABNlY2RzYS
1zaGEyLW5pc3RwMzg0AAAACG5pc3RwMzg0AAAAYQQ7NvCUMllxqr5oJOnDYjiEg96Hqbfq
EYUiUKQxsOt3tfg2Owwjzg9cO+TN1s3UCbb1PRYlHEX0/GxvQStxCy8RymVdTWjckFEOKk
ObDwBon3ZC/avY1Y7/kB/GkgSmsdsAAADQM6MXqzOjF6sAAAATZWNkc2Etc2hhMi1uaXN0
cDM4NAAAAAhuaXN0cDM4NAAAAGEEOzbwlDJZcaq+aCTpw2I4hIPeh6m36hGFIlCkMbDrd7
X4NjsMI84PXDvkzdbN1Am29T0WJRxF9Pxsb0ErcQsvEcplXU1o3JBRDipDmw8AaJ92Qv2r
2NWO/5AfxpIEprHbAAAAMQDZNzlFNiBGTiFgYwaMiw+wKEQhXIDSGFwJ3hMUtwJRI/VTcP
vdZlBg695oH8AM2yMAAAAEdGVzdAECAw==
-----END OPENSSH PRIVATE KEY-----
"""
PUBLIC = b"""-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEOzbwlDJZcaq+aCTpw2I4hIPeh6m36hGF
IlCkMbDrd7X4NjsMI84PXDvkzdbN1Am29T0WJRxF9Pxsb0ErcQsvEcplXU1o3JBR
DipDmw8AaJ92Qv2r2NWO/5AfxpIEprHb
-----END PUBLIC KEY-----
"""
CURVES = {256: ec.SECP256R1(), 384: ec.SECP384R1(), 521: ec.SECP521R1()}
FORMATS = {
    "openssh": serialization.PrivateFormat.OpenSSH,
    "sec1": serialization.PrivateFormat.TraditionalOpenSSL,
    "pkcs8": serialization.PrivateFormat.PKCS8,
}
PLAIN = serialization.NoEncryption()


def verified(public: bytes, data: bytes, signature: bytes) -> None:
    key = serialization.load_pem_public_key(public)
    assert isinstance(key, ec.EllipticCurvePublicKey)
    key.verify(signature, data, ec.ECDSA(hashes.SHA256()))


@pytest.fixture(params=["libcrypto", "cryptography"])
def library(request, monkeypatch) -> str:
    if request.param == "cryptography":
        monkeypatch.setattr(libcrypto, "is_there", lambda: False)
    elif not libcrypto.is_there():
        pytest.skip("no libcrypto on this system")
    return request.param


def test_a_key_of_ssh_keygen_has_the_public_key_that_flwr_registers(library) -> None:
    assert node_key.NodeKey(node_key.der_of(OPENSSH)).public == PUBLIC


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("bits", CURVES)
def test_keys_of_every_curve_and_form_sign(library, bits, form) -> None:
    for number in (1, 2**200 + 1):  # a private key with zeros before it, too
        key = ec.derive_private_key(number, CURVES[bits])
        made = node_key.NodeKey(node_key.der_of(key.private_bytes(serialization.Encoding.PEM, FORMATS[form], PLAIN)))
        pem = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        assert made.public == key.public_key().public_bytes(*pem)
        now = datetime(2026, 11, 23, 3, 4, 5, 6, tzinfo=timezone.utc)
        headers = made.headers(now)
        assert headers["flwr-timestamp"] == "2026-11-23T03:04:05.000006+00:00"
        assert base64.b64decode(headers["flwr-public-key"]) == made.public
        signature = base64.b64decode(headers["flwr-signature"])
        verified(made.public, b"2026-11-23T03:04:05.000006+00:00", signature)
        with pytest.raises(InvalidSignature):
            verified(made.public, b"2026-11-23T03:04:05.000007+00:00", signature)


def test_a_made_key_is_new_and_on_p384(library) -> None:
    first, second = node_key.generate(), node_key.generate()
    assert first != second
    key = serialization.load_der_private_key(first, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp384r1"
    assert node_key.NodeKey(first).public != node_key.NodeKey(second).public


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "no private key in it"),
        (PUBLIC, "no private key in it"),
        (OPENSSH[:-60], "no private key in it"),
        (OPENSSH.replace(b"b3Blbn", b"b3Bl*n"), "not base64"),
        (OPENSSH.replace(b"b3Blbn", b"b3BlBn"), "not an OpenSSH key of type ecdsa"),
        (b"-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n", "expected one on"),
        (b"-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n-----END EC PRIVATE KEY-----", "an encrypted key"),
        (
            b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----",
            "not an OpenSS",
        ),
    ],
)
def test_a_file_that_is_no_key_is_named(library, tmp_path, text, problem) -> None:
    file = tmp_path / "key"
    file.write_bytes(text)
    file.chmod(0o600)
    with pytest.raises(RequestError, match=f"--node-key {file}: .*{problem}"):
        node_key.read_node_key(file)


def test_encrypted_and_foreign_keys_are_refused(library, tmp_path) -> None:
    locked = serialization.BestAvailableEncryption(b"secret")
    key = ec.derive_private_key(5, CURVES[384])
    for form in ("sec1", "openssh", "pkcs8"):
        try:
            text = key.private_bytes(serialization.Encoding.PEM, FORMATS[form], locked)
        except Exception as error:  # the package bcrypt is not here
            assert form == "openssh" and "bcrypt" in str(error)
            continue
        problem = "no private key in it" if form == "pkcs8" else "an encrypted key"
        with pytest.raises(RequestError, match=problem):
            node_key.der_of(text)
    bitcoin = ec.derive_private_key(5, ec.SECP256K1())
    with pytest.raises(RequestError, match="a key on another curve"):
        node_key.NodeKey(bitcoin.private_bytes(serialization.Encoding.DER, FORMATS["pkcs8"], PLAIN))


def test_others_may_not_read_a_key(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(OPENSSH)
    file.chmod(0o644)
    with pytest.raises(RequestError, match="mode 0644; expected 0600"):
        node_key.read_node_key(file)
    file.chmod(0o600)
    assert node_key.read_node_key(file).public == PUBLIC
