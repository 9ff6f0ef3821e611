"""A bad file costs little memory and is one short sentence."""

from __future__ import annotations

import io
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from edgefl.errors import DataError, RequestError
from edgefl.experiment.client_dataset import read_partition
from edgefl.experiment.data import csv_text
from edgefl.experiment.data.csv_table import read_table
from edgefl.experiment.data.label_names import few, shortened
from edgefl.experiment.data.npz import read_npz
from edgefl.protocol.trust.keys import LARGEST_KEY, LARGEST_TABLE, read_key
from edgefl.protocol.trust.keys import read_table as read_keys

MB = 1_000_000


def npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def zeros(path: Path, rows: int, labels: int) -> None:
    """An npz file whose x are rows of 250,000 zeros, 1 MB each, written without holding them."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (rows, 250_000)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("y.npy", npy(np.zeros(labels, np.int32)))
        with archive.open("x.npy", "w") as stream:
            stream.write(header.getvalue())
            for _ in range(rows):
                stream.write(bytes(MB))


def test_an_archive_of_many_names_is_a_short_sentence(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for number in range(60_000):
            archive.writestr(f"n{number:05d}.npy", b"")
    with pytest.raises(DataError) as error:
        read_npz(tmp_path / "a.npz")
    assert "no array y or y_train among n00000, n00001," in str(error.value)
    assert str(error.value).endswith("n00019, and 59980 more; expected one of them")
    assert len(str(error.value)) < 400 + len(str(tmp_path))


def test_names_in_a_sentence() -> None:
    assert few(["a", "b"]) == "a, b"
    assert few([str(n) for n in range(21)]).endswith("18, 19, and 1 more")
    assert shortened("x" * 61) == "x" * 60 + "... (61 characters)"
    assert shortened("x" * 60) == "x" * 60


def test_labels_of_another_number_are_named_before_x_is_unpacked(tmp_path: Path) -> None:
    zeros(tmp_path / "a.npz", 300, 7)
    code = "import pathlib\nfrom edgefl.experiment.data.npz import read_npz\n"
    code += f"read_npz(pathlib.Path({str(tmp_path)!r}, 'a.npz'))"
    done = subprocess.run(
        [sys.executable, "-c", f"{LIMITED}\n{code}"], capture_output=True, text=True, check=False, timeout=60
    )
    assert "y is int32 (7,); expected int32 (300,), as x is float32 (300, 250000)" in done.stderr


LIMITED = """
import numpy, resource
with open("/proc/self/status") as status:
    size = next(int(line.split()[1]) for line in status if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (1024 * size + 200_000_000,) * 2)  # 100 MB fewer than x takes
"""


def test_samples_that_unpack_beyond_the_limit_are_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    zeros(path, 100, 100)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match=r"bytes that unpack to 1000\d+; the limit is --max-memory 64000000"):
        read_partition(path, 64 * MB)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


def test_what_is_as_large_as_its_file_is_read_under_any_limit(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((10, 1000), np.float32), y=np.arange(10, dtype=np.int32))
    samples, _ = read_partition(tmp_path / "a.npz", 1)
    assert samples.x.shape == (10, 1000)
    np.savez_compressed(tmp_path / "b.npz", x=np.ones((10, 1000), np.float32), y=np.arange(10, dtype=np.int32))
    with pytest.raises(DataError, match="expected fewer samples, or an npz file that is not compressed"):
        read_partition(tmp_path / "b.npz", 1000)
    assert len(read_partition(tmp_path / "b.npz", 1 << 20)[0]) == 10


@pytest.mark.parametrize("content", [b"a,y\n1,", b""])
def test_a_line_without_an_end_is_refused_early(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_text, "LONGEST_LINE", 1000)
    path = tmp_path / "a.csv"
    with open(path, "wb") as stream:
        stream.write(content)
        stream.truncate(1 << 34)  # 16 GiB of zeros, of which the disk holds nothing
    with pytest.raises(DataError, match=r"line [12] has more than 1000 characters; expected a table as text"):
        read_table(path)


def test_a_long_cell_is_shown_in_part(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,y\n1,0\n" + "x" * 5000 + ",1\n")
    with pytest.raises(DataError, match=r"line 3 has 'xxx.*\(5000 characters\)' in column a") as error:
        read_table(path)
    assert len(str(error.value)) < 300 + len(str(path))


@pytest.mark.parametrize("most", [LARGEST_KEY, LARGEST_TABLE])
def test_a_huge_key_file_is_refused_after_its_first_bytes(most: int, tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    with open(path, "wb") as stream:
        stream.truncate(1 << 34)
    path.chmod(0o600)
    with pytest.raises(RequestError, match=f"has more than {most} bytes; expected a file that `edgefl keys` wrote"):
        (read_key if most == LARGEST_KEY else read_keys)(path)
