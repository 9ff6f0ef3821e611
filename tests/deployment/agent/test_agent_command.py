"""`edgefl agent` as its owner meets it: settings that are wrong, --check, --status, and data that change."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.cli.cli import main
from edgefl.cli.size_arguments import size
from edgefl.deployment.agent.activity_file import Activity, write_activity
from edgefl.deployment.agent.agent_settings import read_settings
from edgefl.deployment.agent.sample_file import SampleFile
from edgefl.deployment.device.request_limits import Bounds
from edgefl.deployment.device.run_folders import StateDirectory
from edgefl.deployment.device.secure_settings import warning
from edgefl.errors import DataError, RequestError
from edgefl.protocol.trust.identity_files import make_identity, make_operator
from tests.forked import ForkedCommand
from tests.forked_commands import run_edgefl

PLAIN = 'state = "state"\ndata = "data.npz"\n'
SERVER = '[[servers]]\naddress = "127.0.0.1:7000"\n'


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 reads no TOML")
def test_settings_are_read_and_what_is_wrong_is_named(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    (tmp_path / "my.key").write_text("00" * 32 + "\n")
    (tmp_path / "my.key").chmod(0o600)
    file.write_text(
        PLAIN
        + 'keep_runs = 1\nturn_s = 7\n[limits]\nmax_memory = "64MB"\nmax_seconds = 90\ncapacity = 0.5\npace = false\n'
        + '[tags]\nsite = "north"\n'
        + '[conditions]\npower = 0.6\nmax_celsius = 70\nhours = ["22:00-06:00"]\nmetered = ["check", "it"]\n'
        + SERVER
        + '[[servers]]\naddress = "board.example:7001"\nid = 3\nkey = "my.key"\ntls = true\nmethods = ["fedspu"]\n'
        + 'runs = ["abc"]\ndata = "/data/others.npz"\ntags = { site = "3" }\nsleep = true\n'
    )
    found = read_settings(file, size)
    assert (found.state, found.keep_runs, found.intervals.turn_s, found.intervals.check_s) == (
        tmp_path / "state",
        1,
        7,
        5,
    )
    here, there = found.server_entries
    assert here.profile.bounds == Bounds(256 << 20, 64_000_000, 90)
    assert not here.profile.reports_throughput
    assert (here.profile.tags, here.profile.sleeps) == ({"site": "north"}, False)
    assert (there.profile.tags, there.profile.sleeps) == ({"site": "3"}, True)
    assert (there.profile.client, there.profile.key, there.profile.methods) == (3, bytes(32), ("fedspu",))
    assert (there.runs, str(there.data), here.data) == (("abc",), "/data/others.npz", tmp_path / "data.npz")
    assert str(found.conditions.hours[0]) == "22:00-06:00"
    for text, message in (
        ("state = ", "cannot be read"),
        (SERVER, "servers[0].data is missing"),
        (PLAIN, "has no servers; expected state, a folder, and [[servers]]"),
        (PLAIN + "sate = 1\n" + SERVER, "sate = 1 is not an entry; the nearest is state"),
        (PLAIN + "sleep = 3\n" + SERVER, "sleep = 3; expected true or false"),
        (PLAIN + 'tags = ["site"]\n' + SERVER, "tags = ['site']; expected a table of texts"),
        (PLAIN + SERVER + "tags = { site = 3 }\n", "servers[0].tags = {'site': 3}; tag site has the value 3; expected"),
        (PLAIN + "check_s = 0\n" + SERVER, "check_s = 0; expected 0 < seconds"),
        (PLAIN + '[limits]\nmax_memory = "much"\n' + SERVER, "limits.max_memory = 'much'; 'much'; expected a size"),
        (PLAIN + "[limits]\npace = 1\n" + SERVER, "limits.pace = 1; expected true or false"),
        (PLAIN + '[conditions]\npower = "sun"\n' + SERVER, "conditions.power = 'sun'; expected a number"),
        (PLAIN + '[conditions]\nhours = "late"\n' + SERVER, "conditions.hours = 'late'; expected a list of texts"),
        (PLAIN + SERVER + "id = -1\n", "servers[0].id = -1; expected a whole number"),
        (PLAIN + SERVER + 'methods = ["fedup"]\n', "method=fedup; the nearest are fed"),
        (PLAIN + SERVER + 'key = "my.key"\n', "servers[0].key is set without id"),
        (
            PLAIN + SERVER.replace("127.0.0.1", "10.0.0.1"),
            "is on another machine; expected tls = true and a key, or insecure",
        ),
        (PLAIN + SERVER.replace(":7000", ""), "servers[0].address = '127.0.0.1'"),
    ):
        file.write_text(text)
        with pytest.raises(RequestError) as error:
            read_settings(file, size)
        assert str(file) in str(error.value), text
        assert message in str(error.value), text


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 reads no TOML")
def test_a_server_can_ask_for_secure_runs_alone(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    operator, identity = make_operator(tmp_path / "boss"), make_identity(tmp_path / "me")
    more = 'identity = "me"\noperator = "boss.pub"\nfederation = "home"\nsecure_least = 4\nsecure_colluders = 1\n'
    handed = 'identity = "me"\ninsecure = true\n'
    file.write_text(PLAIN + SERVER + more + SERVER + handed + SERVER)
    strict, trusting, plain = (entry.profile.secure for entry in read_settings(file, size).server_entries)
    assert strict is not None and strict[1:] == (operator.public, "home", 4, 1)
    assert strict.identity.public == identity.public
    assert trusting is not None and trusting.operator is None
    assert plain is None
    assert warning(trusting).startswith("insecure: without operator, the server says who the other devices are.")
    assert not warning(strict) and not warning(plain)
    for words, message in (
        (
            'identity = "me"\n',
            f"servers[0].identity {tmp_path / 'me'} without operator; expected both, or insecure, with",
        ),
        ('operator = "boss.pub"\n', "without identity; expected both"),
        (handed + 'federation = "home"\n', "servers[0].federation home without operator; expected both"),
        (handed + "secure_least = 2\n", "servers[0].secure_least 2 and secure_colluders 0; expected at least 3"),
        ('identity = "boss"\ninsecure = true\n', "expected a device's identity, which"),
    ):
        file.write_text(PLAIN + SERVER + words)
        with pytest.raises(RequestError) as error:
            read_settings(file, size)
        assert str(file) in str(error.value) and message in str(error.value)


def agent(tmp_path: Path, **more: Any) -> list[str]:
    """Return a command line. Its file is JSON, which every Python reads."""
    servers = [{"address": "127.0.0.1:9"}]
    settings = {"state": "state", "data": "data.npz", "servers": servers, "check_s": 0.1, **more}
    (tmp_path / "agent.json").write_text(json.dumps(settings))
    return ["agent", str(tmp_path / "agent.json"), "--root", str(tmp_path / "root")]


def test_status_tells_each_condition_with_its_value_and_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zone = tmp_path / "root/sys/class/thermal/thermal_zone0"
    zone.mkdir(parents=True)
    words = agent(tmp_path, conditions={"max_celsius": 60, "power": "mains"})
    for celsius, code, mark in (("48000", 0, "yes"), ("66600", 1, "NO")):
        (zone / "temp").write_text(celsius)
        assert main([*words, "--status"]) == code
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "agent: not running"
        (row,) = [line.split() for line in lines if "temperature" in line]
        assert row == ["temperature", f"{int(celsius) / 1000:.1f}", "at", "most", "60.0", mark]
    directory = StateDirectory(tmp_path / "state")
    write_activity(directory.path, Activity(1, 0.0, "training round 3 of fedspu"))
    main([*words, "--status"])
    assert capsys.readouterr().out.splitlines()[0].endswith(" s: training round 3 of fedspu")
    directory.close()
    main([*words, "--status"])
    assert capsys.readouterr().out.splitlines()[0] == "agent: not running"


def test_check_reads_the_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*agent(tmp_path), "--check"]
    assert main(words) == 2
    missing = f"server 127.0.0.1:9: {tmp_path / 'data.npz'}: no such file or directory; expected"
    assert missing in capsys.readouterr().err
    np.savez(tmp_path / "data.npz", x=np.zeros((5, 3), np.float32), y=np.arange(5, dtype=np.int32))
    assert main(words) == 0
    said = capsys.readouterr().err
    assert f"agent.json: 1 server: 127.0.0.1:9 (5 samples in {tmp_path / 'data.npz'}); state in {tmp_path}" in said
    (tmp_path / "data.npz").write_bytes(b"damaged")
    assert main(words) == 2
    assert "expected an undamaged file" in capsys.readouterr().err
    assert main(["agent", str(tmp_path / "none.json"), "--check"]) == 2


def test_an_agent_whose_conditions_do_not_hold_asks_nobody(tmp_path: Path) -> None:
    """It says why, and waits. A second agent may not use its directory."""
    words = agent(tmp_path, conditions={"max_celsius": 60})
    with ForkedCommand(words) as first:
        assert first.stderr is not None
        assert first.stderr.readline()[20:] == "INFO not training: temperature unknown; expected at most 60.0\n"
        second = run_edgefl(*words)
        assert (second.returncode, second.stderr.count("is in use by another process")) == (1, 1)


def test_samples_are_read_again_when_their_file_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, x=np.zeros((9, 1, 8, 8), np.float32), y=np.arange(9, dtype=np.int32) % 3)
    samples = SampleFile(path)
    first = samples.newest()
    assert samples.newest() is first
    np.savez(tmp_path / "new.npz", x=np.ones((12, 1, 8, 8), np.float32), y=np.arange(12, dtype=np.int32) % 3)
    (tmp_path / "new.npz").rename(path)
    assert samples.has_changed()
    assert len(samples.newest().samples) == 12
    assert not samples.has_changed()
    path.write_bytes(b"half")
    with pytest.raises(DataError):
        samples.newest()
