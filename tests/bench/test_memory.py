"""What a training process holds. The bar is the project's: 70 MB for the CIFAR CNN at a batch of 16, without torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.memory import resident


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")
def test_training_the_cifar_cnn_stays_under_70_mb() -> None:
    command = [sys.executable, "-m", "bench.memory", "fedspu_cifar", "16", "1.0"]
    root = Path(__file__).parents[2]
    row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=root).stdout)
    assert row["import_mb"] < row["resident_mb"] <= row["peak_mb"] < 70


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")
def test_unknown_field_is_named() -> None:
    with pytest.raises(OSError, match="VmNothing"):
        resident("VmNothing")
