"""Which workers import the test modules backwards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.halves import modules_backwards


def config(args: list[str], **more: Any) -> Any:
    return SimpleNamespace(args=args, getini=lambda name: {"testpaths": ["tests"]}[name], **more)


@pytest.mark.parametrize("worker", ["gw1", "gw3"])
def test_an_odd_worker_of_a_run_of_all_tests_begins_at_the_end(worker: str) -> None:
    names = modules_backwards(config(["tests"], workerinput={"workerid": worker}))
    assert {__name__, "tests.kernels.test_operations"} <= set(names)
    assert names.index(__name__) < names.index("tests.kernels.test_operations")


@pytest.mark.parametrize(
    ("args", "more"),
    [
        (["tests"], {}),  # without pytest-xdist
        (["tests"], {"workerinput": {"workerid": "gw0"}}),
        (["tests/test_halves.py"], {"workerinput": {"workerid": "gw1"}}),
    ],
)
def test_others_collect_as_ever(args: list[str], more: dict[str, Any]) -> None:
    assert modules_backwards(config(args, **more)) == []
