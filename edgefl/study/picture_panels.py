"""The panels of a picture, each drawn on its own axes: results over cost, the clients, the capacity tiers, the training
loss. Every panel has one quantity on each axis.

picture_figure.py arranges the panels and draws the legend. picture_style.py has the colours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from edgefl.methods.rounds.round_metrics import REFRESHED, TRAINING
from edgefl.study.comparison import BUDGETS
from edgefl.study.mean_curves import MeanCurve, Value, mean_curve
from edgefl.study.picture_style import Look
from edgefl.study.summary import Summary

BESIDE = {TRAINING: "dashed", REFRESHED: "dotted"}  # other scores of a curve's points, and their lines
BY_MODEL = ", by the model of the devices"
BAND, THIN = 0.2, 0.45  # opacity of bands, and of the lines of seeds
LOG_FROM = 10.0  # ratio of the greatest to the least loss from which the axis is logarithmic


class Content(NamedTuple):
    """The content of a picture.

    methods  by label: the summaries of a method, one per seed
    looks    by label: colour and marker
    seeds    whether every seed has a thin line of its own
    devices  single devices: by method, their "accuracy"
    """

    methods: Mapping[str, Sequence[Summary]]
    looks: Mapping[str, Look]
    seeds: bool = False
    devices: Sequence[Mapping[str, Any]] = ()

    @property
    def summaries(self) -> list[Summary]:
        """Return the figures of all methods and seeds."""
        return [summary for of in self.methods.values() for summary in of]

    @property
    def has_accuracy(self) -> bool:
        """Return whether heights are accuracies. Otherwise heights are losses."""
        return self.summaries[0].has_accuracy

    @property
    def score(self) -> str:
        """Return the words for heights on the axis."""
        return "accuracy, %" if self.has_accuracy else "loss"

    @property
    def seed_count(self) -> int:
        """Return the number of seeds."""
        return len(next(iter(self.methods.values())))

    def height(self, point: Mapping[str, Any]) -> float | None:
        """Return the height of a curve's point or of a tier: percent of accuracy, or the loss, or None if there is no
        number.
        """
        return self.scaled(point.get("accuracy" if self.has_accuracy else "loss"))

    def scaled(self, score: float | None) -> float | None:
        """Return percent of accuracy, or a loss as it is."""
        return None if score is None else (100 * score if self.has_accuracy else score)


class Panel(NamedTuple):
    """A panel of a picture.

    lacks  returns the reason why the panel cannot be drawn, or "" if it can
    draw   draws on axes of matplotlib
    """

    lacks: Callable[[Content], str]
    draw: Callable[[Any, Content], None]


class Spent(NamedTuple):
    """The cost that a panel is drawn over: its title, its axis, its units, the smallest first, and the message for a
    run without it.
    """

    title: str
    label: str
    units: tuple[tuple[float, str], ...]
    lacking: str


BYTES = ((1e3, "kB"), (1e6, "MB"), (1e9, "GB"))
TIMES = ((1, "s"), (60, "min"), (3600, "h"))
SPENT = {
    "bytes": Spent("what was sent", "payload, both ways, {}", BYTES, "payload"),
    "seconds": Spent("time of training", "training of all clients together, {}", TIMES, "time of training"),
    "work": Spent("work", "work of all clients together, {}", ((1e9, "GFLOP"), (1e12, "TFLOP")), "work"),
    "virtual-seconds": Spent("modelled time", f"time, {{}}{BY_MODEL}", TIMES, "modelled devices"),
    "joules": Spent("modelled energy", f"energy, {{}}{BY_MODEL}", ((1, "J"), (1e3, "kJ")), "modelled devices"),
}


def _there(content: Content) -> str:
    return ""


def _over_rounds(area: Any, content: Content) -> None:
    for label in content.methods:
        _curve(area, content, label, _round, content.height)
        for kind, dashes in BESIDE.items():
            curve = mean_curve(content.methods[label], _round, partial(_beside, content, kind))
            if any(map(math.isfinite, curve.ys)):
                colour = content.looks[label].colour
                area.plot(curve.xs, curve.ys, linestyle=dashes, linewidth=1, color=colour)
    area.set(title=f"{_score(content)} over rounds", xlabel="round", ylabel=content.score)
    _whole_rounds(area, content)


def _beside(content: Content, kind: str, point: Mapping[str, Any]) -> float | None:
    """Return a point's score of a kind of BESIDE."""
    return content.scaled(point.get(kind))


def _lacks_spent(name: str, content: Content) -> str:
    ends = [summary.curve[-1].get(BUDGETS[name]) for summary in content.summaries]
    return "" if None not in ends and any(ends) else f"the run has no {SPENT[name].lacking}"


