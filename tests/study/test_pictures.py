"""Pictures of a run, on runs that can be added up by hand: their panels, whose axes, which files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the picture is an optional extra")
from matplotlib import image
from matplotlib.figure import Figure

from edgefl.study.picture import PANELS, draw, picture, plot, plot_seeds
from edgefl.study.picture_figure import _rows
from edgefl.study.picture_style import THEMES
from edgefl.study.summary import Summary, summarise
from tests.study.test_devices_of_a_study import FRUGAL, QUICK
from tests.study.test_study_comparison import TIERS, log_record, record, run, scores, tiers

ASKED: dict[str, Any] = {"panels": None, "size": None, "theme": None, "seeds": False}
LIGHT = THEMES["light"]


def two(shift: int = 0) -> list[Summary]:
    return [run("fedspu", [1 + shift] * 4, [3 + shift] * 4), run("fedavg", [2] * 4, [2] * 4, down=800, up=800)]


def titles(figure: Figure) -> list[str]:
    return [area.get_title(loc="left") for area in figure.axes]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for of in figure.legends for text in of.get_texts()]


def heights(area: Any, colour: str) -> list[list[float]]:
    return [[round(float(y), 6) for y in line.get_ydata()] for line in area.get_lines() if line.get_color() == colour]


def test_a_method_has_one_colour_and_one_marker_in_every_panel() -> None:
    figure = picture({1: two()})
    assert titles(figure) == [
        "Accuracy over rounds", "Accuracy over what was sent", "Accuracy over time of training",
        "Accuracy of the clients at the end", "Loss of training",
    ]  # fmt: skip
    for area in figure.axes:
        found = {line.get_color(): line.get_marker() for line in area.get_lines()}
        assert found == {LIGHT.colours[0]: "o", LIGHT.colours[3]: "v"}
    assert legend(figure) == ["fedspu", "fedavg"]
    for area in figure.axes:
        assert not area.texts, "the names stand in the legend"


def test_of_seeds_there_is_a_mean_with_a_band_and_thin_lines_on_demand() -> None:
    """The seeds' accuracies are 10, 30 and 30, 50 %: means 20 and 40, deviations 14.14."""
    figure = picture({1: two(), 2: two(2)}, panels="rounds")
    (area,) = figure.axes
    assert heights(area, LIGHT.colours[0]) == [[20, 40]]
    (ours, _) = area.collections
    low, high = ours.get_datalim(area.transData).intervaly
    assert (low, high) == pytest.approx((20 - 200**0.5, 40 + 200**0.5))
    assert "± sd, 2 seeds" in legend(figure) and "one seed" not in legend(figure)
    thin = picture({1: two(), 2: two(2)}, panels="rounds", seeds=True)
    assert heights(thin.axes[0], LIGHT.colours[0]) == [[10, 30], [30, 50], [20, 40]]
    assert "one seed" in legend(thin)


def test_names_stand_at_the_ends_of_lines_where_there_is_room_and_otherwise_in_a_legend() -> None:
    apart = picture({1: two()}, panels="rounds")
    assert [text.get_text() for text in apart.axes[0].texts] == ["fedspu", "fedavg"] and legend(apart) == []
    assert all(text.arrow_patch is None for text in apart.axes[0].texts)
    near = picture({1: [run("fedspu", [1] * 4, [2] * 4), run("fedavg", [9] * 4, [2] * 4)]}, panels="rounds")
    assert near.axes[0].texts == [] or list(near.axes[0].texts) == []
    assert legend(near) == ["fedspu", "fedavg"]


def test_rounds_are_whole_numbers_also_of_one_round() -> None:
    for rounds in (1, 2, 10, 60):
        area = picture({1: [run("fedspu", *[[1] * 4] * rounds)]}, panels="rounds").axes[0]
        assert all(float(tick).is_integer() for tick in area.get_xticks()), rounds
        assert area.get_xlim()[0] == 0 and area.get_xlim()[1] > rounds


