"""A device killed at any durable step ends bit-identical to one that lived on. The killing is device_crash.py's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("device_crash.py")
ROOT = PROGRAM.parents[3]


def test_a_device_killed_at_any_step_ends_as_if_it_had_lived_on(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["signals"] == [signal.SIGKILL] * len(found["steps"])
    assert found["different"] == []
    for step in (
        "os.rename .device.json.tmp",
        "open model.part",
        "os.rename model.part",
        "open .pending.safetensors.tmp",
        "fsync",
        "os.rename .pending.safetensors.tmp",
        "send Trained",
        "handle Verdict",
        "os.rename pending.safetensors",
        "os.remove pending.safetensors",
        "send Evaluated",
    ):
        assert step in found["steps"]
