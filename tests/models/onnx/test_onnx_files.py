"""ONNX files on disk: weights in a file beside the model, and what may not be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from edgefl.errors import GraphError
from edgefl.models.onnx import onnx_files
from edgefl.models.onnx.onnx_files import explain_onnx, load_onnx
from tests.models.onnx.onnx_models import file_of, model_of, node

NODES = [node("Gemm", "x fc.weight", "y", transB=1)]
WEIGHT = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def beside(path: Path, location: str, **entries: str) -> Path:
    """Write a model whose weight lies in another file."""
    model = model_of(NODES, (2,), {"fc.weight": WEIGHT})
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return path


def refused(path: Path) -> str:
    with pytest.raises(GraphError) as error:
        load_onnx(path)
    return str(error.value)


def test_weights_beside_the_model_are_read(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(8) + WEIGHT.tobytes())
    model = load_onnx(beside(tmp_path / "m.onnx", "weights.bin", offset="8", length="24"))
    assert model.params["fc.weight"].tolist() == WEIGHT.tolist()


def test_weights_that_the_onnx_package_stores_beside_the_model_are_read(tmp_path: Path) -> None:
    model = model_of(NODES, (2,), {"fc.weight": WEIGHT})
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    assert load_onnx(tmp_path / "m.onnx").params["fc.weight"].tolist() == WEIGHT.tolist()


def test_weights_elsewhere_are_refused(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "outside.bin").write_bytes(WEIGHT.tobytes())
    (inside / "link.bin").symlink_to(tmp_path / "outside.bin")
    (inside / "short.bin").write_bytes(bytes(8))
    cases = {
        "../outside.bin": "expected a file beside the model",
        "link.bin": "expected a file beside the model",
        "gone.bin": "expected a file beside the model",
        ".": "expected a file beside the model",
        str(tmp_path / "outside.bin"): "expected the name of a file beside the model",
        "": "expected the name of a file beside the model",
        "a\0b": "expected the name of a file beside the model",
        "short.bin": "bytes 0 to 24 of 'short.bin'; expected a longer file",
    }
    for location, message in cases.items():
        text = refused(beside(inside / "m.onnx", location))
        assert message in text, location
        assert text.startswith(f"{inside / 'm.onnx'}: constant 'fc.weight': "), location
    for offset, length in (("-1", "24"), ("0", "23"), ("9" * 30, "24"), ("x", "24")):
        text = refused(beside(inside / "m.onnx", "short.bin", offset=offset, length=length))
        assert "lies outside the file" in text
        assert "expected 24 bytes" in text


def test_all_reads_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many weights may name one region of a file, so the sum of what is read counts."""
    (tmp_path / "weights.bin").write_bytes(WEIGHT.tobytes())
    path = beside(tmp_path / "m.onnx", "weights.bin")
    size = path.stat().st_size
    monkeypatch.setattr(onnx_files, "MOST_BYTES", size)
    assert load_onnx(path).params["fc.weight"].size == 6
    monkeypatch.setattr(onnx_files, "MOST_BYTES", size - 1)
    assert f"{size} bytes; the limit is {size - 1}" in refused(path)
    model = model_of(NODES, (2,), {"fc.weight": WEIGHT})
    monkeypatch.setattr(onnx_files, "MOST_BYTES", 20)
    with pytest.raises(GraphError, match=r"24 more bytes of weights; the limit of 20 bytes leaves 20"):
        onnx_files._Beside(tmp_path).read("weights.bin", 0, 24)
    assert model.ByteSize() > 20


def test_explain_lists_every_kind_of_refused_node(tmp_path: Path) -> None:
    nodes = [
        node("LRN", "x", "a"),
        node("LRN", "a", "b"),
        node("Clip", "x low", "c"),
        node("Selu", "c", "d"),
        node("Concat", "b d", "y", axis=1),
    ]
    path = tmp_path / "m.onnx"
    path.write_bytes(file_of(nodes, (2,), {"low": np.float32(-1)}, opset=18))
    assert explain_onnx(path) == [
        "LRN 'a': edgefl has no operation for it; use BatchNormalization (1 more nodes like it)",
        "Clip 'c': min=-1, max=inf; expected 0 and 6, or 0 and no upper bound",
        "Selu 'd': edgefl has no operation for it; use Elu or Relu",
    ]
    path.write_bytes(file_of(NODES, (2,), {"fc.weight": WEIGHT}))
    assert explain_onnx(path) == []
    path.write_bytes(b"\xff")
    with pytest.raises(GraphError, match=r"m\.onnx: the number at byte 0 of 1 has no end"):
        explain_onnx(path)
