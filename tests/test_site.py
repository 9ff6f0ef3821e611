"""The parts of the documentation's site, without a build: the index, the navigation, docstrings, drawings.

.ci/nightly builds the site itself (scripts/site.sh).
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from unittest.mock import patch
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SECTIONS = ["Tutorials", "How-to", "Reference", "Explanation"]


def index() -> dict[str, list[str]]:
    """The targets of the links under every heading of the index."""
    _, *sections = re.split(r"^## ", (DOCS / "index.md").read_text(), flags=re.MULTILINE)
    return {
        each.partition("\n")[0]: re.findall(r"^\* \[[^\]]+\]\(([^)]+)\): ", each, re.MULTILINE) for each in sections
    }


def test_the_index_sorts_the_pages_into_four_kinds() -> None:
    assert list(index()) == SECTIONS


def test_every_page_is_in_the_index_once() -> None:
    listed = [target for targets in index().values() for target in targets]
    assert len(listed) == len(set(listed))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.glob("*.md")} - {"index.md"}
    assert pages - set(listed) == set(), "docs/index.md lacks these pages"
    assert {"../README.md", "../CONTRIBUTING.md", "../CHANGELOG.md", "notebooks/index.md"} <= set(listed)


def test_every_notebook_is_in_the_index_of_notebooks() -> None:
    listed = re.findall(r"\]\((\w+\.ipynb)\)", (DOCS / "notebooks" / "index.md").read_text())
    assert sorted(listed) == sorted(path.name for path in (DOCS / "notebooks").glob("*.ipynb"))


def test_the_drawings_are_what_the_script_draws() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / "drawings.py", "--check"], check=False)
    assert done.returncode == 0, (
        "docs/drawings/ is older than scripts/drawings.py; expected: python scripts/drawings.py"
    )


@pytest.mark.parametrize("drawing", sorted((DOCS / "drawings").glob("*.svg")), ids=lambda path: path.stem)
def test_a_drawing_is_small_and_asks_nothing_of_other_places(drawing: Path) -> None:
    text = drawing.read_text()
    assert ElementTree.fromstring(text).get("viewBox") is not None
    assert len(text) < 30_000
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg\")\S+|url\(|href", text) == []
    assert f"drawings/{drawing.name})" in (DOCS / "pictures.md").read_text()


@pytest.fixture
def docstrings() -> Iterator[ModuleType]:
    """docs/_ext/plain_docstrings.py, with what it needs of Sphinx left out."""
    modules = {"sphinx": ModuleType("sphinx"), "sphinx.application": ModuleType("sphinx.application")}
    modules["sphinx.application"].Sphinx = object  # type: ignore[attr-defined]
    with patch.dict(sys.modules, modules):
        for name, path in (("api", ROOT / "scripts/api.py"), ("plain_docstrings", DOCS / "_ext/plain_docstrings.py")):
            spec = spec_from_file_location(name, path)
            assert spec is not None
            assert spec.loader is not None
            sys.modules[name] = module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        yield sys.modules["plain_docstrings"]


CASES = {
    "text is joined": ("A sum\nof two.", ["A sum of two.", ""]),
    "marks mean nothing": ("a*b* and x_ |y|", [r"a\*b\* and x\_ \|y\|", ""]),
    "code": ("see `run`, twice", ["see \\ ``run``\\ , twice", ""]),
    "names": ("lr  a rate\n    in 1\nk   an id", ["", "``lr``", "   a rate", "   in 1", "``k``", "   an id", ""]),
    "an example": ("  a = 1\n    b", ["::", "", "     a = 1", "       b", ""]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_plain_docstring_becomes_restructured_text(docstrings: ModuleType, case: str) -> None:
    text, expected = CASES[case]
    assert docstrings.converted(text) == expected
