"""The picture of a run's figures: its panels, its theme, and its file or axes. matplotlib, which draws the picture, is
an optional extra.

A method has one colour and one marker in all panels of all pictures. For several seeds a panel shows the mean, with a
band of one standard deviation. A file whose name ends in "-dark" is for a dark page. picture_panels.py has the panels.
"""

from __future__ import annotations

import difflib
import importlib.util
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgefl.study.picture_panels import PANELS, Content
from edgefl.study.picture_style import looks, theme_named, theme_of_file
from edgefl.study.summary import Summary
from edgefl.system.durable_files import why_unwritable

BySeed = Mapping[int, Sequence[Summary]]
INSTEAD = {"seconds": "virtual-seconds"}  # panel -> panel that is drawn in its place by default, if possible
ASKED = ("work",)  # panels that are drawn only on request


def check_matplotlib() -> None:
    """Raise ValueError if no picture can be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("--plot needs matplotlib, which is not installed; expected: pip install matplotlib")


def check_picture(path: Path) -> None:
    """Raise ValueError if no picture can be drawn to that file. Call it before time is spent on the results."""
    check_matplotlib()
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix.lower().removeprefix(".") not in kinds:
        raise ValueError(f"--plot {path}; expected a file that ends in one of .{', .'.join(kinds)}")
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise ValueError(f"--plot {path}; expected a file in an existing directory")
    if (why := why_unwritable(path)) is not None:
        raise ValueError(f"--plot {path} cannot be written ({why}); expected a file in a directory of your own")


def plot_seeds(path: Path, by_seed: BySeed) -> None:
    """Draw a picture of a run of one or several seeds into a file, as `plot` does for one seed."""
    check_picture(path)
    picture(by_seed, theme=theme_of_file(path)).savefig(path)


def plot(path: Path, summaries: list[Summary], devices: Sequence[Mapping[str, Any]] = ()) -> None:
    """Draw every panel that methods of one seed have figures for into a file.

    devices  single devices: by method, their "accuracy"
    Raises   ValueError as check_picture does, OSError if the disk refuses.
    """
    check_picture(path)
    picture({1: summaries}, theme=theme_of_file(path), devices=devices).savefig(path)


def draw(
    by_seed: BySeed,
    path: str | os.PathLike[str] | None,
    axes: Any,
    *,
    panels: str | Sequence[str] | None,
    size: tuple[float, float] | None,
    theme: str | None,
    seeds: bool,
) -> Any:
    """Draw the request of `Run.plot`: a file, whose path is returned, a Figure, or given axes."""
    if axes is not None:
        if path is not None or size is not None:
            raise ValueError("ax with path or size; expected only ax: your own figure has its size, and you save it")
        picture_on(axes, by_seed, panels=panels, theme=theme or "light", seeds=seeds)
        return axes
    file = None if path is None else Path(path)
    if file is not None:
        check_picture(file)
    chosen = theme or ("light" if file is None else theme_of_file(file))
    figure = picture(by_seed, panels=panels, size=size, theme=chosen, seeds=seeds)
    if file is None:
        return figure
    figure.savefig(file)
    return file


def picture(
    by_seed: BySeed,
    *,
    panels: str | Sequence[str] | None = None,
    size: tuple[float, float] | None = None,
    theme: str = "light",
    seeds: bool = False,
    devices: Sequence[Mapping[str, Any]] = (),
) -> Any:
    """Return a Figure of matplotlib with these panels.

    panels  one name of PANELS, or several. None: all panels that the run has figures for
    size    width and height in inches. None: the size that fits the number of panels
    seeds   whether every seed has a thin line of its own
    Raises  ValueError for a panel, a size or a theme that cannot be had.
    """
    check_matplotlib()
    colours, wanted = theme_named(theme), _size(size)
    content = _content(by_seed, theme, seeds, devices)
    chosen = _panels(panels, content)
    from edgefl.study.picture_figure import sheet

    return sheet(content, chosen, colours, wanted)


def picture_on(
    axes: Any, by_seed: BySeed, *, panels: str | Sequence[str] | None = None, theme: str = "light", seeds: bool = False
) -> None:
    """Draw panels on axes of the caller's own figure: one axes object, or one for each panel.

    panels  as for `picture`. None: accuracy over rounds
    Raises  ValueError for a panel or a theme that cannot be had, or for another number of axes.
    """
    check_matplotlib()
    colours, content = theme_named(theme), _content(by_seed, theme, seeds, ())
    chosen = _panels("rounds" if panels is None else panels, content)
    areas = list(axes) if isinstance(axes, Iterable) else [axes]
    if len(areas) != len(chosen):
        names = ", ".join(chosen)
        raise ValueError(f"ax has {len(areas)} axes for {len(chosen)} panels ({names}); expected one for each panel")
    from edgefl.study.picture_figure import draw_on

    draw_on(areas, content, chosen, colours)


def _content(by_seed: BySeed, theme: str, seeds: bool, devices: Sequence[Mapping[str, Any]]) -> Content:
    methods: dict[str, list[Summary]] = {}
    for summaries in by_seed.values():
        for each in summaries:
            methods.setdefault(each.method, []).append(each)
    return Content(methods, looks(methods, theme_named(theme)), seeds, devices)


def _panels(asked: str | Sequence[str] | None, content: Content) -> list[str]:
    """Return the names of the panels. Raises ValueError for an unknown panel, or one without figures in the run."""
    if asked is None:
        there = [name for name, panel in PANELS.items() if not panel.lacks(content) and name not in ASKED]
        return [name for name in there if INSTEAD.get(name) not in there]
    names = [asked] if isinstance(asked, str) else list(asked)
    if not names:
        raise ValueError(f"panels={asked!r}; expected at least one of {', '.join(PANELS)}")
    for name in names:
        if name not in PANELS:
            close = difflib.get_close_matches(str(name), PANELS, n=1)
            nearest = f"the nearest is {close[0]}; " if close else ""
            raise ValueError(f"panels has {name!r}; {nearest}expected some of {', '.join(PANELS)}")
        if why := PANELS[name].lacks(content):
            raise ValueError(f"panels has {name!r}, but {why}; expected another panel")
    return names


def _size(size: Any) -> tuple[float, float] | None:
    if size is None:
        return None
    try:
        width, height = (float(each) for each in size)
    except (TypeError, ValueError):
        raise ValueError(f"size={size!r}; expected a width and a height in inches, as (6, 4)") from None
    if not (0 < width < math.inf and 0 < height < math.inf):
        raise ValueError(f"size={size!r}; expected a width and a height in inches above 0, as (6, 4)")
    return width, height
