"""The report in a real browser. Debian's Chromium opens a page that holds the report in a frame.

The page asks the report's document for something, and prints the answer. The tests are skipped without Chromium.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import datetime, timezone
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from edgefl.study.report.report_file import page
from edgefl.study.report.reported_run import ReportedRun
from tests.study.report.made_run import made_run
from tests.study.report.test_report_page import hostile

PROGRAM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
    "--dump-dom",
)
THEMES = {"dark": "--blink-settings=preferredColorScheme=0", "light": "--blink-settings=preferredColorScheme=1"}
AROUND = """<!doctype html><pre id="answer"></pre>
<iframe src="report.html" width="WIDTH" height="800" style="border:0"></iframe>
<script>
document.querySelector("iframe").onload = event => {
  const view = event.target.contentWindow, page = view.document;
  document.getElementById("answer").textContent = JSON.stringify(ASKED);
};
</script>"""
NOW = datetime(2026, 11, 26, tzinfo=timezone.utc)

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium is found; apt-get install chromium")


WIDTHS = "[page.documentElement.scrollWidth, page.documentElement.clientWidth]"
COLOURS = "[page.body, page.querySelector('.line')].map(each => view.getComputedStyle(each))"
COLOURS += ".flatMap(style => [style.backgroundColor, style.stroke])"
CHARTS = "[...page.querySelectorAll('figure > svg')].map(each => each.getBoundingClientRect())"
CHARTS += ".map(box => [box.width, box.height])"
FOCUS = "[...page.querySelectorAll('.scroll, a, th button, summary')].filter(each => each.checkVisibility())"
FOCUS += ".map(each => { each.focus(); return page.activeElement === each; })"
SORTED = """(() => {
  const table = page.querySelector("#overview table"), head = table.tHead.rows[0].cells[7];
  const click = () => {
    head.querySelector("button").click();
    const rows = [...table.tBodies[0].rows].map(row => row.cells[0].textContent + " " + row.cells[7].textContent);
    return [head.getAttribute("aria-sort"), rows];
  };
  return [click(), click()];
})()"""
NAMES = "[page.scripts.length, page.images.length, page.querySelectorAll('[onerror]').length, page.title]"
RESOURCES = "view.performance.getEntriesByType('resource').map(entry => entry.name)"
ASKED = {"widths": WIDTHS, "colours": COLOURS, "charts": CHARTS, "names": NAMES, "resources": RESOURCES}
ASKED |= {"focus": FOCUS, "sorted": SORTED}


def answers(folder: Path, runs: list[ReportedRun], width: int, theme: str) -> dict[str, Any]:
    """Return the value of each expression of ASKED, in a report of these runs at a width and in a theme."""
    asked = ", ".join(f"{name}: {expression}" for name, expression in ASKED.items())
    (folder / "report.html").write_text(page(runs, NOW), "utf-8")
    around = AROUND.replace("WIDTH", str(width)).replace("ASKED", f"{{{asked}}}")
    (folder / "around.html").write_text(around, "utf-8")
    assert PROGRAM is not None
    line = [PROGRAM, *FLAGS, THEMES[theme], f"--user-data-dir={folder / 'profile'}", f"file://{folder / 'around.html'}"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True)
    (answer,) = re.findall(r'<pre id="answer">(.*?)</pre>', done.stdout, re.DOTALL)
    found: dict[str, Any] = json.loads(unescape(answer))
    return found


def two_runs() -> list[ReportedRun]:
    return [made_run(), made_run("other", seeds=1, rounds=40)]


@pytest.fixture(scope="module")
def telephone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return answers(tmp_path_factory.mktemp("telephone"), two_runs(), 390, "dark")


@pytest.fixture(scope="module")
def tablet(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return answers(tmp_path_factory.mktemp("tablet"), [hostile(), made_run()], 768, "dark")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return answers(tmp_path_factory.mktemp("desk"), two_runs(), 1440, "light")


def test_a_click_on_a_heading_sorts_the_table_and_a_second_one_turns_it(desk: dict[str, Any]) -> None:
    """The second run has 40 rounds, so the most bytes."""
    (up, rising), (down, falling) = desk["sorted"]
    assert (up, down) == ("ascending", "descending")
    assert rising == ["made 0.02 MB", "made 0.03 MB", "other 0.16 MB", "other 0.32 MB"]
    assert falling == rising[::-1]


def test_the_page_never_scrolls_sideways(
    telephone: dict[str, Any], tablet: dict[str, Any], desk: dict[str, Any]
) -> None:
    for found, width in ((telephone, 390), (tablet, 768), (desk, 1440)):
        assert found["widths"][0] <= found["widths"][1] == width


def test_names_with_markup_run_nothing(tablet: dict[str, Any]) -> None:
    scripts, images, handlers, title = tablet["names"]
    assert (scripts, images, handlers) == (1, 0, 0)
    assert title.startswith("edgefl report: <script>")


def test_nothing_is_asked_of_another_place(tablet: dict[str, Any], desk: dict[str, Any]) -> None:
    assert tablet["resources"] == desk["resources"] == []


def test_the_page_follows_the_theme(telephone: dict[str, Any], desk: dict[str, Any]) -> None:
    (paper, _, _, line), (dark_paper, _, _, dark_line) = desk["colours"], telephone["colours"]
    assert (paper, line) == ("rgb(255, 255, 255)", "rgb(0, 114, 178)")
    assert (dark_paper, dark_line) == ("rgb(13, 17, 23)", "rgb(74, 168, 232)")


def test_the_keyboard_reaches_tables_links_and_headings(desk: dict[str, Any]) -> None:
    """Every table's region, every link, every button of a heading and every part that opens takes the focus."""
    assert len(desk["focus"]) > 60 and all(desk["focus"])


def test_charts_fill_their_figures(telephone: dict[str, Any]) -> None:
    assert len(telephone["charts"]) > 7
    for width, height in telephone["charts"]:
        assert 300 < width < 390 and height > 60
