"""How a file of one's own is to be read: which column or array is what. Values only; the readers follow them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from edgefl.errors import DataError

AXES = ("NF", "NL", "NHW", "NCL", "NLC", "NCHW", "NHWC")
LARGEST_SIZE = 4096
REFUSE, MEAN, DROP = "refuse", "mean", "drop"
MISSING = (REFUSE, MEAN, DROP)


@dataclass(frozen=True)
class Reading:
    """What the caller says about a file; an empty one leaves it to the file's own names.

    label   the column of a table, or the array, that is to be learnt; without it `label` or `y`
    group   the one that says whom an example comes from; without it `group` or `speaker`, if there is one. Of images: a
            regular expression that is searched for in the path below the class's folder, whose first bracket it is
    time    the one that says when, numbers or dates: for splits by time
    drop    columns of a table that are not inputs
    axes    of an array x: one of AXES, of examples, features, places of a text, channels, length, height, width
    size    images are scaled to so many rows and columns
    missing what is done about a feature that a sample has no value of: one of MISSING; empty: the sample is refused
    """

    label: str = ""
    group: str = ""
    time: str = ""
    drop: tuple[str, ...] = ()
    axes: str = ""
    size: int = 0
    missing: str = ""

    def __post_init__(self) -> None:
        if self.axes and self.axes not in AXES:
            raise DataError(f"axes={self.axes}; expected one of {', '.join(AXES)}")
        if not 0 <= self.size <= LARGEST_SIZE:
            raise DataError(f"image_size={self.size}; expected 1 to {LARGEST_SIZE}")
        if self.missing and self.missing not in MISSING:
            raise DataError(f"missing={self.missing}; expected one of {', '.join(MISSING)}")

    def named(self, *used: str) -> str:
        """The first field that is set and is none of those that a reader uses; empty if there is none."""
        return next((each.name for each in fields(self) if getattr(self, each.name) and each.name not in used), "")

    def check(self, what: str, *used: str) -> None:
        """Raises DataError if something is said that a reader of such files has no use for."""
        if name := self.named(*used):
            known = f"only {', '.join(used)}" if used else "nothing"
            raise DataError(f"{what} with {name}={getattr(self, name)!r}; expected {known} to be said of it")
