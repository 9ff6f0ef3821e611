"""The fuzzed readers on their corpora, which are the inputs that coverage-guided runs kept (see CONTRIBUTING.md)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import targets

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"

LARGEST_BYTES = 32 << 10  # of a corpus


@pytest.fixture(scope="module", autouse=True)
def tidied() -> Iterator[None]:
    yield
    targets.clean()


@pytest.mark.parametrize("name", targets.TARGETS)
def test_a_reader_holds_on_its_corpus(name: str) -> None:
    found = sorted((CORPUS / name).iterdir())
    assert found
    for file in found:
        targets.TARGETS[name](file.read_bytes())


def test_seeds_are_accepted_and_not_all_refused_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A harness that refuses everything would find nothing."""
    taken = []
    monkeypatch.setattr(targets, "pack", lambda found: taken.append(found) or (CORPUS / "model" / "small").read_bytes())
    targets.model((CORPUS / "model" / "small").read_bytes())
    assert taken


def test_corpora_are_small_and_known() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == {*targets.TARGETS, "abi"}
    for folder in CORPUS.iterdir():
        assert sum(file.stat().st_size for file in folder.iterdir()) <= LARGEST_BYTES, folder.name


def test_the_c_abi_holds_on_its_corpus(tmp_path: Path) -> None:
    """The harness of libFuzzer with a main of its own, on the library as it is installed."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    library = HERE.parents[1] / "edgefl" / "libedgefl.so"
    if compiler is None or not library.exists():
        pytest.skip("needs a C++ compiler and the native library")
    sources = HERE.parents[1] / "csrc"
    subprocess.run([sys.executable, sources / "generate.py", tmp_path / "generated"], check=True)
    command = [compiler, "-std=c++2a", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path / 'generated'}", f"-I{sources}"]
    command += [HERE / "abi.cc", HERE / "replay.cc", library]
    subprocess.run([*command, f"-Wl,-rpath,{library.parent}", "-o", tmp_path / "replay"], check=True)
    files = sorted((CORPUS / "abi").iterdir())
    done = subprocess.run([tmp_path / "replay", *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{len(files)} inputs\n"), done.stderr
