"""Model files: what goes in comes out, and every way a file is refused."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from edgefl import rng
from edgefl.errors import GraphError
from edgefl.models.graph import Graph, Model, architectures, model_files
from edgefl.models.graph.json import Limits, dumps


@pytest.fixture
def model() -> Model:
    graph = architectures.build("digits_cnn", (1, 8, 8), 10)
    return Model(graph, graph.init(rng.stream(1, rng.INIT)))


def stored(model: Model) -> dict[str, str]:
    return {model_files.GRAPH_KEY: dumps(model.graph)}


def test_load_gives_back_the_saved_model(tmp_path, model) -> None:
    model_files.save(tmp_path / "m.safetensors", model)
    graph, params = model_files.load(tmp_path / "m.safetensors")
    assert graph == model.graph
    assert params.keys() == model.params.keys()
    assert all((params[name] == value).all() for name, value in model.params.items())


def test_loaded_parameters_can_be_trained(tmp_path, model) -> None:
    model_files.save(tmp_path / "m.safetensors", model)
    params = model_files.load(tmp_path / "m.safetensors").params
    params["fc.bias"][0] = 5
    assert model_files.load(tmp_path / "m.safetensors").params["fc.bias"][0] == model.params["fc.bias"][0]


def test_any_safetensors_reader_opens_the_file(tmp_path, model) -> None:
    model_files.save(tmp_path / "m.safetensors", model)
    plain = load_file(tmp_path / "m.safetensors")
    assert (plain["conv1.weight"] == model.params["conv1.weight"]).all()


def test_views_of_other_arrays_are_saved_by_value(tmp_path, model) -> None:
    wide = np.zeros((10, 512), np.float32)
    wide[:, ::2] = model.params["fc.weight"]
    model_files.save(tmp_path / "m.safetensors", Model(model.graph, model.params | {"fc.weight": wide[:, ::2]}))
    assert (model_files.load(tmp_path / "m.safetensors").params["fc.weight"] == model.params["fc.weight"]).all()


def test_save_replaces_the_file_and_leaves_no_other(tmp_path, model) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(b"old")
    model_files.save(path, model)
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.safetensors"]
    assert model_files.load(path).graph == model.graph


def test_failed_rename_keeps_the_old_file(tmp_path, model) -> None:
    (tmp_path / "m.safetensors").mkdir()
    with pytest.raises(OSError, match=r"m\.safetensors"):
        model_files.save(tmp_path / "m.safetensors", model)
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.safetensors"]


def test_parameters_of_another_graph_are_not_saved(tmp_path, model) -> None:
    other = Model(architectures.build("digits_cnn", (1, 8, 8), 11), model.params)
    with pytest.raises(GraphError, match=r"fc\.weight"):
        model_files.save(tmp_path / "m.safetensors", other)
    assert list(tmp_path.iterdir()) == []


def refused(path, limits: Limits | None = None) -> str:
    with pytest.raises(GraphError) as error:
        model_files.load(path, limits)
    assert str(error.value).startswith(f"{path}: ")
    return str(error.value)


def test_missing_file_is_an_os_error(tmp_path) -> None:
    with pytest.raises(FileNotFoundError):
        model_files.load(tmp_path / "none")


@pytest.mark.parametrize("content", [b"", b"not safetensors", b"\xff" * 64])
def test_file_that_is_not_safetensors_is_refused(tmp_path, content) -> None:
    (tmp_path / "m").write_bytes(content)
    assert "header" in refused(tmp_path / "m").lower()


def test_truncated_file_is_refused(tmp_path, model) -> None:
    model_files.save(tmp_path / "m", model)
    (tmp_path / "m").write_bytes((tmp_path / "m").read_bytes()[:-1])
    refused(tmp_path / "m")


def test_file_without_a_graph_is_refused(tmp_path, model) -> None:
    save_file(model.params, tmp_path / "m", metadata={"format": "pt"})
    assert "metadata keys ['format']; expected 'edgefl.graph'" in refused(tmp_path / "m")


def test_file_with_a_malformed_graph_is_refused(tmp_path, model) -> None:
    save_file(model.params, tmp_path / "m", metadata={model_files.GRAPH_KEY: "{}"})
    assert "expected exactly" in refused(tmp_path / "m")


def test_file_with_a_parameter_too_many_is_refused(tmp_path, model) -> None:
    save_file(model.params | {"extra": np.zeros(1, np.float32)}, tmp_path / "m", metadata=stored(model))
    assert "parameters ['extra']" in refused(tmp_path / "m")


def test_file_with_a_parameter_missing_is_refused(tmp_path, model) -> None:
    params = {name: value for name, value in model.params.items() if name != "fc.bias"}
    save_file(params, tmp_path / "m", metadata=stored(model))
    assert "parameters ['fc.bias']" in refused(tmp_path / "m")


@pytest.mark.parametrize("value", [np.zeros(11, np.float32), np.zeros(10, np.float64)])
def test_file_with_a_parameter_of_another_shape_or_type_is_refused(tmp_path, model, value) -> None:
    save_file(model.params | {"fc.bias": value}, tmp_path / "m", metadata=stored(model))
    assert "expected F32 (10,)" in refused(tmp_path / "m")


def test_model_above_the_limit_is_refused(tmp_path, model) -> None:
    model_files.save(tmp_path / "m", model)
    assert "graph of 21770 parameters; the limit is 21769" in refused(tmp_path / "m", Limits(parameters=21769))
    assert isinstance(model_files.load(tmp_path / "m", Limits(parameters=21770)).graph, Graph)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("m.onnx", "an ONNX file is converted first: `edgefl convert FILE.onnx -o FILE.safetensors`"),
        ("m.PT", "let FACTORY load the weights into its module, and `edgefl convert MODULE:FACTORY"),
        ("m.pth", "let FACTORY load the weights into its module"),
        ("m.tflite", "edgefl does not read TFLite"),
        ("m.keras", "edgefl does not read Keras models"),
    ],
)
def test_a_model_of_another_tool_is_named_with_what_helps(tmp_path, name: str, message: str) -> None:
    (tmp_path / name).write_bytes(b"any")
    assert message in refused(tmp_path / name)


def test_weights_without_a_graph_are_named_with_what_helps(tmp_path, model) -> None:
    save_file(model.params, tmp_path / "m")
    cure = "load them into their module with safetensors.torch.load_file in FACTORY, and `edgefl convert"
    assert cure in refused(tmp_path / "m")


def test_a_file_has_the_names_of_the_classes(tmp_path, model) -> None:
    outputs = model.graph.output_shape[0]
    names = [f"class {at}" for at in range(outputs)]
    model_files.save(tmp_path / "m", model, class_names=names)
    assert model_files.class_names_of(tmp_path / "m", model.graph) == tuple(names)
    assert model_files.classes_of(tmp_path / "m", model.graph) is None
    for wrong in (names[1:], [*names[1:], 3]):
        model_files.save(tmp_path / "m", model, class_names=wrong)
        with pytest.raises(GraphError, match=f"expected a list of {outputs} texts"):
            model_files.class_names_of(tmp_path / "m", model.graph)


def test_the_names_in_a_file_are_those_of_files_of_before() -> None:
    """Written in two parts, so that no tool that renames modules renames the keys too."""
    assert (model_files.GRAPH_KEY, model_files.CLASSES_KEY) == ("edgefl" + ".graph", "edgefl" + ".classes")
    assert model_files.NAMES_KEY == "edgefl" + ".class_names"
