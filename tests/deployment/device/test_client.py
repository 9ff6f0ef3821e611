"""`edgefl client` over real sockets on loopback: to the end of a run, over broken connections, and refused."""

from __future__ import annotations

import errno
import math
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from edgefl import methods
from edgefl.cli.cli import main
from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_socket import DeviceSocket, ServerAddress
from edgefl.deployment.device.reconnection import LONGEST_DELAY_S, STEADY_S, TLS_FAULTS, Attempts, delay_s
from edgefl.deployment.device.run_folders import StateDirectory
from edgefl.errors import RequestError, RunError
from edgefl.experiment.client_dataset import partition_file
from edgefl.protocol.trust import tls
from edgefl.protocol.trust.keys import key_file, make_keys, read_key
from edgefl.protocol.wire import messages
from edgefl.protocol.wire.messages import Refused
from edgefl.protocol.wire.printable import printable
from tests.deployment.device.device_cases import files
from tests.deployment.device.device_listener import Listener
from tests.deployment.device.device_server import ScriptedServer, converse
from tests.faults.bad_link import bad_link


@pytest.fixture
def arguments(partitions: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """A command line for the device of client 0."""

    def of(listener: Listener, *more: object) -> list[str]:
        state, data = str(tmp_path / "state"), str(partition_file(partitions, 0))
        return ["client", "--server", listener.address, "--state", state, "--data", data, *map(str, more)]

    return of


def test_a_device_takes_part_until_the_run_is_over(server: ScriptedServer, arguments: Any, capsys: Any) -> None:
    with Listener(server) as listener:
        assert main(arguments(listener)) == 0
    assert list(server.replies) == [1, 2]
    assert [line[20:] for line in capsys.readouterr().err.splitlines()] == [
        f"INFO {listener.address}: connected as client 0",
        "INFO the run is over: all rounds are done",
    ]


@pytest.mark.parametrize("step", ["open", "over"])
def test_a_disk_that_is_full_at_the_start_or_the_end_delays_a_device(
    step: str, server: ScriptedServer, arguments: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refused, paused = getattr(StateDirectory, step), [errno.ENOSPC, errno.ENOSPC], list[int]()

    def full(*values: Any) -> Any:
        if refused:
            raise OSError(refused.pop(), "No space left on device")
        return real(*values)

    monkeypatch.setattr(StateDirectory, step, full)
    monkeypatch.setattr("edgefl.cli.client._pause", paused.append)
    with Listener(server) as listener:
        assert main(arguments(listener)) == 0
    assert paused == [0, 1]
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "No space" in line]
    assert said.endswith(": No space left on device; trying again until there is room")


class Pauses:
    """Counts the waits between connections instead of waiting: `now` is later by a second each time."""

    def __init__(self, most: int = 100) -> None:
        self.failures: list[int] = []
        self.now = 0.0
        self._most = most

    def __call__(self, failures: int) -> None:
        self.failures.append(failures)
        self.now += 1
        if len(self.failures) >= self._most:
            raise TimeoutError("the device goes on trying")


def client(
    listener: Listener,
    device: Device,
    said: list[str],
    pause: Pauses,
    context: ssl.SSLContext | None = None,
    give_up_s: float = math.inf,
) -> DeviceSocket:
    world = DeviceEnvironment(said.append, pause, lambda: pause.now, random_bytes=bytes)
    return DeviceSocket(ServerAddress.parse(listener.address), device, context, bytes, world, give_up_s)


@pytest.mark.parametrize("length", [1, 20, 100, 300, 5_000, 60_000, 100_000])
def test_a_connection_that_breaks_is_made_again(length: int, server: ScriptedServer, make: Any) -> None:
    """The connection is cut after that many bytes, in the handshake, in the model or in a round, and again after a
    fifth.
    """
    undisturbed, device, said, pause = make(1), make(), [], Pauses()
    converse(undisturbed, server)
    server.replies.clear()
    with Listener(server, cuts=(length, length // 5)) as listener:
        assert client(listener, device, said, pause).run() == "all rounds are done"
    assert files(device) == files(undisturbed)
    assert len(pause.failures) == 2
    assert any("the server closed the connection" in line or "reset" in line for line in said)


def test_a_download_that_a_loss_of_power_has_spoilt_is_made_again_without_a_refusal(
    server: ScriptedServer, make: Any
) -> None:
    """A server leaves a client that refuses out of its rounds, and ends if it has no other client."""
    device, said, heard, answers = make(), list[str](), list[str](), server.answers
    server.answers = lambda message: heard.append(type(message).__name__) or answers(message)  # type: ignore[func-returns-value, method-assign]
    state = device._state
    world = DeviceEnvironment(said.append, lambda failures: state.add(0, bytes(state.received())), time.monotonic)
    with Listener(server, cuts=(40_000,)) as listener:
        address = ServerAddress.parse(listener.address)
        assert DeviceSocket(address, device, None, bytes, world).run() == "all rounds are done"
    assert ["downloading it again" in line for line in said if "trying again" in line] == [False, True]
    assert "Refused" not in heard


@pytest.mark.parametrize("seed", [0, 1])
def test_bits_flipped_on_the_way_change_nothing(seed: int, server: ScriptedServer, make: Any) -> None:
    """One bit is flipped in each connection, in either direction, until there were 20. Then the line is good."""
    undisturbed, device, said, pause = make(1), make(), [], Pauses()
    converse(undisturbed, server)
    server.replies.clear()
    with Listener(server) as listener, bad_link(listener.address, 20, seed, (300, 20_000)) as line:
        address = ServerAddress.parse(line.address)
        world = DeviceEnvironment(said.append, pause, lambda: pause.now, bytes)
        assert DeviceSocket(address, device, None, bytes, world).run() == "all rounds are done"
    assert files(device) == files(undisturbed)
    assert len({flip.direction for flip in line.flips}) == 2
    assert len(pause.failures) == len(line.flips) >= 5


@pytest.mark.parametrize("text", ["\x1b[2Jgone", "two\nlines", "\x9b31m"])
def test_what_a_server_says_cannot_steer_the_terminal(
    text: str, server: ScriptedServer, arguments: Any, capsys: Any
) -> None:
    server.answers = lambda message: iter([Refused(text)])  # type: ignore[method-assign]
    with Listener(server) as listener:
        assert main(arguments(listener)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line[20:] == f"ERROR edgefl client: the server refuses: {printable(text)}"
    assert line.isprintable()


def test_insecure_says_what_it_means(server: ScriptedServer, arguments: Any, capsys: Any) -> None:
    with Listener(server) as listener:
        assert main(arguments(listener, "--insecure")) == 0
    assert capsys.readouterr().err.splitlines()[0][20:] == (
        f"WARNING --insecure: whoever is between here and {listener.address} can read the model and every update, and "
        "change them, or be the server"
    )


def behind_the_model(server: ScriptedServer) -> int:
    """Bytes that bring a device all of the model, and break in what comes then."""
    return len(server.model) + len(messages.encode(server.welcome)) + 500


def test_only_failures_in_a_row_lengthen_the_pause(server: ScriptedServer, make: Any) -> None:
    pause = Pauses()
    with Listener(server, cuts=(1, 1, behind_the_model(server), 1)) as listener:
        client(listener, make(), [], pause).run()
    assert pause.failures == [0, 1, 0, 1]


def test_a_server_that_is_not_there_is_tried_until_it_is(server: ScriptedServer, make: Any) -> None:
    said: list[str] = []
    with Listener(server) as gone:
        pass
    with pytest.raises(TimeoutError, match="goes on trying"):
        client(gone, make(), said, Pauses(most=3)).run()
    assert len(said) == 1  # the same failure is told once
    assert said[0].startswith(f"{gone.address}: ")
    assert said[0].endswith("Connection refused; trying again")


@pytest.mark.parametrize("context", [None, tls.device_context()], ids=["plain", "TLS"])
def test_a_server_that_says_nothing_is_tried_again(
    context: ssl.SSLContext | None, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgefl.deployment.device.device_socket.CONNECT_S", 0.05)
    monkeypatch.setattr("edgefl.deployment.device.device_socket.HANDSHAKE_S", 0.05)
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError, match="goes on trying"):
        address, pause = ServerAddress(*silent.getsockname()), Pauses(most=2)
        DeviceSocket(address, make(), context, bytes, DeviceEnvironment(said.append, pause, lambda: pause.now)).run()
    assert "timed out" in said[0]
    assert said[0].endswith("; trying again")


def test_a_device_gives_up_after_so_long_without_a_server(server: ScriptedServer, make: Any) -> None:
    pause = Pauses()
    with Listener(server) as gone:
        pass
    with pytest.raises(RunError, match=r"Connection refused; expected a connection within 5 s \(--give-up\)"):
        client(gone, make(), [], pause, give_up_s=5).run()
    assert pause.failures == [0, 1, 2, 3, 2]  # the last pause ends before the device gives up


@pytest.mark.parametrize(("give_up_s", "most_s"), [(0.5, 2.0), (1.0, 2.5)])
def test_a_device_gives_up_in_time_where_a_service_keeps_silent(make: Any, give_up_s: float, most_s: float) -> None:
    said: list[str] = []
    world = DeviceEnvironment(said.append, lambda failures: None, time.perf_counter)
    begin = time.perf_counter()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = ServerAddress(*silent.getsockname())
        with pytest.raises(RunError, match=f"timed out; expected a connection within {give_up_s:g} s"):
            DeviceSocket(address, make(), None, bytes, world, give_up_s).run()
    assert give_up_s <= time.perf_counter() - begin < most_s


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("http://HOST:7401", "server 'http://HOST:7401' is a URL; expected HOST:PORT, as HOST:7401"),
        ("https://10.0.0.1:7227/", "server 'https://10.0.0.1:7227/' is a URL; expected HOST:PORT, as 10.0.0.1:7227"),
    ],
)
def test_a_url_is_no_address(text: str, words: str) -> None:
    with pytest.raises(RequestError) as refusal:
        ServerAddress.parse(text)
    assert str(refusal.value) == words


def test_a_connection_begins_the_time_without_a_server_anew(server: ScriptedServer, make: Any) -> None:
    pause = Pauses()
    with Listener(server, cuts=(1, 1, behind_the_model(server), 1, 1)) as listener:
        assert client(listener, make(), [], pause, give_up_s=3).run() == "all rounds are done"
    assert pause.failures == [0, 1, 0, 1, 2]


def test_a_server_that_welcomes_and_hangs_up_is_asked_ever_more_seldom_and_given_up(
    server: ScriptedServer, make: Any
) -> None:
    """Each Welcome is cut in the middle of the model. A pause is a second, so the device has been alone for 6 s.

    The last pauses are shorter than the pauses before, because a device that gives up in 3 s or less waits no longer.
    """
    pause, said = Pauses(), list[str]()
    welcomed = len(messages.encode(server.welcome)) + 500
    wanted = r"welcomed this device 7 times in a row without a request; expected a round, a model or the end .* 6 s"
    with Listener(server, cuts=(welcomed,) * 100) as listener, pytest.raises(RunError, match=wanted):
        client(listener, make(), said, pause, give_up_s=6).run()
    assert pause.failures == [0, 1, 2, 3, 3, 2]
    assert said == [
        f"{listener.address}: connected as client 0",
        f"{listener.address}: the server closed the connection in the middle of a message; trying again",
    ]


@pytest.mark.parametrize(
    ("welcome_s", "failures"), [(STEADY_S, [0, 0, 0, 0]), (STEADY_S - 1, [0, 1, 2, 2])], ids=["steady", "short"]
)
def test_seconds_of_welcome_are_no_seconds_alone(welcome_s: float, failures: list[int]) -> None:
    """Four connections of 59 or 60 s each, with a second between them, of a device that gives up after 4 s alone."""
    pause = Pauses()
    attempts = Attempts("server", DeviceEnvironment(print, pause, lambda: pause.now), 4.0)
    for _ in range(4):
        attempts.welcomed()
        pause.now += welcome_s
        attempts.failed(ConnectionError("it hung up"))
    assert pause.failures == failures
    attempts.welcomed()
    if failures[-1]:
        with pytest.raises(RunError, match="has welcomed this device 5 times in a row"):
            attempts.failed(ConnectionError("it hung up"))


def test_a_connection_refused_between_two_welcomes_makes_the_second_news() -> None:
    pause = Pauses()
    attempts = Attempts("server", DeviceEnvironment(print, pause, lambda: pause.now), math.inf)
    told = []
    for is_welcome in (True, True, False, True):
        told += [attempts.welcomed()] if is_welcome else []
        attempts.failed(ConnectionError("it hung up"))
    assert told == [True, False, True]
    assert pause.failures == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("failures", "longest"), [(0, 0.2), (1, 0.4), (5, 6.4), (8, LONGEST_DELAY_S), (10_000, LONGEST_DELAY_S)]
)
def test_pauses_are_drawn_below_a_bound_that_doubles(failures: int, longest: float) -> None:
    assert delay_s(failures, 0.0) == 0
    assert delay_s(failures, 0.5) == longest / 2
    assert delay_s(failures, 1.0) == longest


# Trust.


def context(trust: Path, clients: bool = False) -> ssl.SSLContext:
    return tls.server_context(trust / "server.pem", trust / "server-tls.key", trust / "ca.pem" if clients else None)


def test_a_device_with_key_and_certificate_is_let_in(trust: Path, server: ScriptedServer, arguments: Any) -> None:
    server.key = read_key(key_file(trust, 0))
    own = ["--tls-cert", trust / "device-0000.pem", "--tls-key", trust / "device-0000-tls.key"]
    with Listener(server, context(trust, clients=True)) as listener:
        assert (
            main(arguments(listener, "--id", 0, "--key", key_file(trust, 0), "--tls-ca", trust / "ca.pem", *own)) == 0
        )
    assert list(server.replies) == [1, 2]


def test_a_wrong_key_is_refused(server: ScriptedServer, arguments: Any, tmp_path: Path, capsys: Any) -> None:
    make_keys(tmp_path / "keys", 1)
    server.key = bytes(range(32))
    with Listener(server) as listener:
        assert main(arguments(listener, "--id", 0, "--key", key_file(tmp_path / "keys", 0))) == 1
    assert "edgefl client: the server: proof" in capsys.readouterr().err
    assert [type(message).__name__ for message in server.received] == ["Hello", "Refused"]


def test_a_device_without_the_certificate_that_the_server_wants_is_refused(
    trust: Path, server: ScriptedServer, arguments: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are three refusals, without the waits between. A refusal that is cut off counts as a broken connection."""
    monkeypatch.setattr("edgefl.cli.client.delay_s", lambda failures, draw: 0.01)
    with Listener(server, context(trust, clients=True)) as listener:
        assert main(arguments(listener, "--tls", "--tls-ca", trust / "ca.pem")) == 1
    assert "the server refuses this device's certificate (certificate required)" in capsys.readouterr().err


def test_an_expired_certificate_is_refused(server: ScriptedServer, arguments: Any, tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("cryptography", reason="certificates are made with the optional package cryptography")
    from edgefl.protocol.trust.certificates import make_certificates

    make_certificates(tmp_path, ["127.0.0.1"], 0, datetime.now(timezone.utc) - timedelta(days=2), days=1)
    with Listener(server, context(tmp_path)) as listener:
        assert main(arguments(listener, "--tls-ca", tmp_path / "ca.pem")) == 1
    assert "the server's certificate is not accepted (certificate has expired)" in capsys.readouterr().err
    assert "expired" in listener.refusals[0]  # the server hears why, too


def test_tls_to_a_server_without_it_is_refused(server: ScriptedServer, make: Any) -> None:
    with Listener(server) as listener, pytest.raises(RunError, match="does not speak TLS"):
        client(listener, make(), [], Pauses(most=TLS_FAULTS), tls.device_context()).run()


def test_plain_bytes_to_a_server_with_tls_are_explained(trust: Path, server: ScriptedServer, make: Any) -> None:
    said: list[str] = []
    with Listener(server, context(trust)) as listener, pytest.raises(TimeoutError, match="goes on trying"):
        client(listener, make(), said, Pauses(most=1)).run()
    assert said == [
        f"{listener.address}: the server closed the connection without a message; with TLS it expects --tls; "
        "trying again"
    ]
    assert "WRONG_VERSION_NUMBER" in listener.refusals[0] or "HTTP_REQUEST" in listener.refusals[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--server", "example.org:1"], "is another machine; expected --tls and --key FILE, or --insecure"),
        (["--server", "example.org:1", "--tls"], "is another machine"),
        (["--server", "127.0.0.1"], "server '127.0.0.1'; expected HOST:PORT"),
        (["--capacity", "0"], "--capacity 0.0; expected 0 < capacity <= 1"),
        (["--give-up", "nan"], "--give-up nan; expected a number of seconds, or inf"),
        (["--max-seconds", "0"], "--max-seconds 0.0; expected 0 < seconds <= 1e+08"),
        (["--max-seconds", "nan"], "--max-seconds nan; expected 0 < seconds <= 1e+08"),
        (["--key", "nowhere"], "--key without --id"),
        (["--key", "nowhere", "--id", "0"], "key file nowhere: No such file"),
        (["--id", "-1"], "--id -1; expected 0 <= id"),
        (["--data", "nowhere.npz"], "nowhere.npz"),
        (["--tls-cert", "nowhere"], "expected both or neither"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_written(
    options: list[str], message: str, arguments: Any, server: ScriptedServer, tmp_path: Path, capsys: Any
) -> None:
    listener = Listener(server)
    assert main([*arguments(listener), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("localhost:80", "localhost", 80, True),
        ("127.9.9.9:65535", "127.9.9.9", 65535, True),
        ("[::1]:1", "::1", 1, True),
        ("10.0.0.1:1", "10.0.0.1", 1, False),
        ("localhost.example:1", "localhost.example", 1, False),
    ],
)
def test_addresses(text: str, host: str, port: int, loopback: bool) -> None:
    address = ServerAddress.parse(text)
    assert (address.host, address.port, address.is_loopback, str(address)) == (host, port, loopback, text)


@pytest.mark.parametrize("text", ["", "host", ":1", "host:", "host:0", "host:65536", "host:-1", "host:1x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="expected HOST:PORT"):
        ServerAddress.parse(text)


def test_a_device_loads_nothing_that_it_does_not_use() -> None:
    script = "import sys, edgefl.cli.cli, edgefl.cli.client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    unused = {
        "rich",
        "asyncio",
        "sqlite3",
        "matplotlib",
        "torch",
        "numba",
        "logging",
        "edgefl.models.graph.architectures",
    }
    unused |= {f"edgefl.methods.{file}" for file in methods.FILES.values()}
    assert not unused & set(loaded)
