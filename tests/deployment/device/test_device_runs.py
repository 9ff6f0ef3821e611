"""One state directory for several runs, one after the other: whose is what, what is kept, and what a crash may not
lose.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgefl.deployment.device import run_folders
from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_state import DeviceState
from edgefl.deployment.device.run_folders import StateDirectory, name_of
from edgefl.deployment.device.run_query import RunInquiry
from edgefl.deployment.device.state_reader import folder_of, read_device, runs_of
from edgefl.errors import AuthError, DataError, RunError
from edgefl.experiment.client_dataset import partition_file, read_partition
from edgefl.experiment.federation import Federation
from edgefl.learning import Samples
from tests.deployment.device.device_cases import EXPERIMENT, METHODS, scripted, world
from tests.deployment.device.device_server import ScriptedServer, converse

KEYS = {"a": bytes(range(32)), "b": bytes(range(1, 33)), "": None}


@pytest.fixture
def serving(federation: Federation) -> Callable[..., ScriptedServer]:
    """Return a maker of servers with a run of one round. `key` is the key that server and device share."""

    def of(run: str, key: str = "") -> ScriptedServer:
        return replace(scripted(federation, METHODS["fedavg"], [1]), run=run, key=KEYS[key])

    return of


def attend(path: Path, server: ScriptedServer, data: Data, key: str = "") -> Path:
    """Take part in what the server serves, to its end, in a process of the device. Return the run's folder."""
    profile = DeviceProfile(None if KEYS[key] is None else 0, KEYS[key], 1.0, 1 << 20)
    directory = StateDirectory(path)
    try:
        visit = RunInquiry(profile.client, profile.key)
        converse(visit, server)  # type: ignore[arg-type]
        assert visit.finished is not None
        state = directory.open(visit.finished, profile.key)
        device = Device(state, profile, data, world(random_bytes=secrets.token_bytes))
        converse(device, server)
        assert device.finished is not None
        directory.over(state.path, visit.finished, device.finished)
        return state.path
    finally:
        directory.close()


