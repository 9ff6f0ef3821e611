"""Names of classes, people and columns, as ids in the order of the names, and as words of a sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgefl.experiment.data.dataset import Array

SHOWN, LONGEST_NAME = 20, 60  # names in a sentence, and characters of one


def few(names: Sequence[str]) -> str:
    """The names for a sentence: the first ones, and how many more there are."""
    more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(shortened, names[:SHOWN])) + more


def shortened(text: str) -> str:
    """The text for a sentence, without its end where it is long."""
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}... ({len(text)} characters)"


def numbered(texts: Sequence[str]) -> tuple[Array, tuple[str, ...]]:
    """int32 [N], for each text its place among all different ones; and these, sorted."""
    names, ids = np.unique(np.asarray(texts, dtype=np.str_), return_inverse=True)
    return ids.reshape(-1).astype(np.int32), tuple(str(name) for name in names)
