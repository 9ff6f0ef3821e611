"""Importing ONNX Runtime's training without torch.

`onnxruntime.training` imports torch for optimisers of its torch front end, which neither its C++ trainer nor its tool
for making training models needs. An empty package in its place leaves the modules below it as they are.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

import onnxruntime


def without_torch() -> None:
    """To be called before the first import from `onnxruntime.training`."""
    package = types.ModuleType("onnxruntime.training")
    package.__path__ = [str(Path(onnxruntime.__file__).parent / "training")]
    sys.modules["onnxruntime.training"] = package
