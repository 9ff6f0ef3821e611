"""The choice of columns or arrays by which a file of the user's own is read. The readers use these values."""

from __future__ import annotations

from dataclasses import dataclass, fields

from edgefl.errors import DataError

AXES = ("NF", "NL", "NHW", "NCL", "NLC", "NCHW", "NHWC")
LARGEST_SIZE = 4096
REFUSE, MEAN, DROP = "refuse", "mean", "drop"
MISSING = (REFUSE, MEAN, DROP)


@dataclass(frozen=True)
class Reading:
    """The caller's choices for reading a file. An empty field leaves the choice to the names in the file.

    label    column or array that the model learns to predict. Empty: `label` or `y`
    group    column or array that names the origin of an example. Empty: `group` or `speaker`, if the file has one. For
             images: a regular expression that is searched for in the path below the folder of the class. Its first
             bracket is the group
    time     column or array with the time of an example, as numbers or dates, for splits by time
    drop     columns of a table that are not inputs
    axes     order of the axes of the array x: one of AXES, made of examples, features, places of a text, channels,
             length, height and width
    size     number of rows and of columns to which images are scaled. 0: images keep their size
    missing  what happens to an example without a value of some feature: one of MISSING. Empty: the example is refused
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
        """Return the first field that is set and is not among the fields `used` by a reader, or "" without such a
        field.
        """
        return next((each.name for each in fields(self) if getattr(self, each.name) and each.name not in used), "")

    def check(self, what: str, *used: str) -> None:
        """Raise DataError if a field is set that a reader of such files does not use."""
        if name := self.named(*used):
            known = f"only {', '.join(used)}" if used else "nothing"
            raise DataError(f"{what} with {name}={getattr(self, name)!r}; expected {known} to be set")
