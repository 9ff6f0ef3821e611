"""`python -m bench.secure.fatal_step ...`: an edgefl command that sends itself SIGKILL right after a secure step.

A device ends when its state after the step is on its disk, before the step's message is sent. A server ends when the
close of the step is in run.db, before a client is asked for the next step. killed_processes.py has the aims.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from edgefl.cli.cli import main
from edgefl.deployment.device.device_state import DeviceState
from edgefl.protocol.secure.member_state import MemberState, Stage
from edgefl.server.events import GroupEvent
from edgefl.server.store import Store

PROGRAM = ("-m", "bench.secure.fatal_step")
VARIABLE = "EDGEFL_BENCH_FATAL_STEP"
STAGES = (Stage.BEGUN, Stage.SHARED, Stage.MASKED, Stage.CONSENTED, Stage.OPENED)  # a device's stage after each step
STEPS = range(1, len(STAGES) + 1)


@dataclass(frozen=True)
class Aim:
    """The step after which a process ends, in the first round from `round` on in which it takes the step."""

    step: int
    round: int

    @property
    def environment(self) -> dict[str, str]:
        """The variable that tells a process of its aim."""
        return {VARIABLE: f"{self.step} {self.round}"}

    @staticmethod
    def of(text: str) -> Aim:
        """Return the aim in the value of the variable."""
        step, round = map(int, text.split())
        return Aim(step, round)


def end_device_after(aim: Aim, kill: Callable[[], None]) -> None:
    """Let every device of this process call `kill` after it has saved the step."""
    keep = DeviceState.keep_group

    def kept(state: DeviceState, data: bytes) -> None:
        keep(state, data)
        member = MemberState.from_bytes(data)
        if member.terms.round >= aim.round and member.stage == STAGES[aim.step - 1]:
            kill()

    DeviceState.keep_group = kept  # type: ignore[method-assign]


def end_server_after(aim: Aim, kill: Callable[[], None]) -> None:
    """Let every store of this process call `kill` after it has saved the close of the step in some group."""
    save, closed = Store.save, dict[tuple[int, str], int]()  # -> closed steps of a group that was formed here

    def saved(store: Store, records: Sequence[Any]) -> None:
        save(store, records)
        for event in (each for each in records if isinstance(each, GroupEvent)):
            group = event.round, event.draw
            if event.kind == "formed":
                closed[group] = 0
            elif event.kind == "closed" and group in closed:
                closed[group] += 1
                if event.round >= aim.round and closed[group] == aim.step:
                    kill()

    Store.save = saved  # type: ignore[method-assign]


def kill_this_process() -> None:
    """Send SIGKILL to this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def _run(arguments: list[str]) -> int:
    if text := os.environ.get(VARIABLE):
        end_after = end_server_after if arguments[0] == "serve" else end_device_after
        end_after(Aim.of(text), kill_this_process)
    return main(arguments)


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1:]))