def test_what_is_beside_the_test_is_dashed_and_dotted_and_named() -> None:
    kinds = {"refreshed": scores([5, 5, 5, 5]), "training": scores([9, 9, 9, 9])}
    found = summarise("fedspu", [log_record(1, [record(0)], [1, 1, 1, 1], **kinds)], TIERS, {"round_lt_C": None})
    figure = picture({1: [found]})
    over_rounds = figure.axes[0]
    assert [each.get_ydata()[0] for each in over_rounds.lines] == pytest.approx([10, 90, 50])
    assert [each.get_linestyle() for each in over_rounds.lines] == ["-", "--", ":"]
    assert legend(figure) == ["fedspu", "on training samples", "after a refresh"]


def test_a_method_that_sends_nothing_has_a_level_line() -> None:
    area = picture({1: [*two(), run("local", [6] * 4, down=0, up=0)]}, panels="bytes").axes[0]
    assert heights(area, LIGHT.colours[2]) == [[60, 60]]
    assert area.get_xlabel() == "payload, both ways, kB" and list(area.lines[0].get_xdata()) == [0.8, 1.6]


def test_time_and_energy_of_modelled_devices_stand_in_place_of_this_machines_time() -> None:
    figure = picture({1: [QUICK, FRUGAL]})
    named = {area.get_title(loc="left"): area for area in figure.axes}
    time, joules = named["Accuracy over modelled time"], named["Accuracy over modelled energy"]
    assert "Accuracy over time of training" not in named
    assert time.get_xlabel() == "time, min, by the model of the devices"
    assert list(time.lines[0].get_xdata()) == pytest.approx([1 / 6, 1 / 3, 1 / 2])
    assert joules.get_xlabel() == "energy, J, by the model of the devices"
    assert [list(each.get_xdata()) for each in joules.lines] == [[5, 10, 15], [1, 2, 3]]


def test_the_clients_are_a_distribution() -> None:
    """Accuracies of .2, .4, .4 and 1: a quarter has at most 20 %, three quarters at most 40 %."""
    area = picture({1: [run("fedspu", [2, 4, 10, 4])]}, panels="clients").axes[0]
    (line,) = area.get_lines()
    assert list(line.get_xdata()) == [20, 20, 40, 40, 100] and list(line.get_ydata()) == [0, 25, 50, 75, 100]
    assert (area.get_xlabel(), area.get_ylabel()) == ("a client's accuracy, %", "share of clients, %")


def test_a_panel_of_tiers_has_one_quantity() -> None:
    halves = tiers()
    halves = type(halves)(100, [0.5, 0.5, 1.0, 1.0], {0.5: 600, 1.0: 1000})
    rounds = [log_record(1, [record(0, down=100, up=100), record(2)], [1, 1, 3, 3])]
    found = summarise("fedspu", rounds, halves, {"round_lt_C": None})
    figure = picture({1: [found]}, panels=["tiers", "tier-bytes", "tier-memory"])
    points, sent, memory = figure.axes
    assert list(points.lines[0].get_ydata()) == [10, 30] and points.get_ylabel() == "accuracy, %"
    assert [bar.get_height() for bar in sent.patches] == [200, 800] or [bar.get_height() for bar in sent.patches] == [
        0.2,
        0.8,
    ]
    assert sent.get_ylabel().startswith("a client's round, ")
    assert [round(bar.get_height() * 1000) for bar in memory.patches] == [600, 1000]
    assert memory.get_ylabel() == "training step, kB"
    assert [tick.get_text() for tick in points.get_xticklabels()] == ["0.5", "1"]


@pytest.mark.parametrize(
    ("count", "rows"), [(1, [1]), (2, [2]), (3, [3]), (4, [2, 2]), (5, [3, 2]), (7, [3, 2, 2]), (8, [3, 3, 2])]
)
def test_no_cell_is_empty(count: int, rows: list[int]) -> None:
    assert _rows(count) == rows


def test_panels_stand_side_by_side_to_the_right_end() -> None:
    figure = picture({1: two()})
    figure.draw_without_rendering()
    right = [area.get_position().x1 for area in figure.axes]
    assert abs(right[2] - right[4]) < 0.01, "the second row of two panels is as wide as the first of three"


