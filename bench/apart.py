"""Contenders in processes of their own, which take turns: one works, and the others wait for a line.

Threads that a library leaves spinning after its work then disturb no other contender, as they disturb no other program
of a user. A process is forked before it makes its contender. So the parent must not have computed on several threads.
Linux and macOS.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

from bench.runner import Contender, Effort, Timing, interleave

Make = Callable[[], Contender]  # builds a contender in the process that will run it
SETTLE_S = 0.03  # before a turn: the workers of the contender before have gone to sleep
AWAKE_S = 0.03  # of a turn, untimed: the workers of this contender are awake, as they are in a training


def interleave_apart(makes: Mapping[str, Make], effort: Effort) -> dict[str, Timing]:
    """Time every contender in a process of its own by the wall clock, in turns as `runner.interleave` takes them.

    Raises RuntimeError with the traceback of a process that fails.
    """
    spent_s = 0.0

    def timed(connection: Connection) -> Contender:
        def run(repeats: int) -> None:
            nonlocal spent_s
            connection.send(repeats)
            spent_s += _answer(connection)

        return run

    with ExitStack() as running:
        contenders = {name: timed(running.enter_context(_process(make))) for name, make in makes.items()}
        return interleave(contenders, effort, lambda: spent_s)


@contextmanager
def _process(make: Make) -> Iterator[Connection]:
    """Run a contender in a fork of this process until the context is left."""
    context = get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, ours, make), daemon=True)
    process.start()
    theirs.close()
    try:
        _answer(ours)  # it is made
        yield ours
    finally:
        ours.close()
        process.join()


def _answer(connection: Connection) -> float:
    try:
        answer = connection.recv()
    except EOFError:
        raise RuntimeError("a contender's process ended without an answer; expected seconds") from None
    if isinstance(answer, str):
        raise RuntimeError(answer)
    return float(answer)


def _keep_busy(run: Contender, seconds: float) -> None:
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        run(1)


def _serve(connection: Connection, others_end: Connection, make: Make) -> None:
    """Make the contender, then run it as often as each line asks, and answer with the seconds, until the parent leaves.

    The fork has a copy of the parent's end, which would keep the line open.
    """
    others_end.close()
    try:
        run = make()
        connection.send(0.0)
        while True:
            repeats = connection.recv()
            time.sleep(SETTLE_S)
            _keep_busy(run, AWAKE_S)
            begin_s = time.perf_counter()
            run(repeats)
            connection.send(time.perf_counter() - begin_s)
    except EOFError:
        pass
    except Exception:
        connection.send(traceback.format_exc()[-1000:])
    os._exit(0)
