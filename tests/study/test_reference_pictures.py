"""Fifteen pictures of real runs, light and dark, beside reference pictures that somebody has looked at.

`python -m bench pictures DIR --references` makes the references again, and the person who does so looks at each.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the picture is an optional extra")
import matplotlib
from matplotlib.testing.compare import compare_images

from bench.pictures import KEPT, PICTURES, RUNS, figure_of, save_small
from edgefl.study.picture_style import DARK, THEMES

CONSTRAINTS = Path(__file__).resolve().parent.parent.parent / "constraints.txt"
LARGEST = 40_000  # bytes of a reference picture
DIFFERENCE = 3.0  # root of the mean square over the pixels, of 255
DRAWN_WITH = next(
    line.split("==")[1] for line in CONSTRAINTS.read_text().splitlines() if line.startswith("matplotlib==")
)
NAMES = [f"{name}{DARK if theme == 'dark' else ''}" for name in PICTURES for theme in THEMES]


@pytest.mark.skipif(
    matplotlib.__version__ != DRAWN_WITH, reason=f"the reference pictures are drawn by matplotlib {DRAWN_WITH}"
)
@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_as_it_was_when_it_was_looked_at(name: str, tmp_path: Path) -> None:
    theme = "dark" if name.endswith(DARK) else "light"
    figure = figure_of(name.removesuffix(DARK), theme, json.loads(RUNS.read_text()))
    save_small(figure, tmp_path / f"{name}.png")
    said = compare_images(str(KEPT / f"{name}.png"), str(tmp_path / f"{name}.png"), DIFFERENCE)
    assert said is None, said


def test_the_reference_pictures_are_fifteen_in_two_themes_and_small() -> None:
    kept = {path.stem: path.stat().st_size for path in KEPT.glob("*.png")}
    assert sorted(kept) == sorted(NAMES) and len(PICTURES) == 15
    assert {name: size for name, size in kept.items() if size > LARGEST} == {}
