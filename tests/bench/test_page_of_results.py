"""The page of results is short, and a record has every figure of the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
PAGE = (BENCH / "README.md").read_text()
MOST_WORDS = 5000  # separated by spaces, as `wc -w` counts them
FIGURE = re.compile(r"\d*\.?\d+(?:[.,]\d+)*")
SECTIONS = {part.partition("\n")[0]: part.partition("\n")[2] for part in re.split(r"(?m)^###? ", PAGE)[1:]}
WITHOUT_RECORD = [name for name, text in SECTIONS.items() if "jsonl" not in text and FIGURE.search(text)]


def recorded() -> dict[str, str]:
    """Return by section what the page had when its figures were recorded, as one text."""
    found: dict[str, list[str]] = {}
    for line in (BENCH / "earlier_figures.jsonl").read_text().splitlines()[1:]:
        row = json.loads(line)
        found.setdefault(row["section"], []).append(row.get("text") or " ".join([*row["row"], *row["row"].values()]))
    return {section: " ".join(texts) for section, texts in found.items()}


def test_the_page_is_short() -> None:
    words = len(PAGE.split())
    assert words <= MOST_WORDS, f"bench/README.md has {words} words; expected at most {MOST_WORDS}"


@pytest.mark.parametrize("section", [name for name in WITHOUT_RECORD if name != "What the papers say, and what we see"])
def test_a_section_that_links_no_record_has_figures_of_the_recorded_page(section: str) -> None:
    without_links = re.sub(r"\]\([^)]*\)", "", SECTIONS[section])
    assert set(FIGURE.findall(without_links)) <= set(FIGURE.findall(recorded()[section]))
