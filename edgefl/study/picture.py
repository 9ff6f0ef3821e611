"""The figures of a run as a picture: accuracy over rounds and over payload bytes. Drawn by matplotlib, an extra."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgefl.study.summary import Summary


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


def plot(path: Path, summaries: list[Summary], devices: Sequence[Mapping[str, Any]] = ()) -> None:
    """Draws accuracy over rounds and over payload bytes, and of single devices if given: by method, their "accuracy".

    Raises  ValueError as check_picture does; OSError if the disk refuses.
    """
    check_picture(path)
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    count = 3 if devices else 2
    figure, axes = pyplot.subplots(1, count, figsize=(5 * count, 4), sharey=True)
    for summary in summaries:
        accuracy = [_drawn(point) for point in summary.curve]
        axes[0].plot([point["round"] for point in summary.curve], accuracy, label=summary.method)
        if summary.payload_bytes:
            axes[1].plot([point["payload_bytes"] / 1e6 for point in summary.curve], accuracy, label=summary.method)
    score = (
        "accuracy on the clients' test samples, %" if summaries[0].has_accuracy else "loss on the clients' test samples"
    )
    axes[0].set(xlabel="round", ylabel=f"mean {score}")
    axes[1].set(xlabel="payload so far, MB")
    axes[0].legend()
    for i, summary in enumerate(summaries if devices else ()):
        accuracy = [100 * device[summary.method]["accuracy"] for device in devices]
        axes[2].plot([device["device"] + 0.15 * i for device in devices], accuracy, "o")
        axes[2].set(xlabel="device, at the end")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _drawn(point: Mapping[str, Any]) -> float:
    """The height of a point: percent of accuracy, or the loss."""
    if "accuracy" in point:
        return float(100 * point["accuracy"])
    return math.nan if point["loss"] is None else float(point["loss"])
