"""The shares of open files, and the raised soft limit."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from edgefl.server.file_descriptors import FEWEST_STRANGERS, RESERVE, Share, provide, share


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_enough_files_give_everybody_a_place() -> None:
    assert share(RESERVE + 8 + 512, 8, 512) == Share(520, 512, None)


def test_with_few_files_strangers_get_what_devices_leave() -> None:
    found = share(256, 8, 512)
    assert found[:2] == (192, 184)
    assert found.problem == (
        "this process may open 256 files (ulimit -Hn), so it takes 184 connections at a time from devices that have "
        "not enrolled yet, beside 8 clients; expected 584 files"
    )


def test_with_fewer_files_than_clients_not_all_can_be_connected() -> None:
    found = share(256, 1000, 512)
    assert found[:2] == (192, FEWEST_STRANGERS)
    assert found.problem is not None
    assert "beside 1000 clients; at most 176 of them can be connected at a time; expected 1576 files" in found.problem


def test_a_run_of_very_many_clients_leaves_strangers_their_places() -> None:
    """With 16 places, 4 devices a second could come from one address."""
    assert share(20_000, 100_000, 512)[:2] == (19_936, 512)


def test_the_soft_limit_is_raised_to_what_is_needed(limits: tuple[int, int]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
    assert provide(100, 150) == Share(250, 150, None)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (RESERVE + 250, limits[1])


def test_a_soft_limit_that_is_enough_stays(limits: tuple[int, int]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, limits[1]))
    assert provide(10, 20) == Share(1000 - RESERVE, 20, None)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1000, limits[1])
