"""Two builds in turns: each step is of the folder that it is said to be of."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import builds

ROOT = Path(builds.__file__).resolve().parent.parent


def test_both_builds_have_a_time_a_ratio_and_a_mean(capsys: pytest.CaptureFixture[str]) -> None:
    code = builds.main([f"new={ROOT}", f"old={ROOT}", "--models", "digits_cnn", "--starts", "1", "--turns", "2"])
    *rows, mean = capsys.readouterr().out.splitlines()
    numbers = [[float(text) for text in re.findall(r"[\d.]+", row.removeprefix("digits_cnn"))] for row in rows]
    assert [row[0] for row in numbers] == [1, 0.2]
    assert [row[3] for row in numbers] == [pytest.approx(row[1] / row[2], abs=0.02) for row in numbers]
    taken = re.fullmatch(r"new takes ([\d.]+) of the CPU time of old \(geometric mean\)", mean)
    assert taken and float(taken[1]) == pytest.approx((numbers[0][3] * numbers[1][3]) ** 0.5, abs=0.002)
    assert float(taken[1]) == 1.02 or code == (float(taken[1]) > 1.02)


def test_a_folder_without_a_build_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        builds.main([f"new={tmp_path}", f"old={ROOT}"])
    assert f"'new={tmp_path}'; expected NAME=FOLDER, where edgefl/libedgefl.so lies in it" in capsys.readouterr().err


def test_a_worker_times_no_other_folder_s_build(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.builds_worker", "digits_cnn", "1"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"edgefl came from {ROOT}/edgefl/__init__.py; expected it in {tmp_path}\n"
