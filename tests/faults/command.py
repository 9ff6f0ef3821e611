"""`python -m tests faults`: runs with faults, each compared with its simulation. The exit code is 1 if any differs.

sweep     either side of a small run, struck at every step that outlives the process
deadline  rounds with a deadline, a dead and a slow device, and their replay
asynchronous  12 devices with TLS and keys, asynchronous rounds, SIGKILLs and stops, and the replay
members   12 devices and 200 speakers that come, leave, sleep and are killed, and an operator: waiting and asynchronous
hostile   8 devices beside 2,000 TLS connections that never say who they are, against a limit of 256 files
fashion   20 devices on Fashion-MNIST: undisturbed, and with kills and full disks on both sides
agent     agents in the service of two servers: three runs, killed at random moments, conditions that come and go
rest      each file of either side at rest deleted, emptied, halved, zeroed, a bit flipped, an older copy: started again
malicious plans and models that no device should follow, against one with limits: its memory, time and words
network   eight devices behind a link with 200 ms of delay, 5 % loss and a cut of 20 s, plain and with TLS (needs root)
flips     single bits flipped on the way, in plain runs, with keys, and with TLS
poison    one of ten devices lies in every round, under every aggregation (simulated, and in part served)
crash-points  losses of power at points of a recorded run: what is not synced is lost or torn, and all start again
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.crash_points.recording import WAYS as RECORDED
from tests.crash_points.report import crash_points
from tests.faults import reports
from tests.faults.damage import FLIPS
from tests.faults.flips import WAYS
from tests.faults.poison import EXPERIMENT
from tests.faults.rest_report import rest
from tests.faults.sweep_report import KINDS, SIDES, sweep

WHAT: dict[str, Callable[[Path, argparse.Namespace], bool]] = {
    "sweep": sweep,
    "deadline": reports.deadline,
    "asynchronous": reports.asynchronous,
    "members": reports.members,
    "hostile": reports.hostile,
    "fashion": reports.fashion,
    "agent": reports.agent,
    "rest": rest,
    "malicious": reports.malicious,
    "network": reports.network,
    "flips": reports.flips,
    "poison": reports.poison,
    "crash-points": crash_points,
}


def main(arguments: list[str]) -> int:
    """Run the chosen parts, and return 1 if some run ended otherwise than its simulation."""
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="edgefl-faults-", dir=options.dir) as directory:
        good = [WHAT[what](Path(directory) / what, options) for what in options.what or WHAT]
    return int(not all(good))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests faults", description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="*", choices=(*WHAT, []), metavar="WHAT", help=f"{', '.join(WHAT)}; default: all")
    parser.add_argument("--dir", type=Path, help="where runs lie; default: where temporary files go")
    parser.add_argument("--data-dir", help="of fashion: where the data set's files lie")
    parser.add_argument("--partition", default="dirichlet:0.1", help="of poison; default: dirichlet:0.1")
    parser.add_argument("--seeds", type=int, nargs="+", default=(1,), help="of poison; default: 1")
    parser.add_argument("--epochs", type=int, default=EXPERIMENT.epochs, help="of poison; default: 5")
    parser.add_argument("--deadline", type=float, default=3.0, metavar="S", help="of deadline: seconds of a round")
    parser.add_argument("--strangers", type=int, default=2000, metavar="N", help="of hostile: connections")
    parser.add_argument("--seconds", type=float, default=900.0, metavar="S", help="of members: length of a run")
    parser.add_argument(
        "--kills",
        type=int,
        default=20,
        metavar="N",
        help="of agent: of both agents; of asynchronous, members: half",
    )
    bits = parser.add_argument_group("flips")
    bits.add_argument(
        "--bits", type=int, default=1000, metavar="N", help="bits in each way, in as many runs as it takes"
    )
    bits.add_argument("--seed", type=int, default=0, metavar="N", help="of the first run; the others follow")
    bits.add_argument("--way", action="append", choices=WAYS, help="default: all")
    points = parser.add_argument_group("crash-points", "besides --seed, --jobs, --out and --json")
    points.add_argument("--points", type=int, default=300, metavar="N", help="losses of power; default: 300")
    points.add_argument("--record", action="append", choices=RECORDED, help="runs that are recorded; default: all")
    points.add_argument("--omit", metavar="NAME", help="take the syncs of files of this name out of the record")
    points.add_argument("--first", action="store_true", help="end at the first point that fails")
    sweep = parser.add_argument_group("sweep")
    sweep.add_argument("--side", action="append", choices=SIDES, help="default: both")
    sweep.add_argument("--kind", action="append", choices=KINDS, help="default: all")
    sweep.add_argument("--stride", type=int, default=1, metavar="N", help="every n-th fault only")
    sweep.add_argument("--every-write", action="store_true", help="strike each write, not two of those in a row")
    sweep.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    sweep.add_argument("--out", type=Path, metavar="FILE", help="JSON lines; runs in it are not repeated")
    sweep.add_argument("--json", action="store_true", help="JSON lines in place of the table")
    rest = parser.add_argument_group("rest", "besides --side, --jobs, --out and --json")
    rest.add_argument("--flips", type=int, default=FLIPS, metavar="N", help=f"places in a file; default: {FLIPS}")
    rest.add_argument("--stage", action="append", help="of the server: where the run rests; default: everywhere")
    rest.add_argument("--file", action="append", help="of the server: as the table names it; default: all")
    return parser
