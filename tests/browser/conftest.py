"""A browser for all tests of this folder. They are skipped with a reason where there is no browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

pytest.importorskip(
    "websockets", reason="websockets, which drives the browser, is not installed: pip install websockets"
)

from tests.browser.chromium import Chromium, Tab, chromium, find_chromium
from tests.server.page.shown import ShownRun

OpenTab = Callable[..., Tab]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    if find_chromium() is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    with chromium(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def tab(browser: Chromium) -> Iterator[Tab]:
    """Yield a tab with cookies of its own. The page must not have caused an error in it."""
    with browser.tab() as found:
        yield found
        assert found.problems == []


@pytest.fixture
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownRun]:
    """An empty place for a run, and its page once the test has made the run."""
    run = ShownRun(tmp_path_factory.mktemp("run"))
    yield run
    run.close()
