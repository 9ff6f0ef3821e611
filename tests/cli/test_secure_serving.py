"""`edgefl serve --secure` and `edgefl client --identity`: what is refused, in words, before anything begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgefl.cli import secure_serving
from edgefl.cli.cli import main
from edgefl.errors import RunError
from edgefl.protocol.secure.roster import Roster, signed_roster
from edgefl.protocol.trust.identity_files import make_identity, make_operator
from edgefl.server.secure_settings import SecureSettings, read


@pytest.fixture
def roster(tmp_path: Path) -> str:
    """The file of a roster of 30 clients, of which client 29 is revoked."""
    operator = make_operator(tmp_path / "operator")
    identity = make_identity(tmp_path / "identity").public
    keys = {client: bytes([client]) + identity[1:] for client in range(30)}
    (tmp_path / "roster").write_bytes(signed_roster(Roster("home", 1, keys, (29,)), operator))
    return str(tmp_path / "roster")


def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    code = main(["serve", "--port", "0", "--run-dir", str(tmp_path / "run"), "--rounds", "2", *options])
    assert code == 2
    assert not (tmp_path / "run").exists()
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--clients 25", "--per-round 5 gives a group of size 1; expected at least --per-round 25"),
        ("--clients 20 --per-round 20", "20 clients in 5 groups, of which one has 4 clients; expected at least 5"),
        ("--clients 30 --per-round 25", "client 29 and 0 others are not in version 1 of the roster, or are revoked"),
        ("--method fedspu --clients 25", "with draws=own: each client has neurons of its own"),
        ("--method fedspu-es:draws=shared --clients 25", "the private losses of clients decide who is chosen"),
        ("--method fedspa --clients 25", "with search=dst: each client finds masks of its own; expected fedspa-rsm"),
        ("--method fedspa-rsm:masks=different --clients 25", "each client has a mask of its own; expected masks=same"),
        ("--method subfedavg --clients 25", "method subfedavg needs the replies of single clients"),
        ("--method fedavg --clients 25 --values float16", "--values float16 with --secure; expected float32"),
        ("--method fedavg --aggregation median", "--aggregation median with --secure, which hides single"),
        ("--method fedavg --bound clip", "--bound clip with --secure, which hides single replies; expected off"),
        ("--method fedavg --secure-least 2", "--secure-least 2; expected at least 3"),
    ],
)
def test_a_run_that_cannot_be_summed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], roster: str, options: str, words: str
) -> None:
    assert words in refused(tmp_path, capsys, "--secure", "--roster", roster, *options.split())


def test_secure_needs_a_roster_and_a_roster_needs_secure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], roster: str
) -> None:
    found = refused(tmp_path, capsys, "--secure")
    assert (
        "--secure without --roster; expected the roster that `edgefl keys --roster` makes, or --insecure, with" in found
    )
    assert "without --secure; expected both" in refused(tmp_path, capsys, "--roster", roster)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--identity", "ID"],
            "--identity ID without --operator; expected both, or --insecure, with which the",
        ),
        (["--operator", "OP"], "--operator OP without --identity; expected both"),
        (
            ["--identity", "ID", "--insecure", "--federation", "home"],
            "--federation home without --operator; expected both",
        ),
        (["--identity", "ID", "--operator", "OP", "--secure-least", "2"], "--secure-least 2 and --secure-colluders 0"),
    ],
)
def test_a_device_names_what_it_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    main(["partition", "--clients", "2", "--out", str(tmp_path / "shares"), "--quiet"])
    capsys.readouterr()
    data, state = tmp_path / "shares" / "device-0000.npz", tmp_path / "state"
    assert main(["client", "--server", "127.0.0.1:1", "--data", str(data), "--state", str(state), *options]) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_a_run_without_a_roster_goes_on_as_insecure_alone_and_takes_no_roster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], roster: str
) -> None:
    SecureSettings(b"", least=4).write(tmp_path)
    assert read(tmp_path) == SecureSettings(b"", least=4)
    for options, words in (
        ([], "a run without a roster; expected the roster that `edgefl keys --roster` makes, or --insecure"),
        (["--insecure", "--roster", roster], "which began without a roster; expected no --roster, or a new run"),
    ):
        assert main(["serve", "--port", "0", "--resume", str(tmp_path), *options]) == 2
        assert words in " ".join(capsys.readouterr().err.split())


def test_a_run_without_a_roster_is_warned_of_and_another_run_is_not(roster: str) -> None:
    assert "A server that lies can make up devices" in secure_serving.warning(SecureSettings(b""))
    assert not secure_serving.warning(SecureSettings(Path(roster).read_bytes()))
    assert not secure_serving.warning(None)


def test_a_lost_roster_does_not_become_a_run_without_a_roster(tmp_path: Path, roster: str) -> None:
    SecureSettings(Path(roster).read_bytes()).write(tmp_path)
    (tmp_path / "roster").write_bytes(b"")
    with pytest.raises(RunError, match="cannot be read"):
        read(tmp_path)


def test_a_device_of_flower_has_no_secure_aggregation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["partition", "--clients", "2", "--out", str(tmp_path / "shares"), "--quiet"])
    capsys.readouterr()
    where = ["--data", str(tmp_path / "shares" / "device-0000.npz"), "--state", str(tmp_path / "state")]
    assert main(["client", "--flower", "https://127.0.0.1:1", *where, "--identity", "ID", "--operator", "OP"]) == 2
    assert "--identity with --flower; expected --server, as envelopes carry no" in " ".join(
        capsys.readouterr().err.split()
    )
