"""Certificates for a run of one's own: an authority, the server's certificate and one for each device.

    DIR/ca.pem, ca-tls.key                     the authority. Devices get ca.pem, and its key stays here
    DIR/server.pem, server-tls.key             for the names by which devices reach the server
    DIR/device-0003.pem, device-0003-tls.key   for client 3, where the server asks for client certificates
Keys are ECDSA on P-256, and their files are readable by their owner alone. The module needs the package `cryptography`.
The TLS contexts that use the certificates are in tls.py.
"""

from __future__ import annotations

import ipaddress
import os
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from edgefl.errors import RequestError
from edgefl.protocol.trust.keys import LARGEST_KEY, read_private, write_private

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ModuleNotFoundError:
    raise RequestError(
        "certificates need the package cryptography, which is not installed; pip install cryptography"
    ) from None

AUTHORITY_DAYS = 3650


class Authority(NamedTuple):
    """A certificate that signs others, and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_certificates(directory: Path, hosts: list[str], clients: int, now: datetime, days: int) -> None:
    """Write the certificates and keys of the authority, the server and `clients` devices into the directory.

    hosts   DNS names and IP addresses of the server
    now     present time, with its time zone
    days    lifetime of the certificates of server and devices, in days
    Raises  FileExistsError rather than replace a key.
    """
    authority = make_authority(now)
    _write(directory / "ca", authority.certificate, authority.key)
    issue(authority, directory / "server", "edgefl server", now, timedelta(days=days), hosts)
    for client in range(clients):
        issue(authority, directory / f"device-{client:04d}", f"device {client}", now, timedelta(days=days))


def renew_server(directory: Path, now: datetime, days: int) -> list[str]:
    """Replace the certificate and the key of the server by new ones for the same hosts. Return the hosts.

    directory  has the authority's files, the server's certificate and its key
    now, days  as in make_certificates
    Raises     RequestError if a file is missing or is not a certificate. OSError if the disk refuses.
    """
    try:
        signer = x509.load_pem_x509_certificate((directory / "ca.pem").read_bytes())
        secret = read_private(tls_key_file(directory / "ca"), LARGEST_KEY).encode()
        key = serialization.load_pem_private_key(secret, password=None)
        present = x509.load_pem_x509_certificate((directory / "server.pem").read_bytes())
        names = present.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        raise RequestError(f"{directory}: {error}; expected a directory that `edgefl keys --host` has made") from None
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    hosts = [str(name.value) for name in names]
    with tempfile.TemporaryDirectory(dir=directory) as beside:
        new = Path(beside) / "server"
        issue(Authority(signer, key), new, "edgefl server", now, timedelta(days=days), hosts)
        os.replace(tls_key_file(new), tls_key_file(directory / "server"))
        os.replace(new.with_suffix(".pem"), directory / "server.pem")
    return hosts


def make_authority(now: datetime) -> Authority:
    """Make a self-signed certificate that may sign certificates, but no further authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("edgefl authority")
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = _builder(name, name, key, now, timedelta(days=AUTHORITY_DAYS))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True).add_extension(identifier, critical=False)
    return Authority(builder.sign(key, hashes.SHA256()), key)


def issue(
    authority: Authority, stem: Path, name: str, now: datetime, lifetime: timedelta, hosts: list[str] | None = None
) -> None:
    """Write STEM.pem and its key, signed by the authority: for a server of these hosts, or for a client without
    `hosts`.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    purpose = ExtendedKeyUsageOID.CLIENT_AUTH if hosts is None else ExtendedKeyUsageOID.SERVER_AUTH
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = _builder(_name(name), authority.certificate.subject, key, now, lifetime)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    builder = builder.add_extension(signer, critical=False)
    if hosts is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    _write(stem, builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    start = now - timedelta(hours=1)  # a device's clock may be slow
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(start).not_valid_after(now + lifetime)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(stem: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, *form)
    stem.parent.mkdir(parents=True, exist_ok=True)
    write_private(tls_key_file(stem), secret)
    stem.with_suffix(".pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def tls_key_file(stem: Path) -> Path:
    """Return the file of the private key of STEM.pem. It is not STEM.key, which holds the run key of a device."""
    return stem.with_name(f"{stem.name}-tls.key")
