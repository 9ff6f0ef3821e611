"""`python -m bench secure WHAT`: random rounds, orders of messages, times, attacks, and served runs."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import machine
from bench.secure import message_orders, random_rounds, socket_rounds
from bench.secure.liars_messages import SmallGroup
from bench.secure.played_round import signatures_checked_once
from bench.secure.served_run import ServedRun
from edgefl.experiment.data.catalog import load

RECORD = Path(__file__).parent / "record.jsonl"


def main(arguments: list[str]) -> int:
    """Return 0. A broken promise raises an error that names its seed."""
    options = _options(arguments)
    facts = machine.facts()
    row = {"what": options.what, **ACTIONS[options.what](options)}
    print(json.dumps(row))
    if options.record:
        with RECORD.open("a") as file:
            print(json.dumps({**row, "machine": facts}), file=file)
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench secure", description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=list(ACTIONS), help="what to try")
    parser.add_argument("--rounds", type=int, default=2000, metavar="N", help="number of rounds; default: 2000")
    parser.add_argument("--seconds", type=float, default=600, metavar="S", help="time of random orders; default: 600")
    parser.add_argument("--repeats", type=int, default=6, metavar="N", help="turns of each side; default: 6")
    parser.add_argument(
        "--python", default=sys.executable, metavar="PROGRAM", help="Python that has flwr; default: this one"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first seed; default: 0")
    parser.add_argument("--data", default="fashion-mnist", metavar="NAME", help="pictures; default: fashion-mnist")
    parser.add_argument("--data-dir", metavar="DIR", help="directory of the pictures")
    parser.add_argument("--steps", type=int, default=500, metavar="N", help="steps of the attack; default: 500")
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="draw what the attacks rebuild")
    parser.add_argument("--record", action="store_true", help=f"append the result to {RECORD.name}")
    return parser.parse_args(arguments)


def _rounds(options: argparse.Namespace) -> dict[str, int | float]:
    start, count = time.process_time(), Counter[str]()
    with signatures_checked_once():
        for seed in range(options.seed, options.seed + options.rounds):
            count += random_rounds.check(seed)
    return {"first_seed": options.seed, **count, "cpu_s": round(time.process_time() - start, 1)}


def _orders(options: argparse.Namespace) -> dict[str, int | float | dict[str, int]]:
    """Search all orders for three clients and a liar with two keys, and walk randomly with four clients and a liar."""
    found = message_orders.search(SmallGroup.of(3, liars_keys=2))
    walked = message_orders.walk(SmallGroup.of(4), options.seconds, options.seed)
    walks = {"openings": walked.states, "messages": walked.messages, "refusals": walked.refusals}
    return {"search": found._asdict(), "walk": walks, "seconds": options.seconds, "first_seed": options.seed}


def _speed(options: argparse.Namespace) -> dict[str, list[dict[str, int | float | str]]]:
    """Time a device in a process of its own, whose environment may have other packages than this one."""
    command = [options.python, "-m", "bench.secure.device_time", str(options.repeats)]
    return {"rows": json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)}


def _inversion(options: argparse.Namespace) -> dict[str, Any]:
    """Attack open updates and sums with two seeds, and draw what is rebuilt with the first seed."""
    from bench.secure import inversion, inversion_picture  # torch and scipy, which the other commands do not need

    data = load(options.data, options.data_dir, fetch=False)
    attack = inversion.GradientAttack(options.steps)
    if options.picture is not None:
        inversion_picture.draw(data, options.seed, attack, options.picture)
    seeds = [options.seed, options.seed + 1]
    found = inversion.rows(data, inversion.CASES, seeds, attack)
    return {"data": options.data, "attack": asdict(attack), "seeds": seeds, "rows": found}


def _served(options: argparse.Namespace) -> dict[str, Any]:
    """Serve 30 devices over TLS, with 40 SIGKILLs, and replay the run."""
    run = ServedRun(seed=options.seed)
    with tempfile.TemporaryDirectory(prefix="edgefl-secure-") as folder:
        return {**asdict(run), **run.play(Path(folder))}


ACTIONS = {
    "served": _served,
    "sockets": lambda options: socket_rounds.measure(50),
    "rounds": _rounds,
    "orders": _orders,
    "speed": _speed,
    "inversion": _inversion,
}
