"""The looks of a method's lines in every chart of a report: one colour and one marker for a method, one dash for a run.
The colours are CSS variables (page_style.py), so that a dark page has other colours.

Colour-blind people can tell the seven colours apart. The contrast of each colour with its page is at least 3.
"""

from __future__ import annotations

from typing import NamedTuple

LIGHT = ("#0072b2", "#d55e00", "#00845f", "#b0568c", "#8a6d00", "#2f86c5", "#5f6368")
DARK = ("#4aa8e8", "#ff8a3d", "#2fc79a", "#e59ac4", "#d1ad3c", "#9bd4ff", "#b3bac2")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2")  # dashes of the lines of the first run, the second run, ...
SHAPES = (
    "M{x0} {y}A{r} {r} 0 1 1 {x1} {y}A{r} {r} 0 1 1 {x0} {y}Z",  # circle
    "M{x0} {y0}H{x1}V{y1}H{x0}Z",  # square
    "M{x} {y0}L{x1} {y1}H{x0}Z",  # triangle
    "M{x} {y0}L{x1} {y}L{x} {y1}L{x0} {y}Z",  # diamond
    "M{x} {y1}L{x1} {y0}H{x0}Z",  # triangle on its head
    "M{x0} {y0}L{x1} {y1}V{y0}L{x0} {y1}Z",  # bow tie
    "M{x0} {y0}L{x1} {y}L{x0} {y1}Z",  # pointing right
    "M{x1} {y0}L{x0} {y}L{x1} {y1}Z",  # pointing left
)
RADIUS = 3.2


class LineLook(NamedTuple):
    """The look of a line: the indices of its colour and marker (`method`) and of its dash (`run`)."""

    method: int
    run: int = 0

    @property
    def classes(self) -> str:
        """Return the CSS classes of everything that belongs to the line."""
        return f"c{self.method % len(LIGHT)} d{self.run % len(DASHES)}"

    def marker(self, x: float, y: float) -> str:
        """Return the path of the marker at a position."""
        r = RADIUS
        places = {"x0": x - r, "x1": x + r, "y0": y - r, "y1": y + r, "x": x, "y": y, "r": r}
        return SHAPES[self.method % len(SHAPES)].format(**{name: f"{place:.1f}" for name, place in places.items()})


def looks_of(methods_of_runs: list[list[str]]) -> dict[tuple[int, str], LineLook]:
    """Return the looks by the run's index and the method. A method of several runs has one colour in all of them."""
    order = list(dict.fromkeys(method for methods in methods_of_runs for method in methods))
    return {
        (i, method): LineLook(order.index(method), i) for i, methods in enumerate(methods_of_runs) for method in methods
    }
