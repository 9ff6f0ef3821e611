"""Small programs that went wrong once, in ../shared/cases: each runs unchanged, with its expected output or end.

Each kind has tables of its own beside the module that it is about. Here are the programs of the people.
"""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path

import pytest

from edgefl.errors import DataError

pytest.importorskip("torch", reason="the programs use torch")
CASES = Path(__file__).resolve().parent.parent.parent / "shared" / "cases"
WARNED = "ignore:.*:UserWarning", "ignore:.*:FutureWarning", "ignore:.*:DeprecationWarning"

PRINTED = {  # a part of what a program prints. A program that is right may print nothing
    "f01_frozen.py": ["frozen layer moved by 0.0"],
    "f02_one_sample.py": ["after rounds [] -> ValueError fedavg: clients 0, 1, 2, 3, 4 and 55 more have 1 training"],
    "f03_conv1d.py": ["from_torch first: 0."],
    "f04_fewest.py": ["{} 0.", "{'clients': 'all'} 0.", "{'clients': 3} 0."],
    "f06_prices.py": ["1 mse / variance 0.0", "50000.0 DataError y has spread 6.83e+04 and the untrained model is off"],
    "f07_labels.py": [
        "int accuracy 0.39583",
        "float64 accuracy 0.39583",
        "[N,1] accuracy 0.39583",
        "one-hot accuracy 0.39",
    ],
    "f08_empty_test.py": [
        "after rounds [] -> DataError data=data: x_test has 0 samples; expected test samples, or no x_test"
    ],
    "f09_unused.py": [],
}
ENDS = {
    "f05_big_column.py": "column 0 of x has spread 2.46e+09",
    "f10_nhwc.py": "data: x is uint8 (160, 16, 16, 3); expected axes=NHWC if the last 3 are channels, axes=NCHW",
}


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program's copy in a folder of its own, which is the working directory."""
    if not CASES.is_dir():
        pytest.skip("../shared/cases is not beside this checkout")
    for path in CASES.glob("*.py"):
        shutil.copyfile(path, tmp_path / path.name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "common", raising=False)
    return tmp_path / request.param


@pytest.mark.filterwarnings(*WARNED)
@pytest.mark.parametrize(("case", "lines"), PRINTED.items(), indirect=["case"])
def test_a_program_goes_to_its_end(case: Path, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(case))
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(lines)
    assert [line[: len(start)] for line, start in zip(printed, lines)] == lines


@pytest.mark.filterwarnings(*WARNED)
@pytest.mark.parametrize(("case", "message"), ENDS.items(), indirect=["case"])
def test_a_program_ends_with_one_sentence(case: Path, message: str) -> None:
    with pytest.raises(DataError) as error:
        runpy.run_path(str(case))
    assert str(error.value).startswith(message)