def _over_spent(name: str, area: Any, content: Content) -> None:
    """Draw scores over a cost. A method that spends nothing of it has a level line."""
    spent, key = SPENT[name], BUDGETS[name]
    unit, words = _unit(max(summary.curve[-1][key] for summary in content.summaries), spent.units)
    for label, of in content.methods.items():
        if any(summary.curve[-1][key] for summary in of):
            _curve(area, content, label, lambda point: point[key] / unit, content.height)
        else:
            _level(area, content, label)
    area.set(title=f"{_score(content)} over {spent.title}", xlabel=spent.label.format(words), ylabel=content.score)
    area.set_xlim(left=0)


def _level(area: Any, content: Content, label: str) -> None:
    """Draw a method's last score as a level line over the whole axis."""
    curve, colour = mean_curve(content.methods[label], _round, content.height), content.looks[label].colour
    area.axhline(curve.ys[-1], color=colour, linewidth=1.4)
    if curve.spread and math.isfinite(curve.spread[-1]):
        area.axhspan(*_band(curve, content)[-1], color=colour, alpha=BAND, linewidth=0)


def _curve(area: Any, content: Content, label: str, x: Value, y: Value) -> None:
    """Draw a method's mean over its seeds with a band of their standard deviation, and every seed on demand."""
    curve, look = mean_curve(content.methods[label], x, y), content.looks[label]
    if content.seeds and len(curve.seeds) > 1:
        for xs, ys in curve.seeds:
            area.plot(xs, ys, color=look.colour, linewidth=0.7, alpha=THIN)
    if curve.spread:
        band = _band(curve, content)
        area.fill_between(curve.xs, *zip(*band), color=look.colour, alpha=BAND, linewidth=0)
    style = {"color": look.colour, "marker": look.marker, "markersize": 4.5, "linewidth": 1.6, "linestyle": look.line}
    area.plot(curve.xs, curve.ys, label=label, markevery=_marked(content, label, len(curve.xs)), **style)


