"""The tests that a run leaves out, and the files that come first.

A run leaves out tests of other shares, and the long tests of nightly.tsv unless they are asked for. nightly.tsv has a
line per group of long tests: the beginning of the ids of its tests, a tab, and what takes so long.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

NIGHTLY = Path(__file__).with_name("nightly.tsv")
FIRST = (  # files that take longest. They come first, so that no worker is left alone with one of them at the end
    "tests/test_types.py",
    "tests/test_docs.py",
    "tests/cli/test_cli.py",
    "tests/kernels/test_operations.py",
    "tests/deployment/device/test_device_simulated.py",
    "tests/learning/test_fit.py",
    "tests/learning/test_built_in_models.py",
    "tests/server/test_served.py",
    "tests/study/test_reference_pictures.py",
    "tests/zoo/test_models.py",
    "tests/torch/test_silent_losses.py",
    "tests/torch/test_trace_sequences.py",
    "tests/torch/test_export.py",
    "tests/stored/test_stored_runs.py",
)


def order(test: str) -> int:
    """Return the place of a test's file among those of FIRST. All other files have the place after them."""
    name = test.partition("::")[0]
    return FIRST.index(name) if name in FIRST else len(FIRST)


def is_in_share(test: str, share: int, shares: int) -> bool:
    """Return whether a test is in the share, from 0. This depends on the test's id alone."""
    return crc32(test.encode()) % shares == share


def nightly_groups() -> tuple[str, ...]:
    """Return the beginnings of the ids of long tests."""
    return tuple(line.partition("\t")[0] for line in NIGHTLY.read_text().splitlines())


def is_nightly(test: str) -> bool:
    """Return whether the test with this id is left to the nightly run."""
    return test.startswith(nightly_groups())


def groups_without_tests(tests: Iterable[str]) -> list[str]:
    """Groups of nightly.tsv in which none of these tests is."""
    groups = nightly_groups()
    found = {group for test in tests if test.startswith(groups) for group in groups if test.startswith(group)}
    return [group for group in groups if group not in found]
