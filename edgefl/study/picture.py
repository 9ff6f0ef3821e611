"""The figures of a run as a picture: accuracy over rounds, over payload bytes and over time and energy of modelled
devices, by capacity tier and by device, and the loss in training. Drawn by matplotlib, an extra.

A method has one colour and one marker in all panels, and its name at the end of its lines, so that nothing has to be
looked up and colours are not needed. A file whose name ends in "-dark" is for a dark page.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from edgefl.methods.rounds.round_metrics import REFRESHED, TRAINING
from edgefl.study.summary import Summary
from edgefl.system.durable_files import why_unwritable

BESIDE = {TRAINING: "dashed", REFRESHED: "dotted"}  # of a curve's points, beside the score, and how they are drawn
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#a6761d",
    "#56b4e9",
    "#7f7f7f",
)  # told apart by the colour-blind
MARKERS = "osD^vP*X<>"
DARK = "-dark"
INK, PAPER = {False: "#1f2328", True: "#e6edf3"}, {False: "#ffffff", True: "#0d1117"}  # by whether the page is dark
PANEL = 4.6, 3.6  # inches
ROW = 3  # panels
LINE = 0.055  # of a panel's height that a label needs


class Spent(NamedTuple):
    """What a panel is over: where a curve's points have it, words, and units, the smallest first."""

    key: str
    title: str
    label: str
    units: tuple[tuple[float, str], ...]


MODEL = ", by the model of the devices"
SPENT = (
    Spent("payload_bytes", "what was sent", "payload so far, {}", ((1e6, "MB"),)),
    Spent("virtual_seconds", "modelled time", f"time so far, {{}}{MODEL}", ((1, "s"), (60, "min"), (3600, "h"))),
    Spent("virtual_joules", "modelled energy", f"energy so far, {{}}{MODEL}", ((1, "J"), (1e3, "kJ"))),
)


