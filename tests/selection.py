"""Which tests a run leaves out: those of other shares, and the long ones of nightly.tsv unless they are asked for.

nightly.tsv has a line per group of long tests: how the ids of its tests begin, a tab, and what takes so long.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

NIGHTLY = Path(__file__).with_name("nightly.tsv")


def is_in_share(test: str, share: int, shares: int) -> bool:
    """Whether a test with this id is in the share, from 0: that depends on the id alone."""
    return crc32(test.encode()) % shares == share


def nightly_groups() -> tuple[str, ...]:
    """How the ids of long tests begin."""
    return tuple(line.partition("\t")[0] for line in NIGHTLY.read_text().splitlines())


def is_nightly(test: str) -> bool:
    """Whether the test with this id is left to the nightly run."""
    return test.startswith(nightly_groups())


def groups_without_tests(tests: Iterable[str]) -> list[str]:
    """Groups of nightly.tsv in which none of these tests is."""
    tests = list(tests)
    return [group for group in nightly_groups() if not any(test.startswith(group) for test in tests)]
