"""Importing ONNX Runtime's training without torch.

`onnxruntime.training` imports torch for optimisers of its torch front end. Neither its C++ trainer nor its tool for
making training models needs them. An empty package in its place leaves the modules below it as they are.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

import onnxruntime


def without_torch() -> None:
    """Put an empty package in the place of `onnxruntime.training`, before anything is imported from it."""
    package = types.ModuleType("onnxruntime.training")
    package.__path__ = [str(Path(onnxruntime.__file__).parent / "training")]
    sys.modules["onnxruntime.training"] = package
