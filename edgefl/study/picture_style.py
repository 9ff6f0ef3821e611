"""The style of pictures: colours for a light and a dark page, and a colour and a marker for each method. Nothing is
drawn here.

People with each kind of colour blindness can tell the eight colours of a page apart. The contrast of each colour with
the page is 3 or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from edgefl.methods.method_label import Variant

DARK = "-dark"  # end of the name of a file for a dark page
DPI = 120
HASH_SALT = "edgefl"  # with this salt equal pictures have equal bytes as SVG
MARKERS = "osDv^PX<>phd8*H"
BLUE, ORANGE, GREEN, GREY, SKY, PINK, BROWN, PURPLE = range(8)
LOOKS: Mapping[str, tuple[int, str]] = {  # looks of methods that are often compared. Each has a colour of its own
    "fedspu": (BLUE, "o"), "fedavg-ft": (ORANGE, "s"), "local": (GREEN, "D"), "fedavg": (GREY, "v"),
    "fedspu-es": (SKY, "^"), "fedprox": (PINK, "P"), "ditto": (BROWN, "X"), "fedper": (PURPLE, "<"),
}  # fmt: skip
WISHES: Mapping[str, tuple[int, str]] = {  # looks of other methods, if the colour is free in the picture
    "fedspu-cached": (PURPLE, ">"), "fedspu-cached-es": (PINK, "p"), "random-dropout": (BROWN, "h"),
    "fjord": (PINK, "d"), "fedumf": (SKY, "8"), "feddyn": (BROWN, ">"), "feddc": (PURPLE, "h"),
    "fedumf-feddc": (GREEN, "p"), "pflego": (PINK, "*"), "fedspa": (SKY, "d"), "fedspa-rsm": (PURPLE, "8"),
    "fedbabu": (BROWN, "H"), "fedrecon": (SKY, "*"), "subfedavg": (GREEN, "H"), "scaffold": (GREEN, ">"),
    "fedrep": (SKY, "<"), "fedmp": (BROWN, "p"), "prunefl": (PURPLE, "*"), "hermes": (GREEN, "d"),
    "fedselect": (PINK, "8"), "lg-fedavg": (SKY, "h"), "apfl": (GREEN, "X"), "subsampling": (PURPLE, "v"),
}  # fmt: skip


class Theme(NamedTuple):
    """The colours of a page, as #rrggbb.

    colours  colours of methods, in the order of BLUE, ORANGE, ...
    """

    ink: str
    paper: str
    grid: str
    colours: tuple[str, ...]

    def settings(self) -> Any:
        """Return the settings of matplotlib that draw and save on this page, by name."""
        ink = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), self.ink)
        paper = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), self.paper)
        spines = {"axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"}
        grid = {"axes.grid": True, "axes.grid.axis": "y", "grid.color": self.grid, "grid.linewidth": 0.6}
        sizes = {"font.size": 9.0, "axes.titlesize": 10.0, "axes.labelsize": 9.0, "legend.fontsize": 9.0}
        room = {"figure.constrained_layout.w_pad": 0.06, "figure.constrained_layout.h_pad": 0.08}
        files = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": HASH_SALT}
        return {
            **ink,
            **paper,
            **spines,
            **grid,
            **sizes,
            **room,
            **files,
            "axes.axisbelow": True,
            "legend.frameon": False,
        }


THEMES = {
    "light": Theme(
        "#1f2328",
        "#ffffff",
        "#d8dee4",
        ("#265bb7", "#c77100", "#16864d", "#48596d", "#228ae4", "#c17a8a", "#80550b", "#502cc0"),
    ),
    "dark": Theme(
        "#e6edf3",
        "#0d1117",
        "#30363d",
        ("#0983ce", "#ec881b", "#00c064", "#9cb28d", "#8aa7ff", "#ee7cc1", "#be7a3d", "#b665ff"),
    ),
}


class Look(NamedTuple):
    """The look of a method: its colour, its marker, and its line ("-." if another method has the colour)."""

    colour: str
    marker: str
    line: str = "-"


def theme_named(name: str) -> Theme:
    """Return the theme of this name. Raises ValueError for an unknown name."""
    if name not in THEMES:
        raise ValueError(f"theme={name!r}; expected one of {', '.join(THEMES)}")
    return THEMES[name]


def theme_of_file(path: Path) -> str:
    """Return the name of the theme that the name of a picture's file asks for."""
    return "dark" if path.stem.endswith(DARK) else "light"


def looks(labels: Iterable[str], theme: Theme) -> dict[str, Look]:
    """Return the colour and the marker of each of these methods.

    A method of LOOKS has its own look in every picture. Another method has the colour of its wish if no method of the
    picture has that colour, and otherwise the next free colour. Markers are chosen in the same way. Among more than
    eight methods two share a colour, and the line of the second method is dashed and dotted.
    """
    labels, found = list(labels), dict[str, tuple[int, str]]()
    for label in labels:
        if label in LOOKS:
            found[label] = LOOKS[label]
    for label in labels:
        if label not in found:
            method = Variant.of(label).method
            wish = {**LOOKS, **WISHES}.get(method, (len(found) % 8, MARKERS[len(found) % len(MARKERS)]))
            colours, markers = zip(*found.values()) if found else ((), ())
            found[label] = _free(wish[0], reversed(range(8)), colours), _free(wish[1], MARKERS, markers)
    first: dict[int, str] = {}
    for label, (colour, _) in found.items():
        first.setdefault(colour, label)
    lines = {label: "-" if first[colour] == label else "-." for label, (colour, _) in found.items()}
    return {label: Look(theme.colours[found[label][0]], found[label][1], lines[label]) for label in labels}


def _free(wish: Any, known: Iterable[Any], taken: Sequence[Any]) -> Any:
    """Return the wish if no other colour or marker was taken less often, or else the first of the least taken ones."""
    return min((wish, *known), key=taken.count)
