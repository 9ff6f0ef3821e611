"""--share, --nightly and the order of tests/conftest.py: every test is in one share, and nightly.tsv names tests that
exist.
"""

from __future__ import annotations

import argparse
import gc
from pathlib import Path

import pytest

from tests.conftest import IDLE_GROUPS, _share
from tests.selection import FIRST, NIGHTLY, groups_without_tests, is_in_share, is_nightly, order

IDS = [f"tests/test_made_up.py::test[{number}]" for number in range(300)]


def test_shares_have_every_test_once() -> None:
    shares = [[test for test in IDS if is_in_share(test, share, 3)] for share in range(3)]
    assert sorted(test for share in shares for test in share) == sorted(IDS)
    assert min(map(len, shares)) > 60


@pytest.mark.parametrize(("text", "share"), [("0/1", (0, 1)), ("1/2", (1, 2))])
def test_a_share_is_read(text: str, share: tuple[int, int]) -> None:
    assert _share(text) == share


@pytest.mark.parametrize("text", ["2/2", "one", "1", "-1/2", "1/"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"expected I/N, I from 0 to N - 1"):
        _share(text)


def test_every_group_of_the_nightly_run_has_tests(pytestconfig: pytest.Config) -> None:
    """The check needs a run of all tests, because a run of some files has fewer groups."""
    if pytestconfig.args != pytestconfig.getini("testpaths"):
        pytest.skip("this run does not collect all tests")
    assert pytestconfig.stash[IDLE_GROUPS] == []


def test_a_group_is_told_by_how_the_ids_begin() -> None:
    first = NIGHTLY.read_text().split("\t")[0]
    assert is_nightly(f"{first}::test_one")
    assert not is_nightly(f"x{first}")
    assert first not in groups_without_tests([first])
    assert first in groups_without_tests(["tests/test_other.py::test"])


def test_every_group_says_why_and_stands_once_in_order() -> None:
    groups, reasons = zip(*(line.split("\t") for line in NIGHTLY.read_text().splitlines()), strict=True)
    assert all(reasons)
    assert list(groups) == sorted(set(groups))


def test_the_longest_files_come_first_in_their_order() -> None:
    root = Path(__file__).resolve().parent.parent
    assert [name for name in FIRST if not (root / name).is_file()] == []
    ids = ["tests/z.py::test_a", *(f"{name}::test_a[1]" for name in reversed(FIRST)), "tests/a.py::test_b"]
    assert sorted(ids, key=order) == [*(f"{name}::test_a[1]" for name in FIRST), ids[0], ids[-1]]


def test_the_cyclic_collector_runs_again_when_tests_do_and_leaves_what_was_collected() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000  # objects, of pytest and this package alone
