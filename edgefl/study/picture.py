"""The figures of a run as a picture: accuracy over rounds and over payload bytes, and the loss in training. Drawn by
matplotlib, an extra.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgefl.rounds.metrics import REFRESHED, TRAINING
from edgefl.study.summary import Summary

BESIDE = {TRAINING: "dashed", REFRESHED: "dotted"}  # of a curve's points, beside the score, and how they are drawn


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
    """Draws accuracy over rounds and over payload bytes, and of single devices if given: by method, their "accuracy".
    Dashed is the same on training samples, dotted after a refresh, where the run has them. Beside them the mean loss of
    training.

    Raises  ValueError as check_picture does; OSError if the disk refuses.
    """
    check_picture(path)
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    has_training = any("train_loss" in point for summary in summaries for point in summary.curve)
    count = 2 + bool(devices) + has_training
    figure, axes = pyplot.subplots(1, count, figsize=(5 * count, 4))
    for area in axes[1 : count - has_training]:
        area.sharey(axes[0])
    for summary in summaries:
        accuracy = [_drawn(point) for point in summary.curve]
        (line,) = axes[0].plot([point["round"] for point in summary.curve], accuracy, label=summary.method)
        for kind, style in BESIDE.items():
            points = [(p["round"], _scaled(p[kind], summary)) for p in summary.curve if p.get(kind) is not None]
            if points:
                axes[0].plot(*zip(*points), linestyle=style, linewidth=1, color=line.get_color())
        losses = [(point["round"], point["train_loss"]) for point in summary.curve if "train_loss" in point]
        if losses:
            axes[-1].plot(*zip(*losses), color=line.get_color())
            axes[-1].set(xlabel="round", ylabel="mean loss of training", yscale="log")
        if summary.payload_bytes:
            sent = [point["payload_bytes"] / 1e6 for point in summary.curve]
            axes[1].plot(sent, accuracy, label=summary.method, color=line.get_color())
    score = (
        "accuracy on the clients' test samples, %" if summaries[0].has_accuracy else "loss on the clients' test samples"
    )
    beside = [f"{style}: {kind}" for kind, style in BESIDE.items() if any(kind in s.curve[-1] for s in summaries)]
    axes[0].set(xlabel="; ".join(["round", *beside]), ylabel=f"mean {score}")
    axes[1].set(xlabel="payload so far, MB")
    axes[0].legend()
    for i, summary in enumerate(summaries if devices else ()):
        accuracy = [100 * device[summary.method]["accuracy"] for device in devices]
        axes[2].plot([device["device"] + 0.15 * i for device in devices], accuracy, "o")
        axes[2].set(xlabel="device, at the end")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _scaled(score: float, summary: Summary) -> float:
    """Percent of accuracy, or a loss."""
    return 100 * score if summary.has_accuracy else score


def _drawn(point: Mapping[str, Any]) -> float:
    """The height of a point: percent of accuracy, or the loss."""
    if "accuracy" in point:
        return float(100 * point["accuracy"])
    return math.nan if point["loss"] is None else float(point["loss"])
