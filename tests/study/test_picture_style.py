"""Colours and markers: one pair for a method in every picture, and colours that the colour-blind can tell apart."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from edgefl.methods import METHODS
from edgefl.study.picture_style import LOOKS, MARKERS, THEMES, WISHES, looks

LIGHT = THEMES["light"]
SEEN = {  # what is left of linear red, green and blue: Machado, Oliveira and Fernandes 2009, severity 1
    "all colours": np.eye(3),
    "protanopia": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "deuteranopia": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "tritanopia": np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]),
}
APART = 15.0  # CIELAB's distance, of which 2.3 is just seen


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: str, other: str) -> float:
    """Return the contrast as WCAG 2 defines it."""
    low, high = sorted(float(linear(each) @ [0.2126, 0.7152, 0.0722]) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_each_colour_stands_out_from_the_page(theme: str) -> None:
    colours, paper = THEMES[theme].colours, THEMES[theme].paper
    assert [colour for colour in colours if contrast(colour, paper) < 3] == []
    assert contrast(THEMES[theme].ink, paper) > 7


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("theme", THEMES)
def test_no_two_colours_look_alike(theme: str, seen: str) -> None:
    places = {colour: lab(SEEN[seen] @ linear(colour)) for colour in THEMES[theme].colours}
    near = {pair: float(np.linalg.norm(places[pair[0]] - places[pair[1]])) for pair in combinations(places, 2)}
    assert {pair: round(distance, 1) for pair, distance in near.items() if distance < APART} == {}


def test_contrast_of_black_and_white_is_21() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_a_method_looks_alike_in_every_picture() -> None:
    alone, many = looks(["fedavg-ft"], LIGHT), looks(["ditto", "fedspa", "fedavg-ft", "fedspu"], LIGHT)
    assert alone["fedavg-ft"] == many["fedavg-ft"] == (LIGHT.colours[1], "s", "-")
    assert looks(["fedspu"], LIGHT)["fedspu"] == many["fedspu"] == (LIGHT.colours[0], "o", "-")


def test_a_row_with_options_has_its_own_colour_beside_its_method() -> None:
    both = looks(["fedspu:keep=1", "fedspu"], LIGHT)
    assert both["fedspu"] == (LIGHT.colours[0], "o", "-")
    assert both["fedspu:keep=1"].colour != LIGHT.colours[0] and both["fedspu:keep=1"].marker != "o"
    assert looks(["fedspu:keep=1"], LIGHT)["fedspu:keep=1"] == (LIGHT.colours[0], "o", "-")


def test_every_method_has_a_look_and_no_two_of_a_picture_share_a_marker() -> None:
    assert LOOKS.keys() | WISHES.keys() == METHODS.keys()
    first = list(METHODS)[: len(MARKERS)]
    found = looks(first, LIGHT)
    assert len({look.marker for look in found.values()}) == len(MARKERS) == 15
    assert len({look.colour for look in looks(first[:8], LIGHT).values()}) == 8
    assert len(looks(["own.module:Mine", "fedspu"], LIGHT)) == 2
