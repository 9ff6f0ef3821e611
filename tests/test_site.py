"""The parts of the documentation's site, without a build: the index, the navigation, docstrings, drawings.

.ci/nightly builds the site itself (scripts/site.sh) and names its folder by EDGEFL_SITE. Then the pages are reached by
clicks, and the search is asked questions in a browser.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Thread
from types import ModuleType
from unittest.mock import patch
from urllib.parse import quote, urlsplit
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
    pages = "".join((DOCS / page).read_text() for page in ("pictures.md", "fine-tuning.md"))
    assert f"drawings/{drawing.name})" in pages


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


QUESTIONS = {  # what a reader types into the search, and the pages of which one answers
    "resume a run": "python|data|comparing|paper-comparison|command-simulate",
    "csv file group label": "data|first-federation",
    "TLS certificate": "trust|four-devices-tls|command-keys|board-from-card",
    "Raspberry Pi": "boards|board-from-card",
    "Jetson agent": "boards|board-from-card",
    "missing values": "data",
    "export onnx": "models|command-export",
    "glossary frozen neuron": "glossary",
    "energy joules": "devices|boards|api-energy-of-this-machine",
    "secure aggregation": "trust|from-flower",
    "Flower app": "flower|from-flower",
    "Ray cluster": "ray",
    "own method": "own-method",
    "prometheus metrics": "operating",
    "--round-seconds": "command-serve|command-simulate|boards",
    "edgefl.simulate": "api-runs|python|command-simulate",
    "batch norm one sample": "training",
    "learning rate schedule": "training|command-simulate|command-serve",
    "payload bitmap": "format",
    "memory of a step": "pictures|command-memory|models|kernels",
    "Flower strategy ClientApp SuperNode": "from-flower|flower",
    "PFLlib dataset folder": "from-pfllib",
    "paper table LaTeX seeds tuned": "paper-comparison|comparing",
    "empty SD card": "board-from-card",
    "names of classes predict": "data|first-federation|models|command-predict",
}
FIRST = 3  # results among which the answer is to be


@pytest.fixture(scope="module")
def site() -> Path:
    """The folder of a built site; .ci/nightly builds one."""
    if not (folder := os.environ.get("EDGEFL_SITE")):
        pytest.skip("EDGEFL_SITE names no site; expected a folder that scripts/site.sh has written")
    return Path(folder).resolve()


def test_every_page_is_two_clicks_from_the_start(site: Path) -> None:
    """A click leads from one page to a page that it links to."""
    clicks = {site / "docs" / "index.html": 0}
    queue = list(clicks)
    for page in queue:
        for target in re.findall(r'<a [^>]*href="([^"#?:]+\.html)', page.read_text("utf-8")):
            found = (page.parent / target).resolve()
            if found not in clicks and found.exists():
                clicks[found] = clicks[page] + 1
                queue.append(found)
    built = {each.resolve() for each in site.rglob("*.html") if not {"_static", "_sources"} & set(each.parts)}
    apart = {site / "index.html", site / "search.html", site / "genindex.html", site / "py-modindex.html"}
    far = sorted(str(each.relative_to(site)) for each in built - apart if clicks.get(each, 9) > 2)
    assert far == []


def test_the_picture_of_the_readme_follows_the_theme(site: Path) -> None:
    images = re.findall(
        r'<img [^>]*class="([^"]*)" src="_images/first-run([^"]*)\.png"', (site / "README.html").read_text()
    )
    assert sorted(images) == [("only-dark", "-dark"), ("only-light", "")]


def test_the_search_finds_what_a_reader_asks_for(site: Path, tmp_path: Path) -> None:
    """The search asks nothing of other hosts."""
    pytest.importorskip("websockets", reason="websockets, which drives the browser, is not installed")
    from tests.browser.chromium import chromium, find_chromium

    if find_chromium() is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=site))
    Thread(target=server.serve_forever, daemon=True).start()
    missed = {}
    with chromium(tmp_path) as browser, browser.tab() as tab:
        for question, expected in QUESTIONS.items():
            tab.open(f"http://127.0.0.1:{server.server_port}/search.html?q={quote(question)}")
            tab.wait("document.querySelector('#search-results p.search-summary')?.textContent.match(/found|match/)")
            tab.wait("document.querySelector('#search-results ul.search li a')")
            links = tab.js("[...document.querySelectorAll('#search-results li a')].map(each => each.href)")
            pages = list(dict.fromkeys(Path(urlsplit(each).path).stem for each in links))
            if not any(re.fullmatch(expected, page) for page in pages[:FIRST]):
                missed[question] = pages[: 2 * FIRST]
        assert [each for each in tab.requests if not each.startswith(("http://127.0.0.1:", "data:"))] == []
    server.shutdown()
    assert not missed, "\n".join(f"{question}: {pages}" for question, pages in missed.items())