def files_of(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


@pytest.fixture
def data(partitions: Path) -> Data:
    return Data(*read_partition(partition_file(partitions, 0)))


def test_runs_follow_one_another(serving: Callable[..., ScriptedServer], data: Data, tmp_path: Path) -> None:
    """There are three servers, one without keys and two with keys, and one serves twice. Each run has its own folder
    and secret.
    """
    servers = [serving("one"), serving("two"), serving("two", "a"), serving("two", "b"), serving("three", "a")]
    directories = [attend(tmp_path / "state", server, data, _key(server)) for server in servers]
    assert len(set(directories)) == len(servers)
    assert len({server.secret for server in servers[:2]}) == 1 + 1  # what one server knows does not open another's
    assert all(list(server.replies) == [1] for server in servers)
    records = runs_of(tmp_path / "state")
    assert sorted(record.run for record in records) == sorted(server.run for server in servers)
    assert {(record.round, record.over) for record in records} == {(1, "all rounds are done")}
    with pytest.raises(RunError, match=r"has 5 runs; expected the folder of one of them: .*\(fedavg of run one\)"):
        folder_of(tmp_path / "state")
    assert read_device(directories[0]).run == "one"
    before = {root: files_of(root).keys() for root in directories}
    attend(tmp_path / "state", servers[0], data)  # a run that is over says so again
    assert {root: files_of(root).keys() for root in directories} == before


def _key(server: ScriptedServer) -> str:
    return next(name for name, key in KEYS.items() if key == server.key)


@pytest.mark.parametrize("key", ["", "b"], ids=["without keys", "with another key"])
def test_a_server_that_names_another_ones_run_gets_nothing_of_it(
    key: str, serving: Callable[..., ScriptedServer], data: Data, tmp_path: Path
) -> None:
    """It gets nothing even if it knows all that the device was told there."""
    for of_run, mine in (("", serving("run")), ("a", serving("keyed", "a"))):
        root = attend(tmp_path / "state", mine, data, of_run)
        before, false = files_of(root), serving(mine.run, key)
        false.evaluate = None
        if KEYS[key] is None and mine.key is None:
            with pytest.raises(AuthError, match="the server: proof"):
                attend(tmp_path / "state", false, data, key)
        else:
            assert attend(tmp_path / "state", false, data, key) != root
        assert _but_lives(files_of(root)) == _but_lives(before)
        assert not mine.secret or false.secret != mine.secret


def _but_lives(files: dict[str, bytes]) -> dict[str, object]:
    """Return the files without what differs from one start of the device to the next."""
    return {**files, "identity.json": json.loads(files["identity.json"])["secret"]}


def test_a_visit_believes_only_the_key(serving: Callable[..., ScriptedServer]) -> None:
    visit = RunInquiry(0, KEYS["a"])
    with pytest.raises(AuthError, match=r"the server: proof .* is wrong"):
        converse(visit, serving("run", "b"))  # type: ignore[arg-type]
    assert visit.finished is None


def test_a_server_that_changes_its_run_meanwhile_is_refused(
    serving: Callable[..., ScriptedServer], data: Data, tmp_path: Path
) -> None:
    directory = StateDirectory(tmp_path)
    device = Device(directory.open("first", None), DeviceProfile(None, None, 1.0, 1 << 20), data, world())
    with pytest.raises(RunError, match="the server serves run second now; expected run first"):
        converse(device, serving("second"))
    assert not (device._state.path / "device.json").exists()
    directory.close()


def test_a_directory_of_an_earlier_version_goes_on(
    serving: Callable[..., ScriptedServer], data: Data, tmp_path: Path
) -> None:
    """Its only run lies in the directory itself, and stays there. Other runs get folders, and another server cannot
    take it.
    """
    old, before = serving("old", "a"), StateDirectory(tmp_path)
    state = DeviceState(tmp_path, held=before._lock)
    device = Device(state, DeviceProfile(0, KEYS["a"], 1.0, 1 << 20), data, world())
    converse(device, old)
    before.close()
    assert (tmp_path / "local.safetensors").exists()
    assert attend(tmp_path, serving("new", "b"), data, "b") == tmp_path / "runs" / name_of("new", KEYS["b"])
    assert attend(tmp_path, old, data, "a") == tmp_path
    assert attend(tmp_path, serving("old", "b"), data, "b") == tmp_path / "runs" / name_of("old", KEYS["b"])
    assert len(runs_of(tmp_path)) == 3
    (tmp_path / "identity.json").unlink()
    with pytest.raises(
        RunError, match=r"identity\.json is missing, although device\.json is there; expected both files"
    ):
        attend(tmp_path, old, data, "a")


def test_a_folder_is_of_one_run(serving: Callable[..., ScriptedServer], data: Data, tmp_path: Path) -> None:
    root = attend(tmp_path, serving("one"), data)
    shutil.copytree(root, root.with_name(name_of("two", None)))
    with pytest.raises(RunError, match=r"belongs to the folder .*; expected .*: the file was copied or moved"):
        attend(tmp_path, serving("two"), data)


def test_runs_that_are_over_make_room(serving: Callable[..., ScriptedServer], data: Data, tmp_path: Path) -> None:
    """Killed before any of its steps, a prune leaves what the next one completes, and no half of a run to be used."""
    servers = [serving(f"run {number}") for number in range(4)]
    directories = [attend(tmp_path / "state", server, data) for server in servers]
    for number in range(100):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(tmp_path / "state", copy)
        directory = StateDirectory(copy)
        broken = _broken_off(lambda: directory.prune(1), number)  # noqa: B023
        directory.close()
        left = StateDirectory(copy)
        left.prune(1)
        for root, server in zip(directories, servers):
            here = copy / "runs" / root.name
            if server is servers[-1]:
                assert files_of(here) == files_of(root)
                continue
            assert list(files_of(here)) == ["over.json"]
            with pytest.raises(RunError, match=f"{server.run} is over, and the files in .* were removed since"):
                left.open(server.run, None)
        left.close()
        if not broken:
            break
    assert number > 10
    assert [record.over for record in runs_of(copy)] == ["all rounds are done"] * 4


def _broken_off(work: Callable[[], object], after: int) -> bool:
    """Return whether the work ended before its end, after so many files were removed or renamed."""

    class KilledError(Exception):
        pass

    done, originals = 0, {name: getattr(Path, name) for name in ("unlink", "rmdir")}

    def counted(name: str) -> Callable[..., None]:
        def act(path: Path, *arguments: object, **options: object) -> None:
            nonlocal done
            if done == after:
                raise KilledError
            done += path.exists()
            originals[name](path, *arguments, **options)

        return act

    with pytest.MonkeyPatch.context() as patch:
        for name in originals:
            patch.setattr(Path, name, counted(name))
        try:
            work()
        except KilledError:
            return True
    return False


def test_a_server_cannot_fill_the_disk_with_runs(
    serving: Callable[..., ScriptedServer], data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folders, "MOST_OPEN", 2)
    monkeypatch.setattr(run_folders, "MOST_BEGUN", 3)
    for name in ("one", "two"):
        (attend(tmp_path, serving(name), data) / "over.json").unlink()
    with pytest.raises(RunError, match="has 2 unfinished runs; expected fewer than 2: remove"):
        attend(tmp_path, serving("three"), data)
    shutil.rmtree(tmp_path / "runs" / name_of("two", None))
    directory = StateDirectory(tmp_path)
    for number in range(9):
        directory.open(f"begun {number}", None).begin(bytes)
    assert len(list((tmp_path / "runs").iterdir())) == 1 + 3
    directory.close()


def test_samples_that_have_grown_are_the_newest(serving: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """Within a run the device has as many samples as it declared. The next run is told of all."""
    rng = np.random.default_rng(0)
    shape = scripted_shape(serving("any"))
    x, y = rng.random((60, *shape), np.float32), rng.integers(0, 3, 60).astype(np.int32)
    old, grown = Data(Samples(x[:40], y[:40]), None), Data(Samples(x, y), None)
    assert (grown.newest([40]).samples.y == y[20:]).all()
    parts = Data(Samples(x, y), replace(old.parts(serving("any").welcome), test=np.arange(50, 60, dtype=np.int32)))
    fewer = [len(parts.split.train) - 3, len(parts.split.validation), 4]  # type: ignore[union-attr]
    assert parts.newest(fewer).counts == fewer
    assert (parts.newest(fewer).split.test == np.arange(56, 60)).all()  # type: ignore[union-attr]
    with pytest.raises(DataError, match="40 samples; expected at least 60, as this device declared to the server"):
        old.newest([60])
    server = serving("one")
    attend(tmp_path, server, old)
    directory = StateDirectory(tmp_path)
    profile = DeviceProfile(None, None, 1.0, 1 << 20, accepts_data=True)
    device = Device(directory.open("one", None), profile, grown, world())
    assert device._data.counts == [40]
    device.renew(grown)
    assert (device._data.samples.x == x[20:]).all()
    directory.close()


def scripted_shape(server: ScriptedServer) -> tuple[int, ...]:
    from edgefl.protocol.wire.model_message import unpack

    assert server.welcome.seed == EXPERIMENT.seed
    return unpack(server.model).graph.input_shape
