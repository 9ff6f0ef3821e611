"""A picture of what the attacks rebuild: originals, and one row for each size of the sum, with the error in dB."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from bench.secure.inversion import SIZES, Case, Rebuilt, shown
from bench.secure.inversion_attacks import GradientAttack
from edgefl.experiment.data.dataset import DataSet

CASE = Case("feddyn_mlp", 4, 1, 1)
COLUMNS = 8  # pictures of the first two clients
COLOURS = 64


def draw(data: DataSet, seed: int, attack: GradientAttack, file: Path) -> None:
    """Write the picture as PNG."""
    found = shown(data, CASE, seed, attack)
    lines = [("the devices'\npictures", found[1]["gradient"], True)]
    lines += [(_name("gradient", size), found[size]["gradient"], False) for size in SIZES]
    lines += [(_name("neuron", size), found[size]["neuron"], False) for size in (1, 5, 10)]
    figure = Figure((8.4, 1.12 * len(lines)), layout="constrained")
    axes = figure.subplots(len(lines), COLUMNS)
    for places, (name, rebuilt, is_original) in zip(axes, lines, strict=True):
        _line(places, name, rebuilt, is_original)
    for column, places in ((0, "device 0"), (COLUMNS // 2, "device 1")):
        axes[0][column].set_title(places, loc="left", fontsize=9)
    canvas = FigureCanvasAgg(figure)
    figure.set_dpi(100)
    canvas.draw()
    Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").quantize(COLOURS).save(file, optimize=True)


def _name(attack: str, size: int) -> str:
    return f"{attack} attack,\n" + ("one update" if size == 1 else f"sum of {size}")


def _line(places: np.ndarray, name: str, rebuilt: Rebuilt, is_original: bool) -> None:
    pictures = rebuilt.originals if is_original else rebuilt.pictures
    for place, picture, psnr in zip(places, pictures, rebuilt.psnr, strict=False):
        place.imshow(picture[0].numpy(), cmap="gray", vmin=0, vmax=1)
        place.set(xticks=[], yticks=[])
        if not is_original:
            place.set_xlabel(f"{psnr:.0f} dB", fontsize=8, labelpad=2)
    places[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9, labelpad=8)