def test_text_lies_on_the_page_and_labels_do_not_overlap() -> None:
    figure = picture({1: two(), 2: two(2)})
    figure.draw_without_rendering()
    page = figure.bbox
    boxes = [text.get_window_extent() for area in figure.axes for text in (area.yaxis.label, area.xaxis.label)]
    boxes += [area.get_window_extent() for area in figure.legends]
    for box in boxes:
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_a_picture_for_a_dark_page_is_dark(tmp_path: Path) -> None:
    for name, theme in (("one.png", "light"), ("one-dark.png", "dark")):
        plot(tmp_path / name, two())
        pixels = image.imread(tmp_path / name)[..., :3]
        assert bool(pixels[0, 0].mean() < 0.2) is (theme == "dark")
        colour = np.array([int(THEMES[theme].colours[0][i : i + 2], 16) for i in (1, 3, 5)]) / 255
        assert (np.abs(pixels - colour).max(axis=-1) < 0.02).sum() > 20


def test_vector_files_have_their_text_as_text(tmp_path: Path) -> None:
    for _ in range(2):
        plot_seeds(tmp_path / "one.svg", {1: two()})
        text = (tmp_path / "one.svg").read_text()
        assert "Accuracy over rounds" in text and ">fedspu<" in text
        plot_seeds(tmp_path / "two.svg", {1: two()})
        assert (tmp_path / "two.svg").read_text() == text, "equal pictures are equal files"
    plot_seeds(tmp_path / "one.pdf", {1: two()})
    assert re.search(rb"/Subtype */Type0|/FontFile2", (tmp_path / "one.pdf").read_bytes()), "TrueType, as 42 says"


def test_axes_of_a_figure_of_ones_own_are_drawn_on_and_left_as_large_as_they_are() -> None:
    figure = Figure(figsize=(3, 2))
    one, other = figure.subplots(1, 2)
    assert draw({1: two()}, None, one, **ASKED) is one
    assert one.get_title(loc="left") + one.get_title() == "Accuracy over rounds" and len(one.lines) == 2
    assert [text.get_text() for text in one.get_legend().get_texts()] == ["fedspu", "fedavg"]
    draw({1: two()}, None, [one, other], **{**ASKED, "panels": ["bytes", "clients"]})
    assert list(figure.get_size_inches()) == [3, 2] and other.lines


def test_a_path_gives_a_file_and_nothing_gives_a_figure(tmp_path: Path) -> None:
    assert draw({1: two()}, tmp_path / "a.png", None, **ASKED) == tmp_path / "a.png"
    figure = draw({1: two()}, None, None, **{**ASKED, "size": (5, 3), "theme": "dark", "panels": "bytes"})
    assert list(figure.get_size_inches()) == [5, 3] and figure.get_facecolor()[0] < 0.1
    assert figure._repr_png_().startswith(b"\x89PNG"), "what a notebook shows"
    figure.savefig(tmp_path / "b.svg")
    assert ">fedavg<" in (tmp_path / "b.svg").read_text()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"panels": "round"}, "panels has 'round'; the nearest is rounds; expected some of rounds, bytes, seconds"),
        ({"panels": []}, "panels=[]; expected at least one of rounds"),
        ({"panels": "joules"}, "panels has 'joules', but the run has no modelled devices; expected another panel"),
        ({"panels": ["tiers"]}, "panels has 'tiers', but the run has no FedSPU with several capacity tiers"),
        ({"theme": "blue"}, "theme='blue'; expected one of light, dark"),
        ({"size": 3}, "size=3; expected a width and a height in inches, as (6, 4)"),
        ({"size": (3, -1)}, "size=(3, -1); expected a width and a height in inches above 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as refused:
        draw({1: two()}, None, None, **{**ASKED, **asked})
    assert words in str(refused.value)


def test_axes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    areas = list(Figure().subplots(1, 2))
    with pytest.raises(ValueError, match=r"ax has 2 axes for 1 panels \(rounds\); expected one for each panel"):
        draw({1: two()}, None, areas, **ASKED)
    with pytest.raises(ValueError, match=r"ax with path or size; expected only ax"):
        draw({1: two()}, tmp_path / "a.png", areas[0], **ASKED)


def test_every_panel_has_a_name_that_the_docstring_lists() -> None:
    from edgefl.study.run import Run

    assert Run.plot.__doc__ is not None
    for name in PANELS.keys() - {"devices"}:
        assert re.search(rf"\b{name}\b", Run.plot.__doc__), name
