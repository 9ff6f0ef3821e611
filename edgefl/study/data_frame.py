"""Flat rows as a data frame of pandas. edgefl does not depend on pandas."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any


def check_pandas() -> None:
    """Raise ValueError if pandas is not installed."""
    if importlib.util.find_spec("pandas") is None:
        raise ValueError(
            "frame() needs pandas, which is not installed; expected it: pip install pandas, or without pandas the same "
            "rows as text: table(format='csv')"
        )


def data_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return a pandas.DataFrame of these rows. Raises ValueError without pandas."""
    check_pandas()
    import pandas

    return pandas.DataFrame.from_records(list(rows))
