"""The addresses at which a page may listen, and its token. Each refusal is one sentence, before a run directory is
made.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from edgefl.cli.cli import main
from edgefl.cli.page_options import page_request, read_token
from edgefl.errors import RequestError

NAMES = ("--listen", "--token")


def refused(where: str, token: Path | None = None, cert: Path | None = None, key: Path | None = None) -> str:
    with pytest.raises(RequestError) as found:
        page_request(where, token, cert, key, False, NAMES).close()
    return str(found.value)


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("8080", "--listen 8080; expected ADDR:PORT, as 127.0.0.1:8080; port 0 stands for any free one"),
        ("127.0.0.1:x", "--listen 127.0.0.1:x; expected ADDR:PORT, as 127.0.0.1:8080; port 0 stands for any free one"),
        (
            "0.0.0.0:0",
            "--listen 0.0.0.0:0 is open to other machines; expected --token and --tls-cert with --tls-key, or "
            "--insecure",
        ),
    ],
)
def test_an_address_is_refused_by_name(where: str, why: str) -> None:
    assert refused(where) == why


def test_a_port_in_use_is_refused_by_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert refused(where) == f"--listen {where} is in use; expected a free port, or port 0 for any"


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    cert = tmp_path / "cert.pem"
    assert refused("127.0.0.1:0", cert=cert) == f"--tls-cert {cert} without --tls-key; expected both or neither"


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "token"
    token = read_token(file)
    assert (len(token), file.stat().st_mode & 0o777) == (43, 0o600)
    assert read_token(file) == token


@pytest.mark.parametrize("text", ["", "short", "sixteen and a space", "ü" * 20])
def test_a_file_that_holds_no_token_is_refused_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(RequestError, match="holds no token; expected 16 or more ASCII characters without a space"):
        read_token(file)


def test_serve_refuses_an_open_page_before_it_makes_a_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["serve", "--run-dir", str(run), "--port", "0", "--page", "0.0.0.0:0"]) == 2
    assert capsys.readouterr().err == (
        "edgefl serve: --page 0.0.0.0:0 is open to other machines; expected --page-token and --tls-cert with --tls-key,"
        " or --insecure\n"
    )
    assert not run.exists()


def test_a_token_without_a_page_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--run-dir", str(tmp_path / "run"), "--page-token", "t"]) == 2
    assert capsys.readouterr().err == "edgefl serve: --page-token t without --page; expected both\n"


@pytest.mark.parametrize("command", ["page", "devices", "status"])
def test_a_directory_without_a_served_run_is_one_sentence(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(tmp_path)]) == 2
    assert (
        "holds no served run (run.db is missing); expected the directory of `edgefl serve`" in capsys.readouterr().err
    )


@pytest.mark.parametrize("every", ["0", "-1", "inf", "nan"])
def test_a_watch_needs_a_time(tmp_path: Path, every: str, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.server import made_run

    made_run.made_run(tmp_path)
    assert main(["devices", str(tmp_path), "--watch", every]) == 2
    assert f"--watch {float(every)}; expected a number of seconds > 0" in capsys.readouterr().err
