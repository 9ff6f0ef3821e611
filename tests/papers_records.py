"""The records of the papers' tables are in the repository alone, so tests that read them skip in an unpacked sdist."""

from __future__ import annotations

import pytest

from bench.papers.comparison_run import RESULTS

HAS_RECORDS = RESULTS.is_dir()
needs_records = pytest.mark.skipif(not HAS_RECORDS, reason="bench/papers/results is absent: an sdist has no records")
