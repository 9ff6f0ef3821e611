"""A directory of Hugging Face as a model: what save_pretrained writes is converted with its weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import edgefl
from edgefl.cli.cli import main
from edgefl.errors import GraphError


def test_a_directory_that_is_no_model_is_named(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    from edgefl.torch.hugging_face import model_in

    with pytest.raises(GraphError, match="expected a directory that save_pretrained wrote"):
        model_in(str(tmp_path))


def test_a_residual_network_of_a_directory_is_converted(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    settings = {"embedding_size": 4, "hidden_sizes": [4, 8], "depths": [1, 1], "layer_type": "basic", "num_labels": 3}
    model = transformers.ResNetForImageClassification(transformers.ResNetConfig(**settings)).eval()
    model.save_pretrained(tmp_path / "net")
    assert main(["convert", str(tmp_path / "net"), "--input", "3,32,32", "-o", str(tmp_path / "net.safetensors")]) == 0
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    found = edgefl.load(tmp_path / "net.safetensors")
    np.testing.assert_allclose(found.predict(x.numpy()), model(x).logits.detach(), atol=1e-5)
    assert set(dict(model.named_parameters())) <= set(found.params)


def test_without_transformers_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from edgefl.torch.hugging_face import model_in

    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(GraphError, match=r"expected pip install 'edgefl\[transformers\]'"):
        model_in(str(tmp_path))
