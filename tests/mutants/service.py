"""Mutants of a device in service: whose folder is whose, what a crash may not lose, and the owner's conditions."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

RUNS, ATTENDANCE = "tests/deployment/device/test_device_runs.py", "tests/deployment/device/test_device_attendance.py"
CONDITIONS, BOARDS = "tests/deployment/agent/test_conditions.py", "tests/learning/memory/test_board_specs.py"

MUTANTS = (
    Mutant(
        "folder-of-any-server",
        "edgefl/deployment/device/run_folders.py",
        'server = b"" if key is None else',
        'server = b"" if key is None or key else',
        "a server with another key opens the folder of a run whose id it has copied",
        RUNS,
    ),
    Mutant(
        "removed-before-said",
        "edgefl/deployment/device/run_folders.py",
        "    if not over.is_removed:\n        _write_over",
        "    if over.is_removed:\n        _write_over",
        "a crash leaves half of a run that is over to be used",
        RUNS,
    ),
    Mutant(
        "runs-without-end",
        "edgefl/deployment/device/run_folders.py",
        "if len(going_on) >= MOST_OPEN:",
        "if len(going_on) > MOST_OPEN + 9:",
        "a server fills the disk with runs",
        RUNS,
    ),
    Mutant(
        "another-run-meanwhile",
        "edgefl/deployment/device/enrol_request.py",
        "if expected and challenge.run != expected:",
        "if expected and not challenge.run:",
        "a folder is enrolled in another run than its own",
        RUNS,
    ),
    Mutant(
        "visit-believes-anybody",
        "edgefl/deployment/device/run_query.py",
        'handshake.check(expected, message.proof, "the server")',
        'handshake.check(message.proof, message.proof, "the server")',
        "a server without the key is asked for its run",
        RUNS,
    ),
    Mutant(
        "oldest-samples",
        "edgefl/deployment/device/device_model.py",
        "part[len(part) - told :]",
        "part[:told]",
        "the oldest samples of a file that has grown are used",
        RUNS,
    ),
    Mutant(
        "trains-anyway",
        "edgefl/deployment/agent/conditional_device.py",
        "WORK = (ModelChunk, Train, Evaluate)",
        "WORK = (ModelChunk, Evaluate)",
        "a round is trained though the conditions have ceased",
        ATTENDANCE,
    ),
    Mutant(
        "unknown-holds",
        "edgefl/deployment/agent/conditions.py",
        "found is not None and found <= limit",
        "found is None or found <= limit",
        "a condition whose value is not known holds",
        CONDITIONS,
    ),
    Mutant(
        "own-load-counts",
        "edgefl/deployment/agent/machine_status.py",
        "used = (now.busy - before.busy) - (now.own - before.own)",
        "used = now.busy - before.busy",
        "what the agent computes counts as others'",
        CONDITIONS,
    ),
    Mutant(
        "no-settling",
        "edgefl/deployment/agent/machine_watch.py",
        "self._failed_at + self._settle_s - self._clock()",
        "self._failed_at - self._clock()",
        "the device comes back at once",
        CONDITIONS,
    ),
    Mutant(
        "threads-of-here",
        "edgefl/cli/memory.py",
        "    ops.set_threads(board.board.cores.number)\n",
        "",
        "packing memory of a board is counted for this machine's threads",
        BOARDS,
    ),
)
