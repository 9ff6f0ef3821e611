"""Mistakes in store, state, coordinator, protocol and connections, and the seeds that find them.

`python -m bench vopr --mutants` puts each mistake into a copy of the repository, and simulates seeds until a promise is
broken. A mistake that no seed finds is printed as missed.
A refusal that is not synced is no mistake: the device asks again, and hears the same verdict.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.mutants.mutant import Mutant
from bench.mutants.tree import ROOT, copy_built, mutated

LIMIT_S = 180.0  # seconds for which seeds are tried
HOW = "--hours 0.5 --devices 6"
SIMULATE = "import sys; from bench.vopr.command import main; sys.exit(main(sys.argv[1:]))"
FILES, STATE = "edgefl/system/durable_files.py", "edgefl/deployment/device/device_state.py"
PROTOCOL, SOCKET = "edgefl/deployment/device/device_protocol.py", "edgefl/deployment/device/device_socket.py"
LOOP, STORE = "server/event_loop.py", "server/store.py"
SESSIONS, SCHEMA, COMMIT = "server/device_sessions.py", "server/schema.py", "server/last_commit.py"


def _mutant(name: str, file: str, original: str, mutated: str, wrong: str) -> Mutant:
    return Mutant(name, file, original, mutated, wrong, HOW)


MUTANTS = (
    _mutant("file-unsynced", FILES, "os.fsync(file.fileno())", "pass", "a written file is renamed without fsync"),
    _mutant(
        "rename-unsynced",
        FILES,
        "        raise\n    sync(path.parent)",
        "        raise",
        "the directory of a renamed file is not synced",
    ),
    _mutant(
        "accept-unsynced",
        STATE,
        "self._pending.replace(self._client_state)\n        sync(self.path)",
        "self._pending.replace(self._client_state)",
        "an accepted round is not synced",
    ),
    _mutant("commit-unsynced", SCHEMA, "synchronous = FULL", "synchronous = NORMAL", "a commit is not synced"),
    _mutant("database-unsynced", SCHEMA, "        sync(temporary)\n", "", "a new database is renamed without fsync"),
    _mutant(
        "run-folder-unsynced",
        FILES,
        "    if not missing:\n        sync_name(path)\n",
        "",
        "a folder that a killed process has made is never synced",
    ),
    _mutant(
        "arrays-after-commit",
        STORE,
        "            for round, arrays in closed.items():\n"
        "                write_atomically(arrays_file(self.path, round), arrays)\n"
        "            self._commit(records, {round: sha256(arrays) for round, arrays in closed.items()})\n",
        "            self._commit(records, {round: sha256(arrays) for round, arrays in closed.items()})\n"
        "            for round, arrays in closed.items():\n"
        "                write_atomically(arrays_file(self.path, round), arrays)\n",
        "a round is closed before its arrays are on the disk",
    ),
    _mutant(
        "verdict-before-save",
        SESSIONS,
        "            self._queue.save(judged)\n",
        "            self._queue.send(link, Verdict(message.round, judged.outcome, judged.reason))\n"
        "            self._queue.save(judged)\n",
        "a verdict is sent before it is durable",
    ),
    _mutant(
        "saved-before-save",
        LOOP,
        "                await self._save(thread, batch)\n                for record in batch:\n",
        "                self._loop.call_soon(self._store.save, batch)\n                for record in batch:\n",
        "records count as durable before they are saved",
    ),
    _mutant(
        "reply-before-keep",
        PROTOCOL,
        "        self._durably(lambda: self._state.keep(*result))\n        yield result.reply",
        "        yield result.reply\n        self._durably(lambda: self._state.keep(*result))",
        "a reply is sent before its round is on the device's disk",
    ),
    _mutant(
        "judged-twice",
        SESSIONS,
        "        elif not self._rulings.is_judging(*key):",
        "        else:",
        "a reply that comes again is judged again while its verdict is being saved",
    ),
    _mutant(
        "last-commit-torn",
        COMMIT,
        "if not file.exists() or len(_commits(file.read_bytes())) < 2:",
        "if not file.exists():",
        "a half written line of last_commit stays",
    ),
    _mutant(
        "returned-unasked",
        SESSIONS,
        "        else:\n            self._rounds.ask(link, now)\n\n    def _admitted",
        "\n    def _admitted",
        "a device that comes back during a round is not asked",
    ),
    _mutant(
        "timeout-is-final",
        SOCKET,
        "except (OSError, SpoiltError, DamagedFrameError) as error:",
        "except (ConnectionError, SpoiltError, DamagedFrameError) as error:",
        "a device ends after a connection that took too long",
    ),
    _mutant(
        "damage-is-final",
        "server/peer.py",
        "self.drop(str(error))  # without a word",
        "self.refuse(str(error))  # with a word",
        "a device is refused for a bit that changed on its way",
    ),
)


def tried(seeds: int) -> Iterator[str]:
    """Yield a line for each mutant: what found it, and after how many seconds."""
    with tempfile.TemporaryDirectory(prefix="vopr-mutants-") as folder:
        tree = copy_built(ROOT, Path(folder))
        for mutant in MUTANTS:
            begun = time.perf_counter()
            with mutated(tree, mutant):
                line = _found(tree, mutant, seeds)
            yield f"{mutant.name}: {line}; {time.perf_counter() - begun:.0f} s"


def _found(tree: Path, mutant: Mutant, seeds: int) -> str:
    command = [sys.executable, "-c", SIMULATE, *mutant.tests.split(), "--seeds", str(seeds), "--shrink", "0"]
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return "MISSED"
    broken = [line for line in done.stdout.splitlines() if "BROKEN" in line]
    if done.returncode and not broken:
        raise RuntimeError(f"{mutant.name} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return f"found by {broken[0].partition(':')[0]}" if broken else "MISSED"