def _marked(content: Content, label: str, points: int) -> tuple[int, int]:
    """Return the first point with a marker, and the number of points to the next marker. Different methods have their
    markers at different points, so that lines on top of each other can be told apart.
    """
    every = max(1, points // 8)
    return list(content.methods).index(label) % every, every


def _band(curve: MeanCurve, content: Content) -> list[tuple[float, float]]:
    """Return the lower and the upper end at every point. An accuracy does not leave 0 to 100 %."""
    found = [(y - spread, y + spread) for y, spread in zip(curve.ys, curve.spread, strict=True)]
    return [(max(0.0, low), min(100.0, high)) for low, high in found] if content.has_accuracy else found


def _lacks_loss(content: Content) -> str:
    known = any("train_loss" in point for summary in content.summaries for point in summary.curve)
    return "" if known else "the run has no loss of training"


def _losses(area: Any, content: Content) -> None:
    for label in content.methods:
        _curve(area, content, label, _round, lambda point: point.get("train_loss"))
    area.set(title="Loss of training", xlabel="round", ylabel="loss")
    _whole_rounds(area, content)
    heights = [point.get("train_loss") for summary in content.summaries for point in summary.curve]
    known = [height for height in heights if height is not None and math.isfinite(height)]
    if known and min(known) > 0 and max(known) > LOG_FROM * min(known):
        _logarithmic(area)


def _logarithmic(area: Any) -> None:
    """Make the axis of heights logarithmic, with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    area.set_yscale("log")
    area.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    area.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    area.yaxis.set_minor_formatter(NullFormatter())


def _clients(area: Any, content: Content) -> None:
    """Draw for each method the share of clients, over all seeds, whose score is at most the score on the axis."""
    for label, of in content.methods.items():
        scale = 100 if content.has_accuracy else 1
        scores = sorted(scale * each for summary in of for each in summary.by_client if each is not None)
        if scores:
            look, shares = content.looks[label], [100 * (i + 1) / len(scores) for i in range(len(scores))]
            style = {"color": look.colour, "marker": look.marker, "markersize": 4.5, "linewidth": 1.4}
            every = max(1, len(scores) // 6)
            area.step([scores[0], *scores], [0.0, *shares], where="post", markevery=(every, every), **style)
    score = content.score.partition(",")[0]
    unit = ", %" if content.has_accuracy else ""
    area.set(title=f"{_score(content)} of the clients at the end", xlabel=f"a client's {score}{unit}")
    area.set(ylabel="share of clients, %", ylim=(0, 102))


def _lacks_tiers(content: Content) -> str:
    tiers = _tiered(content)
    return "" if len(tiers) > 1 else "the run has no FedSPU with several capacity tiers"


def _tiered(content: Content) -> Sequence[Mapping[str, Any]]:
    """Return the tiers of the first method of FedSPU's family that has trained in several tiers, or ()."""
    for label, of in content.methods.items():
        tiers = of[0].tiers
        if label.startswith("fedspu") and len(tiers) > 1 and any(tier["client_rounds"] for tier in tiers):
            return tiers
    return ()


def _tier_scores(area: Any, content: Content) -> None:
    """Draw the score of every method on the clients of each tier."""
    for label, of in content.methods.items():
        look, each = content.looks[label], [[content.height(tier) for tier in one.tiers] for one in of]
        heights = [_mean(column) for column in zip(*each, strict=True)]
        style = {"color": look.colour, "marker": look.marker, "markersize": 4.5, "linewidth": 0.9}
        area.plot(range(len(heights)), heights, **style)
    area.set(title=f"{_score(content)} by capacity tier", ylabel=content.score)
    _tier_axis(area, content)


def _tier_bytes(area: Any, content: Content) -> None:
    """Draw bars of the payload that a client of the tier sends and receives in a round."""
    found = {label: _of_rounds(of, "bytes") for label, of in content.methods.items()}
    found = {label: values for label, values in found.items() if any(values)}
    unit, words = _unit(max(map(max, found.values()), default=0.0), BYTES)
    width = 0.8 / max(1, len(found))
    for i, (label, values) in enumerate(found.items()):
        places = [group - 0.4 + (i + 0.5) * width for group in range(len(values))]
        look, heights = content.looks[label], [value / unit for value in values]
        style = {"color": look.colour, "hatch": "" if look.line == "-" else "////", "edgecolor": area.get_facecolor()}
        area.bar(places, heights, width * 0.9, linewidth=0, **style)
    area.set(title="Payload by capacity tier", ylabel=f"a client's round, {words}")
    _tier_axis(area, content)


def _tier_memory(area: Any, content: Content) -> None:
    """Draw bars of the memory of a training step of the family's first method."""
    label = next(label for label in content.methods if label.startswith("fedspu"))
    sizes = [float(tier["memory_bytes"]) for tier in _tiered(content)]
    unit, words = _unit(max(sizes), BYTES)
    area.bar(range(len(sizes)), [size / unit for size in sizes], 0.6, color=content.looks[label].colour)
    area.set(title=f"Memory of {label} by capacity tier", ylabel=f"training step, {words}")
    _tier_axis(area, content)


def _tier_axis(area: Any, content: Content) -> None:
    tiers = _tiered(content)
    area.set_xticks(range(len(tiers)), [f"{tier['keep']:g}" for tier in tiers])
    area.set(xlabel="p, share of neurons that FedSPU trains")


def _of_rounds(of: Sequence[Summary], name: str) -> list[float]:
    """Return for each tier the mean over the seeds in which a client has trained in it, or 0 if no client has."""
    tiers = zip(*(one.tiers for one in of), strict=True)
    known = [[float(tier[name]) for tier in column if tier["client_rounds"]] for column in tiers]
    return [sum(values) / len(values) if values else 0.0 for values in known]


def _lacks_devices(content: Content) -> str:
    return "" if content.devices else "the run has no figures of single devices (edgefl demo has some)"


def _by_device(area: Any, content: Content) -> None:
    for i, (label, look) in enumerate(content.looks.items()):
        places = [device["device"] + 0.12 * (i - (len(content.looks) - 1) / 2) for device in content.devices]
        scores = [100 * device[label]["accuracy"] for device in content.devices]
        area.plot(places, scores, color=look.colour, marker=look.marker, markersize=5, linewidth=0)
    area.set_xticks([device["device"] for device in content.devices])
    area.set(title="Accuracy on every device at the end", xlabel="device", ylabel=content.score)


def _round(point: Mapping[str, Any]) -> float:
    return float(point["round"])


def _whole_rounds(area: Any, content: Content) -> None:
    from matplotlib.ticker import MaxNLocator

    area.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, min_n_ticks=1))
    last = max(summary.curve[-1]["round"] for summary in content.summaries)
    area.set_xlim(0, last + max(0.5, 0.03 * last))


def _unit(most: float, units: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Return the largest unit of which there are more than two, or else the smallest unit."""
    return next(((unit, name) for unit, name in reversed(units) if most > 2 * unit), units[0])


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else math.nan


def _score(content: Content) -> str:
    return "Accuracy" if content.has_accuracy else "Loss"


PANELS: dict[str, Panel] = {  # panels by name, in the order of the picture
    "rounds": Panel(_there, _over_rounds),
    **{name: Panel(partial(_lacks_spent, name), partial(_over_spent, name)) for name in SPENT},
    "clients": Panel(_there, _clients),
    "tiers": Panel(_lacks_tiers, _tier_scores),
    "tier-bytes": Panel(_lacks_tiers, _tier_bytes),
    "tier-memory": Panel(_lacks_tiers, _tier_memory),
    "devices": Panel(_lacks_devices, _by_device),
    "loss": Panel(_lacks_loss, _losses),
}
