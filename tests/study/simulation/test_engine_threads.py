"""The threads in which a simulation trains its clients: the caller's for one worker, and a pool's for more."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from edgefl.methods import FedAvg
from edgefl.methods.client_state import ClientState
from edgefl.methods.plan import Plan, Reply
from tests.study.simulation.test_simulate import SETTINGS, SMALL, assemble, run

SEEN: set[int] = set()


class Watching(FedAvg):
    """FedAvg whose clients note the thread in which they train."""

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        SEEN.add(threading.get_ident())
        return super().train(client_state, plan)


@pytest.mark.parametrize("workers", [1, 2])
def test_one_worker_is_the_callers_thread(workers: int, tmp_path: Path) -> None:
    SEEN.clear()
    run(tmp_path, Watching(per_round=3, epochs=1), assemble(SMALL), replace(SETTINGS, rounds=2, workers=workers))
    assert (threading.get_ident() in SEEN) == (workers == 1)
    assert 1 <= len(SEEN) <= workers
