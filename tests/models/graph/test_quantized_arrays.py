"""Arrays in bfloat16 and int8: what is rounded how, files and messages of them, and what is refused."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import CodecError, GraphError
from edgefl.models import dequantize, quantize_frozen
from edgefl.models.graph import INPUT, Graph, Model, Node, model_files
from edgefl.models.graph.json import dumps, loads
from edgefl.models.graph.operations import Linear, ReLU
from edgefl.models.graph.quantized_array import PRECISIONS, Precision, quantize
from edgefl.models.graph.quantized_names import gathered, spread
from edgefl.models.graph.quantized_parameters import QuantizedParameter
from edgefl.protocol.wire.model_message import pack, read, unpack
from edgefl.protocol.wire.model_parts import frozen_parts
from edgefl.system import safetensors_files

NAMES = ("base.weight", "middle.weight")
GRAPH = Graph(
    (40,),
    (
        Node("base", Linear(40, 50), (INPUT,)),
        Node("relu", ReLU(), ("base",)),
        Node("middle", Linear(50, 30), ("relu",)),
        Node("out", Linear(30, 4), ("middle",)),
    ),
    frozenset({*NAMES, "base.bias"}),
)
MODEL = Model(GRAPH, GRAPH.init(rng.stream(1, rng.INIT)))


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (3, 4, 3, 3), (4, 0)], ids=str)
def test_bfloat16_keeps_the_nearest_values_of_fewer_bits(shape: tuple[int, ...]) -> None:
    values = drawn(*shape)
    bits = values.astype(np.float64)
    step = 2.0 ** (np.floor(np.log2(np.abs(bits))) - 7)  # a bfloat16 has eight significant bits
    found = quantize(values, "bfloat16")
    np.testing.assert_array_equal(np.asarray(found), np.rint(bits / step) * step)
    assert (found.shape, found.size, found.nbytes, len(found)) == (shape, values.size, 2 * values.size, shape[0])


@pytest.mark.parametrize("axis", [0, 1])
def test_int8_keeps_the_nearest_of_255_multiples_of_a_scale(axis: int) -> None:
    values = drawn(9, 13) * np.float32(10.0) ** drawn(9, 1)
    found = quantize(values, "int8", axis)
    assert found.scale is not None and found.scale.shape == ((9,), (13,))[axis]
    scale = found.scale.astype(np.float64)[(slice(None), None) if axis == 0 else slice(None)]
    largest = np.abs(values).max(axis=1 - axis, keepdims=True)
    np.testing.assert_allclose(np.broadcast_to(scale, values.shape), np.broadcast_to(largest / 127, values.shape), 2e-5)
    wide = np.asarray(found)
    assert np.abs(wide - values).max(initial=0, where=np.abs(wide) < 126.5 * scale) <= (scale / 2 * 1.001).max()
    assert (np.abs(wide - values) <= scale * 0.51).all()
    steps = wide.astype(np.float64) / scale
    np.testing.assert_array_equal(steps, np.rint(steps))  # a code times its scale is exact
    assert np.abs(steps).max() == 127
    assert found.nbytes == values.size + 4 * found.scale.size


@pytest.mark.parametrize("precision", PRECISIONS)
def test_quantizing_what_was_quantized_changes_nothing(precision: Precision) -> None:
    for axis in (0, 1) if precision == "int8" else (0,):
        first = quantize(drawn(40, 30) * np.float32(7.3e-5), precision, axis)
        again = quantize(np.asarray(first), precision, axis)
        np.testing.assert_array_equal(again.codes, first.codes)
        assert first.scale is None or np.array_equal(first.scale, again.scale)  # type: ignore[arg-type]


def test_rows_of_zeros_and_of_tiny_values_are_zeros_in_int8() -> None:
    values = np.stack([np.zeros(4), np.full(4, 1e-33), np.arange(4)]).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(quantize(values, "int8"))[:2], 0)
    np.testing.assert_array_equal(np.asarray(quantize(values.T, "int8", 1))[:, :2], 0)


@pytest.mark.parametrize(
    ("values", "precision", "axis", "said"),
    [
        (drawn(3), "int8", 0, "shape \\(3,\\); expected one of"),
        (drawn(3, 3), "int4", 0, "precision='int4'"),
        (drawn(3, 3, 3), "int8", 1, "axis=1"),
        (np.array([[1, np.nan]], np.float32), "int8", 0, "NaN; expected finite values"),
        (np.array([[np.inf, 1]], np.float32), "bfloat16", 0, "infinite values"),
    ],
)
def test_other_arrays_and_precisions_are_refused(values: np.ndarray, precision: Any, axis: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        quantize(values, precision, axis)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_frozen_weights_alone_are_quantized(precision: Precision) -> None:
    found = quantize_frozen(MODEL, precision)
    assert [each.name for each in found.graph.quantized] == list(NAMES)
    assert all(np.asarray(found.params[name]).dtype == np.float32 for name in found.params)
    assert all(found.params[name] is MODEL.params[name] for name in found.params if name not in NAMES)
    wide = dequantize(found)
    assert wide.graph == GRAPH and isinstance(wide.params[NAMES[0]], np.ndarray)
    wide.graph.check(wide.params)
    with pytest.raises(GraphError, match=rf"{NAMES[0]}: {precision} along axis 0; expected float32 along axis 0"):
        GRAPH.check(found.params)
    with pytest.raises(GraphError, match=f"expected {precision} along axis 0"):
        found.graph.check(MODEL.params)


def test_models_without_large_frozen_weights_and_infinite_weights_are_refused() -> None:
    with pytest.raises(GraphError, match="no frozen weight of 1024 values or more; expected a model with adapters"):
        quantize_frozen(MODEL._replace(graph=replace(GRAPH, frozen=frozenset())), "int8")
    with pytest.raises(ValueError, match="precision='float8'"):
        quantize_frozen(MODEL, "float8")  # type: ignore[arg-type]
    params = {**MODEL.params, NAMES[1]: np.full((30, 50), np.inf, np.float32)}
    with pytest.raises(GraphError, match=f"{NAMES[1]}: array of shape"):
        quantize_frozen(MODEL._replace(params=params), "bfloat16")


def alike(one: Model, other: Model) -> bool:
    pairs = [(one.params[name], other.params[name]) for name in one.graph.parameters()]
    return one.graph == other.graph and all(
        type(a) is type(b) and np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs
    )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_files_and_messages_have_the_codes(tmp_path: Path, precision: Precision) -> None:
    found = quantize_frozen(MODEL, precision)
    model_files.save(tmp_path / "model.safetensors", found)
    assert alike(model_files.load(tmp_path / "model.safetensors"), found)
    size = {"bfloat16": 2, "int8": 1}[precision] * sum(MODEL.params[name].size for name in NAMES)
    assert (tmp_path / "model.safetensors").stat().st_size < size + 4000
    data = pack(found)
    assert alike(unpack(data), found) and len(data) < size + 3000
    parts = frozen_parts(found.graph, data)
    kept = [data[part.offset : part.offset + part.size] for part in parts]
    for name in NAMES:
        assert any(each.startswith(found.params[name].codes.tobytes()) for each in kept)  # type: ignore[attr-defined]
    assert loads(dumps(found.graph)) == found.graph
    assert alike(Model(found.graph, gathered(spread(found.params))), found)


def test_torch_reads_the_file(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    load_file = pytest.importorskip("safetensors.torch").load_file
    found = quantize_frozen(MODEL, "bfloat16")
    model_files.save(tmp_path / "model.safetensors", found)
    read = load_file(tmp_path / "model.safetensors")[NAMES[0]]
    assert read.dtype == torch.bfloat16
    expected = torch.from_numpy(MODEL.params[NAMES[0]]).bfloat16()
    assert torch.equal(read, expected)
    np.testing.assert_array_equal(np.asarray(found.params[NAMES[0]]), expected.float().numpy())


def test_a_file_of_another_precision_and_a_short_message_are_refused(tmp_path: Path) -> None:
    found = quantize_frozen(MODEL, "int8")
    metadata = {model_files.GRAPH_KEY: dumps(found.graph)}
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"".join(safetensors_files.content(MODEL.params, metadata)))
    with pytest.raises(GraphError, match=r"parameters \['base.weight_scale', 'middle.weight_scale'\] are only"):
        model_files.load(file)
    data = pack(found)
    with pytest.raises(CodecError, match=r"expected .*, all of them"):
        unpack(data[:-4])
    only = read(io.BytesIO(data), len(data), wanted=lambda name, kind: name in (NAMES[1], "out.weight"))
    assert only.params.keys() == {NAMES[1], "out.weight"}
    np.testing.assert_array_equal(np.asarray(only.params[NAMES[1]]), np.asarray(found.params[NAMES[1]]))


@pytest.mark.parametrize(
    ("quantized", "said"),
    [
        ([QuantizedParameter("base.weight", "int8")], "expected a tuple of QuantizedParameter"),
        ((QuantizedParameter("out.weight", "int8"),), "'out.weight'; expected a frozen parameter of two axes or more"),
        ((QuantizedParameter("base.bias", "int8"),), "'base.bias'; expected a frozen parameter of two axes"),
        ((QuantizedParameter("base.weight", "int4"),), "'int4' with scales along axis 0"),  # type: ignore[arg-type]
        ((QuantizedParameter("base.weight", "bfloat16", 1),), "along axis 1; expected one of .*, and axis 0"),
        ((QuantizedParameter("base.weight", "int8", 2),), "and axis 0 or 1"),
        ((QuantizedParameter("middle.weight", "int8"), QuantizedParameter("base.weight", "int8")), "alphabetical"),
    ],
)
def test_graphs_refuse_other_quantized_parameters(quantized: Any, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        replace(GRAPH, quantized=quantized)


def test_a_graph_text_with_a_strange_quantized_parameter_is_refused() -> None:
    text = dumps(quantize_frozen(MODEL, "int8").graph)
    for before, after, said in (
        ('"axis":0', '"axis":"0"', "along axis '0'"),
        ('"precision":"int8"', '"precision":[]', r"\[\] with scales"),
        ('"name":"base.weight"', '"name":7', "quantized parameter 7; expected the name"),
    ):
        assert before in text
        with pytest.raises(GraphError, match=said):
            loads(text.replace(before, after, 1))
