"""Virtual environments for trainers that edgefl does not depend on: made once, each in a folder of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.processes import ROOT

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "onnxruntime": ("onnxruntime-training-cpu==1.19.2", "onnx==1.16.2", "numpy<3"),
    "mnn": ("MNN==3.6.1", "numpy<3"),
    # a requirement of ExecuTorch is published as source alone
    "executorch": ("executorch==1.5.1", "torch==2.13.0", "numpy<3", "--no-binary=antlr4-python3-runtime"),
    "litert": ("ai-edge-litert==2.3.0", "numpy<3"),
    "tensorflow": ("tensorflow-cpu==2.21.0", "numpy<3"),  # makes LiteRT's file, and trains nothing
}
DONE = "requirements"  # a file that says what a complete environment has


class NotInstalledError(RuntimeError):
    """A package cannot be had here. The message says it in a sentence."""


def python_of(trainer: str, folder: Path, base: Path) -> Path:
    """Return the interpreter of the trainer's environment below `folder`, which `base` makes if it is missing.

    Raises ValueError if the folder lies in the repository, and NotInstalledError if a package cannot be installed.
    """
    if folder.resolve().is_relative_to(ROOT):
        raise ValueError(f"environments in {folder}; expected a folder outside {ROOT}")
    root, wanted = folder.resolve() / trainer, "\n".join(REQUIREMENTS[trainer])
    python, done = root / "bin" / "python", root / DONE
    if not done.is_file() or done.read_text() != wanted:
        _make(root, base, REQUIREMENTS[trainer])
        done.write_text(wanted)
    return python


def _make(root: Path, base: Path, requirements: tuple[str, ...]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    pip = (str(root / "bin" / "python"), "-m", "pip", "install", "-q", "--only-binary", ":all:", *requirements)
    for command in ((str(base), "-m", "venv", str(root)), pip):
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            words = (result.stderr or result.stdout).strip().splitlines() or [f"exit code {result.returncode}"]
            raise NotInstalledError(f"{' '.join(requirements)} with {base}: {words[-1]}; --python names another")
