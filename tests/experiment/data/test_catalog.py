"""Finding data sets: the order of places, folders and archives, what is said when nothing is there."""

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.data import catalog
from edgefl.experiment.data.catalog import NAMES, PACKAGED, PUBLISHED, load, load_published, shape_of
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.data.locate import candidates, holds, roots
from edgefl.experiment.data.published import Download, PublishedDataSet


class OneFile:
    """A reader whose data set is one byte in one file: the label of a black pixel."""

    name = "one"
    files = ("one.bin",)

    def read(self, source: Path) -> DataSet:
        path = source / "one.bin" if source.is_dir() else source
        label = np.array([path.read_bytes()[0]], np.int32)
        return DataSet("one", np.zeros((1, 1, 1, 1), np.uint8), label, 256, 1.0, 0.0)


def published(url: str = "http://127.0.0.1:9/one.bin", archive: str | None = None) -> PublishedDataSet:
    digest = "md5:" + hashlib.md5(b"\x05").hexdigest()
    return PublishedDataSet(OneFile(), ("One/raw", "one"), (Download(url, digest),), archive)


def put(folder: Path, label: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "one.bin").write_bytes(bytes([label]))


def test_roots_in_order(tmp_path: Path) -> None:
    found = roots(tmp_path, {"EDGEFL_DATA": "/elsewhere", "XDG_CACHE_HOME": "/cache"})
    assert found == [tmp_path, Path("/elsewhere"), Path("/cache/edgefl"), Path("/usr/share/datasets")]
    assert roots(None, {"XDG_CACHE_HOME": "/cache"})[0] == Path("/cache/edgefl")


def test_first_place_wins(tmp_path: Path) -> None:
    put(tmp_path / "a" / "one", 1)
    put(tmp_path / "b" / "One" / "raw", 2)
    found = load_published(published(), [tmp_path / "a", tmp_path / "b"], fetch=False)
    assert found.y.tolist() == [1]
    assert load_published(published(), [tmp_path / "c", tmp_path / "b"], fetch=False).y.tolist() == [2]


def test_root_may_be_the_data_sets_own_folder(tmp_path: Path) -> None:
    put(tmp_path / "one", 3)
    assert load_published(published(), [tmp_path / "one"], fetch=False).y.tolist() == [3]


def test_bare_files_in_a_root_are_not_guessed_at(tmp_path: Path) -> None:
    put(tmp_path, 3)  # MNIST and Fashion-MNIST files have the same names
    with pytest.raises(DataError, match="one: not found"):
        load_published(published(), [tmp_path], fetch=False)


def test_archive_is_found_beside_the_folders(tmp_path: Path) -> None:
    put(tmp_path, 4)
    assert load_published(published(archive="one.bin"), [tmp_path], fetch=False).y.tolist() == [4]


def test_zipped_files_count(tmp_path: Path) -> None:
    (tmp_path / "one.bin.gz").write_bytes(b"")
    assert holds(tmp_path, ["one.bin"]) and not holds(tmp_path, ["one.bin", "two.bin"])


def test_downloaded_once_then_found(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    put(tmp_path / "server", 5)
    url = (tmp_path / "server" / "one.bin").as_uri()
    assert load_published(published(url), [tmp_path / "home"]).y.tolist() == [5]
    assert (tmp_path / "home" / "One" / "raw" / "one.bin").is_file()
    assert load_published(published(), [tmp_path / "home"]).y.tolist() == [5]


def test_nothing_found_lists_the_places(tmp_path: Path) -> None:
    with pytest.raises(DataError) as failure:
        load_published(published(), [tmp_path])
    for location in candidates([tmp_path], ("One/raw", "one"), None):
        assert str(location) in str(failure.value)
    assert "refused" in str(failure.value) and "EDGEFL_DATA" in str(failure.value)


def test_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="data set 'nonsense'; expected one of digits, spoken-digits, mnist, fashion"):
        load("nonsense", tmp_path)


def test_every_published_set_has_checked_downloads() -> None:
    assert list(NAMES) == ["digits", "spoken-digits", *PUBLISHED]
    for name in PACKAGED:
        assert shape_of(name) == load(name).input_shape
    assert shape_of("mine.npz") is None
    for item in PUBLISHED.values():
        assert item.downloads and item.folders
        for each in item.downloads:
            assert re.fullmatch(r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", each.digest), each
        assert item.archive is None or [each.file for each in item.downloads] == [item.archive]


def test_packaged_people_are_as_their_page_says() -> None:
    """The content is the content that its licence is for. All persons have equally many digits."""
    data = load("spoken-digits")
    assert data.groups is not None
    arrays = (data.x[:, 0], data.y, data.groups)
    found = hashlib.sha256(b"".join(array.astype(np.uint8).tobytes() for array in arrays)).hexdigest()
    page = Path(catalog.__file__).with_name("spoken-digits.README.md").read_text()
    assert found in page and "CC BY-SA 4.0" in page
    assert data.group_names == ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
    assert (np.bincount(data.groups * 10 + data.y) == 30).all()
    assert (data.scale, data.shift) == (2 / 255, -1.0)


def test_emnist_splits() -> None:
    letters = PUBLISHED["emnist-letters"].reader
    assert letters.files[0] == "emnist-letters-train-images-idx3-ubyte"
    assert letters.files[3] == "emnist-letters-test-labels-idx1-ubyte"
