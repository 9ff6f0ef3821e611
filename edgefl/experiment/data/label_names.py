"""Names of classes, people and columns, as ids in the order of the names, and as words of a sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgefl.experiment.data.dataset import Array

SHOWN, LONGEST_NAME = 20, 60  # number of names in a sentence, and number of characters of a name


def few(names: Sequence[str]) -> str:
    """List the names for a sentence: the first names, and how many more there are."""
    more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(shortened, names[:SHOWN])) + more


def shortened(text: str) -> str:
    """Return the text for a sentence, without its end if the text is long."""
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}... ({len(text)} characters)"


def numbered(texts: Sequence[str]) -> tuple[Array, tuple[str, ...]]:
    """Return int32 [N], the position of each text among the sorted distinct texts, and these distinct texts."""
    names, ids = np.unique(np.asarray(texts, dtype=np.str_), return_inverse=True)
    return ids.reshape(-1).astype(np.int32), tuple(str(name) for name in names)
