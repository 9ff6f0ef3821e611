"""TLS contexts and certificates: whole handshakes in memory, without sockets, and the words of each refusal."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from edgefl.cli.cli import main
from edgefl.errors import RequestError
from edgefl.protocol.trust import tls

pytest.importorskip("cryptography", reason="certificates are made with the optional package cryptography")
from edgefl.protocol.trust import certificates

NOW = datetime.now(timezone.utc)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what `edgefl keys` makes for one device and a server called here.example or 127.0.0.1."""
    directory = tmp_path_factory.mktemp("tls")
    assert main(["keys", str(directory), "--clients", "1", "--host", "here.example,127.0.0.1"]) == 0
    return directory


def pair(files: Path, name: str) -> tuple[Path, Path]:
    return files / f"{name}.pem", files / f"{name}-tls.key"


class Ends:
    """Both ends of a TLS connection over two buffers."""

    def __init__(self, device: ssl.SSLContext, server: ssl.SSLContext, host: str = "here.example") -> None:
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.device = device.wrap_bio(down, up, server_hostname=host)
        self.server = server.wrap_bio(up, down, server_side=True)

    def shake(self) -> list[ssl.SSLError]:
        """The handshake, and a byte each way, since TLS 1.3 reports a refused device only then: the device's errors."""
        errors: list[ssl.SSLError] = []
        device: list[Callable[[], object]] = [
            self.device.do_handshake,
            lambda: self.device.write(b"?"),
            lambda: self.device.read(1),
        ]
        server: list[Callable[[], object]] = [
            self.server.do_handshake,
            lambda: self.server.read(1),
            lambda: self.server.write(b"!"),
        ]
        for _ in range(4):
            self._advance(device, errors)
            self._advance(server, [])
        assert errors or not device
        return errors

    @staticmethod
    def _advance(steps: list[Callable[[], object]], errors: list[ssl.SSLError]) -> None:
        """Take as many steps as the bytes that have arrived allow. An error ends them."""
        try:
            while steps:
                steps[0]()
                steps.pop(0)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            errors.append(error)
            steps.clear()

    def fault(self) -> str | None:
        """Return what the device says when one of the sides refuses."""
        return tls.fault(self.shake()[0])


def test_server_and_device_meet_over_tls(files: Path) -> None:
    ends = Ends(tls.device_context(files / "ca.pem"), tls.server_context(*pair(files, "server")))
    assert ends.shake() == []
    assert ends.device.version() == "TLSv1.3"


def test_addresses_are_names_too(files: Path) -> None:
    ends = Ends(tls.device_context(files / "ca.pem"), tls.server_context(*pair(files, "server")), "127.0.0.1")
    assert ends.shake() == []


def test_versions_before_1_2_are_not_spoken(files: Path) -> None:
    contexts = tls.device_context(files / "ca.pem"), tls.server_context(*pair(files, "server"))
    assert [context.minimum_version for context in contexts] == [ssl.TLSVersion.TLSv1_2] * 2


def test_client_certificates_let_in_those_who_have_one(files: Path) -> None:
    server = tls.server_context(*pair(files, "server"), files / "ca.pem")
    assert Ends(tls.device_context(files / "ca.pem", *pair(files, "device-0000")), server).shake() == []


def test_a_server_that_asks_for_a_certificate_refuses_a_device_without(files: Path) -> None:
    server = tls.server_context(*pair(files, "server"), files / "ca.pem")
    found = Ends(tls.device_context(files / "ca.pem"), server).fault()
    assert found == (
        "the server refuses this device's certificate (certificate required); "
        "expected --tls-cert signed by its authority"
    )


def test_a_certificate_for_another_host_is_not_accepted(files: Path) -> None:
    found = Ends(tls.device_context(files / "ca.pem"), tls.server_context(*pair(files, "server")), "there").fault()
    assert found is not None
    assert "not accepted (Hostname mismatch" in found


def test_an_authority_that_the_device_does_not_know_is_not_accepted(files: Path) -> None:
    found = Ends(tls.device_context(), tls.server_context(*pair(files, "server"))).fault()
    assert found is not None
    assert "the server's certificate is not accepted" in found


def test_an_expired_certificate_is_not_accepted(files: Path, tmp_path: Path) -> None:
    old = NOW - timedelta(days=30)
    certificates.make_certificates(tmp_path, ["here.example"], 0, old, days=20)
    found = Ends(tls.device_context(tmp_path / "ca.pem"), tls.server_context(*pair(tmp_path, "server"))).fault()
    assert found == (
        "the server's certificate is not accepted (certificate has expired); expected a valid one for this host"
    )


def test_a_server_without_tls_is_named() -> None:
    answer, nothing = ssl.MemoryBIO(), ssl.MemoryBIO()
    device = tls.device_context().wrap_bio(answer, nothing, server_hostname="here.example")
    answer.write(b"EF\x01\x0d" + bytes(60))
    with pytest.raises(ssl.SSLError) as refused:
        device.do_handshake()
    assert tls.fault(refused.value) == (
        "the server does not speak TLS; expected a server with a certificate, or no --tls"
    )


def test_a_connection_that_merely_broke_may_be_tried_again() -> None:
    assert tls.fault(ssl.SSLEOFError(8, "EOF occurred in violation of protocol")) is None


def test_files_that_do_not_fit_are_refused_by_name(files: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"server\.pem with key .*ca-tls\.key: KEY_VALUES_MISMATCH"):
        tls.server_context(files / "server.pem", files / "ca-tls.key")
    with pytest.raises(RequestError, match=r"key file .*none\.key: No such file"):
        tls.server_context(files / "server.pem", tmp_path / "none.key")
    with pytest.raises(RequestError, match=r"authority .*none\.pem: No such file"):
        tls.device_context(tmp_path / "none.pem")
    with pytest.raises(RequestError, match="expected both or neither"):
        tls.device_context(files / "ca.pem", files / "device-0000.pem")
