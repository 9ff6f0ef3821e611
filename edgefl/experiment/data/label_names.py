"""Texts in place of numbers: classes and people by name become ids, in the order of their names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgefl.experiment.data.dataset import Array


def numbered(texts: Sequence[str]) -> tuple[Array, tuple[str, ...]]:
    """int32 [N], for each text its place among all different ones; and these, sorted."""
    names, ids = np.unique(np.asarray(texts, dtype=np.str_), return_inverse=True)
    return ids.reshape(-1).astype(np.int32), tuple(str(name) for name in names)
