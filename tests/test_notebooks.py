"""docs/notebooks/ run from top to bottom, each in a kernel and a directory of its own. Their outputs are not kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="notebooks are run by nbclient, of the extra test")
pytest.importorskip("ipykernel", reason="notebooks are run in ipykernel, of the extra test")
pytest.importorskip("torch", reason="a notebook brings a torch module")
pytest.importorskip("matplotlib", reason="a notebook draws")
nbformat = pytest.importorskip("nbformat", reason="it reads notebooks, and comes with nbclient")

ROOT = Path(__file__).resolve().parent.parent
BOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
LIMIT_S = 240  # of one cell on a busy machine


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    book = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(book, timeout=LIMIT_S, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [each for cell in book.cells for each in cell.get("outputs", [])]
    assert "fedspu" in "".join(each.get("text", "") for each in outputs)
    lines = [each["data"]["text/plain"] for each in outputs if each.output_type == "display_data"]
    shown = [re.fullmatch(r"fedspu.* round (\d+)/(\d+): (accuracy .*)", line) for line in lines]
    assert [found for found in shown if found and found[1] == found[2]], f"no progress at its end among {lines}"


def test_they_are_kept_without_outputs() -> None:
    assert len(BOOKS) == 3
    for path in BOOKS:
        cells = nbformat.read(path, as_version=4).cells
        assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []
