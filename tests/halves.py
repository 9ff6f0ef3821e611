"""Workers of pytest-xdist share the compiling of test modules, where none is compiled yet.

All workers collect all tests in one order, so that each would compile every module by itself, for half a minute. A
worker with an odd number imports the modules from the last to the first before it collects. It meets the others in the
middle, and from there on each finds what another has compiled.
"""

from __future__ import annotations

import contextlib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def modules_backwards(config: pytest.Config) -> list[str]:
    """Names of all test modules in a worker with an odd number that runs all tests, from the last to the first."""
    worker: str = getattr(config, "workerinput", {}).get("workerid", "gw0")
    if config.args != config.getini("testpaths") or int(worker.removeprefix("gw")) % 2 == 0:
        return []
    paths = sorted(ROOT.joinpath("tests").rglob("test_*.py"), reverse=True)
    return [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]


def import_backwards(config: pytest.Config) -> None:
    """Import those modules. A module that cannot be imported is left to the collection, which says why."""
    for name in modules_backwards(config):
        with contextlib.suppress(Exception, pytest.skip.Exception):
            import_module(name)
