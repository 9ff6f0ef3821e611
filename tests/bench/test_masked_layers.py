"""`python -m bench sparse` on one small layer of each family: that it measures and says so, not how fast."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import edgefl
from bench.sparse import command

LIBRARY = Path(edgefl.__file__).parent / "libedgefl.so"


@pytest.mark.parametrize("layer", ["linear 784x200", "conv 6->16"])
def test_a_layer_is_measured(layer: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--json", "--quick", "--only", layer, "--densities", "0.1", "--base", str(LIBRARY)]
    assert command.main([*options, "--batches", "16"]) == 0
    first, *rows = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert "cpu" in first["machine"]
    assert rows
    for row in rows:
        assert row["layer"].startswith(layer)
        assert row["error"] < 1e-5
        assert min(row["base"], row["dense"], row["torch"], *row["rates"], row["build_ns"]) > 0


def test_a_base_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--base", str(tmp_path), "--quick"]) == 2
    assert "expected a built tree of edgefl" in capsys.readouterr().err
