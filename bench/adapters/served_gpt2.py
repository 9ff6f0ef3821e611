"""A federation that trains adapters of GPT-2 124M on one device, without a memory limit and with one: the memory of the
server, of the device, and of a process that loads the model's file.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.adapters.gpt2 import BATCH, WORDS, model_file
from bench.adapters.served import Case, roles, served
from bench.processes import python

LIMITS = {"gpt2, fedavg": (), "gpt2, fedavg, --max-memory 900MB": ("--max-memory", "900MB")}
OPTIONS = ("--rounds", "2", "--eval-every", "2", "--batch", str(BATCH))
SAMPLES = 8  # of the device. Training has five of them
LOADING = """
import sys
from pathlib import Path
from edgefl.models.graph import model_files
model = model_files.load(sys.argv[1])
lines = Path("/proc/self/status").read_text().splitlines()
print(sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")))
"""


def measured(folder: Path, repeats: int) -> Iterator[dict[str, object]]:
    """Yield a row without a limit and a row with one. `repeats` does not matter here."""
    model = model_file(folder)
    loaded = subprocess.run(python("-c", LOADING, str(model)), capture_output=True, text=True, check=True)
    for name, limit in LIMITS.items():
        with tempfile.TemporaryDirectory() as path:
            device = ("--max-model", "1GB", *limit)
            case = Case(name, "fedavg", model, roles(Path(path), 1, WORDS, SAMPLES), OPTIONS, 1, device)
            yield {**served(Path(path), case), "load_peak": int(loaded.stdout)}
