"""`python -m bench build`: sizes are read from the wheel, a build that fails says why, and the page has the record."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from bench import build_cost
from bench.processes import ROOT


def test_sizes_are_those_of_the_native_files_and_of_the_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as content:
        content.writestr("x/libx.so", b"0" * 3_000_000)
        content.writestr("x/_core.cpython-311-x86_64-linux-gnu.so", b"0" * 500_000)
        content.writestr("x/page.txt", b"0" * 900_000)
    found = {each.what: each.value for each in build_cost.sizes(wheel)}
    assert found.pop("size of the wheel") == wheel.stat().st_size / 1e6 < 0.1
    assert found == {"size of libx": 3.0, "size of _core": 0.5}


def test_a_build_that_fails_is_told_with_pip_s_words(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("raise SystemExit('no compiler of this name')\n")
    with pytest.raises(RuntimeError, match="no compiler of this name"):
        build_cost.build(tmp_path, tmp_path / "wheels")


def test_the_page_has_the_figures_of_the_record() -> None:
    lines = map(json.loads, (ROOT / "bench/build_cost.jsonl").read_text().splitlines()[1:])
    found = {each["what"]: each["value"] for each in lines}
    said = " ".join((ROOT / "docs/releasing.md").read_text().split())
    wall, processor = (found[f"build of the wheel: {kind} time"] for kind in ("wall", "processor"))
    assert f"{wall:.1f} s and {processor:.0f} s of processor time" in said
    library, module, wheel = (found[f"size of {name}"] for name in ("libedgefl", "_core", "the wheel"))
    assert f"wheel of {wheel:.2f} MB, `libedgefl.so` has {library:.2f} MB and `_core` has {module:.2f} MB" in said
