"""The warnings of an attempt, which count only if the attempt succeeds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def warnings_of_success() -> Iterator[None]:
    """Give the warnings of the context only if it succeeds. The warnings of an attempt that fails are dropped."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        yield
    for each in said:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
