"""Fixtures and options of all tests.

Each test must leave the kernels' threads and instruction set as it found them, because other tests depend on them. An
example of a property may take any time, because a loaded machine is not a mistake. `--nightly` runs the long tests,
too, and `--share I/N` runs one of N shares of the tests (selection.py). The examples of a nightly run also have the
constants of the sources (source_constants.py). A test whose parameter `backend` is numba needs that package. Where
`backend` is cuda, the backend is loaded on a stand-in for its driver.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from hypothesis import settings

from edgefl.cli import working
from tests.halves import import_backwards
from tests.kernels.cuda import standin
from tests.selection import groups_without_tests, is_in_share, nightly_groups, order
from tests.source_constants import leave_out_source_constants

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

os.environ["EDGEFL_ENERGY_ROOT"] = os.devnull  # a folder that has nothing: no test measures the machine it runs on

working.AFTER_S = 600.0  # a loaded machine is slow: no line of progress stands among the words that a test reads


def _without_disk(handle: int) -> None:
    """Refuse what is no open file. No test can tell whether a disk has the bytes, and a disk takes milliseconds."""
    os.fstat(handle)


os.fsync = _without_disk  # type: ignore[assignment]

IDLE_GROUPS = pytest.StashKey[list[str]]()  # of nightly.tsv, in which no collected test is
NATIVE = "edgefl.kernels.native"
NO_NUMBA = find_spec("numba") is None and os.environ.get("EDGEFL_KERNELS") != "numba"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --share and --nightly."""
    parser.addoption("--share", type=_share, default=(0, 1), metavar="I/N", help="run share I of N, from 0")
    parser.addoption("--nightly", action="store_true", help="run the long tests of tests/nightly.tsv, too")


def pytest_configure(config: pytest.Config) -> None:
    """Keeps pytest-xdist from its own order, which puts files with few tests, and so the longest tests, at the end.

    Hypothesis reads the constants of the sources in a nightly run alone.
    """
    config.option.loadscopereorder = False
    if not config.getoption("--nightly"):
        leave_out_source_constants()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Keeps the cyclic collector from the thousands of tests: it would walk them all again and again, for seconds.

    While tests run, it walks new objects a tenth as often as Python's default.
    """
    gc.disable()
    try:
        import_backwards(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10 * gc.get_threshold()[0], *gc.get_threshold()[1:])
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the tests of the share, without the long ones unless they, or files by their names, are asked for.

    The files that take longest come first.
    """
    share, shares = config.getoption("--share")
    config.stash[IDLE_GROUPS] = groups_without_tests(item.nodeid for item in items)
    are_asked = config.getoption("--nightly") or any(".py" in word for word in config.args)
    long = () if are_asked else nightly_groups()
    out = {item for item in items if item.nodeid.startswith(long) or not is_in_share(item.nodeid, share, shares)}
    if out:
        config.hook.pytest_deselected(items=[item for item in items if item in out])
        items[:] = [item for item in items if item not in out]
    items.sort(key=lambda item: order(item.nodeid))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip numba's tests where numba is missing, as on most boards. Load CUDA on its stand-in."""
    call = getattr(item, "callspec", None)
    backend = call.params.get("backend") if call is not None else None
    if NO_NUMBA and backend == "numba":
        pytest.skip("numba is not installed")
    if backend == "cuda":
        standin.backend()


def _share(text: str) -> tuple[int, int]:
    share, _, shares = text.partition("/")
    if not (share.isdecimal() and shares.isdecimal() and int(share) < int(shares)):
        raise argparse.ArgumentTypeError(f"share {text!r}; expected I/N, I from 0 to N - 1")
    return int(share), int(shares)


@pytest.fixture(autouse=True)
def unchanged_kernels() -> Iterator[None]:
    """Fails the test that changed them, and puts them back. Loading the native kernels in a test is no change."""
    before = _settings()
    yield
    after = _settings()
    if before is None or after == before:
        return
    sys.modules[NATIVE].set_threads(before[0])
    sys.modules[NATIVE].cap_isa(before[1])
    pytest.fail(f"kernels left with (threads, instruction set) = {after}; expected {before}, as found")


def _settings() -> tuple[int, str] | None:
    native = sys.modules.get(NATIVE)
    return native and (native.threads(), native.isa())