def check_picture(path: Path) -> None:
    """Raises ValueError if no picture can be drawn, or none to that file: before anything is spent on what it shows."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("--plot needs matplotlib, which is not installed; expected it: pip install matplotlib")
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix.lower().removeprefix(".") not in kinds:
        raise ValueError(f"--plot {path}; expected a file that ends in one of .{', .'.join(kinds)}")
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise ValueError(f"--plot {path}; expected a file in a directory that is there")
    if (why := why_unwritable(path)) is not None:
        raise ValueError(f"--plot {path} cannot be written ({why}); expected a file in a directory of your own")


def plot_seeds(path: Path, by_seed: Mapping[int, list[Summary]]) -> None:
    """`plot` of a run; of several seeds, every one of them."""
    several = len(by_seed) > 1
    named = [
        replace(each, method=f"{each.method} seed {seed}") if several else each
        for seed, summaries in by_seed.items()
        for each in summaries
    ]
    plot(path, named)


def plot(path: Path, summaries: list[Summary], devices: Sequence[Mapping[str, Any]] = ()) -> None:
    """Draws accuracy over rounds, payload bytes and what modelled devices spent, FedSPU's capacity tiers if there are
    several, and single devices if given: by method, their "accuracy". Dashed is the same on training samples, dotted
    after a refresh, where the run has them. Beside them the mean loss of training.

    Raises  ValueError as check_picture does; OSError if the disk refuses.
    """
    check_picture(path)
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = _panels(summaries, devices)
    with pyplot.rc_context(_page(path.stem.endswith(DARK))):
        columns, (width, height) = min(len(panels), ROW), PANEL
        rows = -(-len(panels) // columns)
        figure, areas = pyplot.subplots(rows, columns, figsize=(width * columns, height * rows), squeeze=False)
        for area in areas.flat[len(panels) :]:
            figure.delaxes(area)
        for area, draw in zip(areas.flat, panels, strict=False):
            draw(area)
        figure.tight_layout()
        figure.savefig(path, dpi=120)
        pyplot.close(figure)


def _panels(summaries: list[Summary], devices: Sequence[Mapping[str, Any]]) -> list[Callable[[Any], None]]:
    """What each panel is drawn by, on its axes."""
    panels: list[Callable[[Any], None]] = [partial(_over_rounds, summaries=summaries)]
    for spent in SPENT:
        ends = [summary.curve[-1].get(spent.key) for summary in summaries]
        if None not in ends and any(ends):
            panels.append(partial(_over_spent, summaries=summaries, spent=spent))
    tiered = next((each for each in summaries if each.method.startswith("fedspu") and len(each.tiers) > 1), None)
    if tiered is not None and any(tier["client_rounds"] for tier in tiered.tiers):
        panels.append(partial(_by_tier, ours=tiered, summaries=summaries))
    if devices:
        panels.append(partial(_by_device, summaries=summaries, devices=devices))
    if any("train_loss" in point for summary in summaries for point in summary.curve):
        panels.append(partial(_losses, summaries=summaries))
    return panels


def _page(dark: bool) -> Any:
    """Settings of matplotlib for a page."""
    ink = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK[dark])
    paper = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), PAPER[dark])
    return {**ink, **paper, "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"}


def _style(summaries: list[Summary], i: int) -> dict[str, Any]:
    """Of a method's lines: one colour and one marker for it, few enough markers to see the line."""
    every = max(1, len(summaries[i].curve) // 8)
    looks = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
    return {**looks, "markersize": 5, "markevery": every, "linewidth": 1.6}


def _over_rounds(area: Any, summaries: list[Summary]) -> None:
    ends = []
    for i, summary in enumerate(summaries):
        scores, style = [_drawn(point) for point in summary.curve], _style(summaries, i)
        area.plot([point["round"] for point in summary.curve], scores, **style)
        for kind, dashes in BESIDE.items():
            points = [(p["round"], _scaled(p[kind], summary)) for p in summary.curve if p.get(kind) is not None]
            if points:
                area.plot(*zip(*points), linestyle=dashes, linewidth=1, color=style["color"])
        ends.append((summary.curve[-1]["round"], scores[-1], summary.method, style["color"]))
    beside = [f"{style}: {kind}" for kind, style in BESIDE.items() if any(kind in s.curve[-1] for s in summaries)]
    area.set(title=f"{_score(summaries)} over rounds", xlabel="; ".join(["round", *beside]), ylabel=_axis(summaries))
    _label(area, ends)


def _over_spent(area: Any, summaries: list[Summary], spent: Spent) -> None:
    """A method that spends none of it has a level line."""
    ends, most = [], max(summary.curve[-1][spent.key] for summary in summaries)
    unit, name = next(((unit, name) for unit, name in reversed(spent.units) if most > 2 * unit), spent.units[0])
    for i, summary in enumerate(summaries):
        scores, style = [_drawn(point) for point in summary.curve], _style(summaries, i)
        amounts = [point[spent.key] / unit for point in summary.curve]
        if amounts[-1]:
            area.plot(amounts, scores, **style)
        else:
            area.axhline(scores[-1], color=style["color"], linewidth=1.2)
        ends.append((amounts[-1], scores[-1], summary.method, style["color"]))
    area.set(title=f"{_score(summaries)} over {spent.title}", xlabel=spent.label.format(name), ylabel=_axis(summaries))
    area.set_xlim(left=0)
    _label(area, ends)


def _by_tier(area: Any, ours: Summary, summaries: list[Summary]) -> None:
    """Bars: what a client of the tier sends and receives, of a dense model's bytes. Points: everybody's score there."""
    positions = range(len(ours.tiers))
    shares = [100 * tier["bytes"] / tier["dense_bytes"] if tier["client_rounds"] else 0 for tier in ours.tiers]
    bars = area.bar(positions, shares, width=0.7, color="none", edgecolor=COLOURS[-1], hatch="//")
    area.bar_label(bars, [f"{share:.0f} %" if share else "-" for share in shares], fontsize=8)
    ends = []
    for i, summary in enumerate(summaries):
        style, scores = _style(summaries, i), [_drawn(tier) for tier in summary.tiers]
        style |= {"linewidth": 0.8, "markevery": 1}
        if summary.has_accuracy:
            area.plot(positions, scores, **style)
            ends.append((len(scores) - 1, scores[-1], summary.method, style["color"]))
    area.set_xticks(positions, [f"{tier['keep']:g}" for tier in ours.tiers])
    what = "bars: bytes, % of dense" + ("; points: accuracy, %" if ends else "")
    area.set(title="By capacity tier", xlabel=f"p, share of neurons of {ours.method}", ylabel=what)
    _label(area, ends)


def _by_device(area: Any, summaries: list[Summary], devices: Sequence[Mapping[str, Any]]) -> None:
    for i, summary in enumerate(summaries):
        scores = [100 * device[summary.method]["accuracy"] for device in devices]
        style = _style(summaries, i) | {"markevery": 1, "linewidth": 0}
        area.plot([device["device"] + 0.12 * (i - len(summaries) / 2) for device in devices], scores, **style)
    area.set_xticks([device["device"] for device in devices])
    area.set(title="On every device at the end", xlabel="device; markers as beside", ylabel=_axis(summaries))


def _losses(area: Any, summaries: list[Summary]) -> None:
    ends: list[tuple[float, float, str, str]] = []
    for i, summary in enumerate(summaries):
        points = [(point["round"], point["train_loss"]) for point in summary.curve if "train_loss" in point]
        if points:
            style = _style(summaries, i)
            area.plot(*zip(*points), **style)
            ends.append((*points[-1], summary.method, style["color"]))
    area.set(title="Loss of training", xlabel="round", ylabel="mean loss of training", yscale="log")
    _label(area, ends)


def _label(area: Any, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """The names at the right of lines that end at these places, apart from one another."""
    to_axes = area.transLimits if area.get_yscale() == "linear" else area.transScale + area.transLimits
    area.autoscale_view()
    heights = [to_axes.transform((0.0 if area.get_xscale() == "linear" else 1.0, y))[1] for _, y, _, _ in ends]
    shown = sorted(i for i, height in enumerate(heights) if math.isfinite(height))
    for i, height in zip(sorted(shown, key=lambda i: heights[i]), _apart(sorted(heights[i] for i in shown))):
        _, _, name, colour = ends[i]
        area.annotate(
            name, xy=ends[i][:2], xytext=(1.03, height), textcoords="axes fraction", color=colour, fontsize=9,
            va="center", annotation_clip=False, arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5},
        )  # fmt: skip


def _apart(heights: Sequence[float]) -> list[float]:
    """Ascending heights, moved so little that a line of text has room between each two."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + LINE) if placed else height)
    over = max(0.0, placed[-1] - 1) if placed else 0.0
    for i in range(len(placed) - 1, -1, -1):
        above = placed[i + 1] - LINE if i + 1 < len(placed) else placed[i] - over
        placed[i] = min(placed[i], above)
    return placed


def _score(summaries: list[Summary]) -> str:
    return "Accuracy" if summaries[0].has_accuracy else "Loss"


def _axis(summaries: list[Summary]) -> str:
    """What the height of a point is."""
    of_samples = "on the clients' test samples"
    return f"mean accuracy {of_samples}, %" if summaries[0].has_accuracy else f"mean loss {of_samples}"


def _scaled(score: float, summary: Summary) -> float:
    """Percent of accuracy, or a loss."""
    return 100 * score if summary.has_accuracy else score


def _drawn(point: Mapping[str, Any]) -> float:
    """The height of a point: percent of accuracy, or the loss."""
    if "accuracy" in point:
        return float(100 * point["accuracy"])
    return math.nan if point["loss"] is None else float(point["loss"])
