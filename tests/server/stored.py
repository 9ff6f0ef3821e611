"""Records of a small run whose every value follows from the round, and a process that dies while it saves them."""

from __future__ import annotations

import numpy as np

from edgefl.methods.task import State
from edgefl.protocol.wire.messages import Trained
from edgefl.server.events import Enrolment, Record, ReplyJudged, RoundClosed, RoundEvaluated, RoundOpened, Traffic
from edgefl.server.run_progress import Progress


def reply(round: int, client: int) -> Trained:
    return Trained(round, {"model": bytes([round, client])}, b"", 7, 2, "on", {"loss": 0.5}, 0.25)


def state(round: int) -> State:
    return State({"model": {"w": np.full(3, round, np.float32)}}, {"running": [0, 1], "round": round})


def batches_of(round: int) -> list[list[Record]]:
    """Return what the server saves in a round, in the batches that an idle disk gives."""
    first, second = (ReplyJudged(round, client, "accepted", "", reply(round, client)) for client in (0, 1))
    late = ReplyJudged(round, 2, "late", "the round was closed", reply(round, 2))
    closed = RoundClosed(round, state(round), {"round": round}, False)
    return [
        [RoundOpened(round, (0, 1, 2))],
        [first],
        [second, closed],
        [late],
        [RoundEvaluated(round, {"n": round}), traffic(round)],
    ]


def traffic(round: int) -> Traffic:
    return Traffic(round, 10 * round, 9 * round, 2, 1)


def run(rounds: int) -> list[list[Record]]:
    enrolments: list[Record] = [Enrolment(client, 0.5 + client / 4, b"token" * (client == 1)) for client in range(3)]
    return [enrolments, *(batch for round in range(1, rounds + 1) for batch in batches_of(round))]


def same(a: Progress, b: Progress) -> bool:
    """Return whether both are equal to the last bit. Arrays of State do not compare by themselves."""
    return _plain(a) == _plain(b)


def _plain(progress: Progress) -> tuple[object, ...]:
    state = progress.state
    arrays = state and {name: array.tobytes() for name, array in state.arrays["model"].items()}
    return (*(getattr(progress, name) for name in vars(progress) if name != "state"), arrays, state and state.values)


DYING = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.server import stored
from edgefl.system import durable_files as durable
from edgefl.server import store as module
from edgefl.server.last_commit import LastCommit
from edgefl.server.store import Store

def die(call, calls=[0]):
    calls[0] += 1
    if calls[0] == call:
        os.kill(os.getpid(), signal.SIGKILL)

def around(owner, name, after):
    original = getattr(owner, name)
    def dying(*arguments, **options):
        if not after:
            die({call})
        result = original(*arguments, **options)
        if after:
            die({call})
        return result
    setattr(owner, name, dying)

store = Store(Path({path!r}))
saved = 0
{point}
for batch in stored.run({rounds}):
    store.save(batch)
    saved += 1
    print(saved, flush=True)
"""

POINTS = {
    "before a file is synced": "around(durable.os, 'fsync', False)",
    "after a file is synced": "around(durable.os, 'fsync', True)",
    "before a file is renamed": "around(durable.os, 'replace', False)",
    "after a file is renamed": "around(durable.os, 'replace', True)",
    "before a transaction": "around(Store, '_commit', False)",
    "after a transaction": "around(Store, '_commit', True)",
    "amid a transaction": "around(module, '_write', True)",
    "before the commit": "store._database.set_trace_callback(lambda sql: die({call}) if sql == 'COMMIT' else None)",
    "before the last commit is noted": "around(LastCommit, 'write', False)",
    "after the last commit is noted": "around(LastCommit, 'write', True)",
    "before an old file is removed": "around(Path, 'unlink', False)",
    "after an old file is removed": "around(Path, 'unlink', True)",
}
