"""All models of the collection, by source."""

from __future__ import annotations

from importlib.util import find_spec

from bench.collection import (
    from_timm,
    from_torchvision,
    from_transformers,
    kinds_of_flower,
    kinds_of_pfllib,
    sequences,
    several_parts,
    small_devices,
)
from bench.collection.entry import Entry

WRITTEN = (  # with torch alone
    *kinds_of_pfllib.ENTRIES,
    *kinds_of_flower.ENTRIES,
    *small_devices.ENTRIES,
    *sequences.ENTRIES,
    *several_parts.ENTRIES,
)
ALL = (*WRITTEN, *from_transformers.ENTRIES, *from_torchvision.ENTRIES, *from_timm.ENTRIES)  # the large ones last
PACKAGES = ("torchvision", "timm", "transformers")  # a source of this name needs the package


def missing(entry: Entry) -> str:
    """Return the package that an entry needs and that is not installed, or the empty text."""
    return entry.source if entry.source in PACKAGES and find_spec(entry.source) is None else ""


def chosen(patterns: list[str]) -> list[Entry]:
    """Return the entries whose name contains one of the patterns (none: all). Raises ValueError if none is found."""
    found = [entry for entry in ALL if not patterns or any(each in entry.name for each in patterns)]
    if not found:
        raise ValueError(f"models {', '.join(patterns)}; expected parts of names such as {ALL[0].name}")
    return found
