"""The options of `edgefl page` and of `edgefl serve --page`, and their check: the address of a page, and who may see
it.

Everything is checked, the token is read and the socket is bound before a round, or a run directory, is made.
"""

from __future__ import annotations

import argparse
import errno
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from edgefl.deployment.device.device_socket import ServerAddress
from edgefl.errors import RequestError
from edgefl.protocol.trust.tls import server_context
from edgefl.server.listener import ListenAddress, bound, inherited
from edgefl.server.page.access import LEAST_TOKEN

ANYWHERE = "127.0.0.1:0"


@dataclass(frozen=True)
class PageRequest:
    """A page that can be shown as asked.

    address  address of the page, with sockets that listen already
    token    token that the page asks for; None for a page without a token
    """

    address: ListenAddress
    token: str | None
    tls_cert: Path | None
    tls_key: Path | None

    @property
    def url(self) -> str:
        """The address for a browser on this machine, or on another machine if the page is open to others. It has no
        token.
        """
        host, port = self.address.sockets[0].getsockname()[:2]
        scheme = "http" if self.tls_cert is None else "https"
        return f"{scheme}://{ServerAddress(host, port)}/"

    @property
    def is_loopback(self) -> bool:
        """Return whether the page can be reached only from this machine."""
        return ServerAddress(self.address.host, self.address.port).is_loopback

    def close(self) -> None:
        """Close the listening sockets."""
        for listener in self.address.sockets:
            listener.close()


def add_token(group: argparse._ArgumentGroup, name: str) -> None:
    """Add the option that names the file of the token."""
    group.add_argument(
        name,
        type=Path,
        metavar="FILE",
        help="file of the token that the page asks for. A missing file is made, with a new token. (default: no token, "
        "which only a page on loopback may do without)",
    )


def page_request(
    where: str,
    token: Path | None,
    cert: Path | None,
    key: Path | None,
    is_insecure: bool,
    names: tuple[str, str],
    descriptor: int | None = None,
) -> PageRequest:
    """Return the page at ADDR:PORT, listening.

    names       names of the options of the address and of the token, for messages
    descriptor  file descriptor of a socket that listens there already
    Raises      RequestError if it cannot listen there, or if others could read the page without a token
    """
    address_name, token_name = names
    address = _address(where, address_name)
    if (cert is None) != (key is None):
        raise RequestError(half_of_tls(cert, key))
    if not address.is_loopback and not is_insecure and (token is None or cert is None):
        missing = " and ".join(
            name for name, value in ((token_name, token), ("--tls-cert with --tls-key", cert)) if value is None
        )
        raise RequestError(f"{address_name} {where} is open to other machines; expected {missing}, or --insecure")
    if cert is not None and key is not None:
        server_context(cert, key, None)
    listening = _listening(address, descriptor, address_name)
    try:
        return PageRequest(listening, None if token is None else read_token(token), cert, key)
    except BaseException:
        for listener in listening.sockets:
            listener.close()
        raise


def half_of_tls(cert: Path | None, key: Path | None) -> str:
    """Return a sentence about a certificate without a key, or a key without a certificate."""
    given = f"--tls-cert {cert} without --tls-key" if key is None else f"--tls-key {key} without --tls-cert"
    return f"{given}; expected both or neither"


def _listening(address: ServerAddress, descriptor: int | None, name: str) -> ListenAddress:
    listening = ListenAddress(address.host, address.port)
    try:
        return bound(listening) if descriptor is None else inherited(listening, descriptor)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise RequestError(f"{name} {address} is in use; expected a free port, or port 0 for any") from None
        raise RequestError(f"{name} {address}: {error.strerror or error}; expected an address here") from None


def _address(where: str, name: str) -> ServerAddress:
    host, _, port = where.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) >= 1 << 16:
        raise RequestError(f"{name} {where}; expected ADDR:PORT, as 127.0.0.1:8080; port 0 stands for any free one")
    return ServerAddress(host.removeprefix("[").removesuffix("]"), int(port))


def read_token(file: Path) -> str:
    """Return the token in the file. A missing file is made first, with 32 random bytes that only its owner can read.

    Raises  RequestError if the file has something else than a token
    """
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        found = file.read_text("utf-8", "replace").strip()
        if len(found) < LEAST_TOKEN or not found.isascii() or not found.isprintable() or " " in found:
            raise RequestError(
                f"{file} holds no token; expected {LEAST_TOKEN} or more ASCII characters without a space, or no file"
            ) from None
        return found
    with open(descriptor, "w", encoding="utf-8") as made:
        token = secrets.token_urlsafe(32)
        made.write(f"{token}\n")
    return token
