"""`edgefl bench backward`: the time and the memory that converted layers and frozen neurons save on a model of the
user's own, and the least time that a step with so many frozen neurons can take.

The ways of training take turns of a few passes in one process, so that a busy machine slows all ways alike. The figures
are medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any, NamedTuple

from edgefl.cli.size_arguments import extents
from edgefl.errors import RequestError
from edgefl.experiment.user_code import HELP, found, users_code
from edgefl.system import machine_load

FEWEST = 5  # turns of each way
TURN = 5  # passes one after another, as in a training loop: the first ones find the other ways' data in the caches


class Times(NamedTuple):
    """The times of one way of training in seconds; cpu: processor seconds of all threads in both passes."""

    forward: float
    backward: float
    together: float
    cpu: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options: the model, and what is measured on it."""
    parser.add_argument(
        "what", choices=("backward",), help="what is timed: the forward and the backward pass, in edgefl and in torch"
    )
    parser.add_argument("factory", metavar="MODULE:FACTORY", help=HELP)
    parser.add_argument("--input", type=extents, required=True, metavar="C,H,W", help="shape of one example")
    parser.add_argument(
        "--keep", type=float, default=0.2, metavar="SHARE", help="share of the neurons that are trained; default: .2"
    )
    parser.add_argument("--batch", type=int, default=16, metavar="N", help="number of examples in a batch; default: 16")
    parser.add_argument(
        "--threads", type=int, metavar="N", help="number of threads, for torch and for edgefl; default: torch's number"
    )
    parser.add_argument(
        "--seconds", type=float, default=3.0, metavar="S", help="seconds that the measuring takes; default: 3"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run(options: argparse.Namespace) -> int:
    """Measures and prints."""
    if options.batch < 1 or (options.threads is not None and options.threads < 1) or not options.seconds > 0:
        given = f"--batch {options.batch} --threads {options.threads} --seconds {options.seconds:g}"
        raise RequestError(f"{given}; expected numbers above 0")
    if not 0 < options.keep <= 1:
        raise RequestError(f"--keep {options.keep:g}; expected a share above 0 and at most 1")
    compared = _ways(options)
    taken = _measured(compared.ways, options.seconds)
    busy = machine_load.warning(compared.threads)
    rows = [_row(way, each, taken) for way, each in zip(compared.ways, taken, strict=True)]
    if options.json:
        found = {"batch": options.batch, "threads": compared.threads, "without": compared.without, "warning": busy}
        print(json.dumps({**found, "ways": rows}))
        return 0
    print(f"batch {options.batch}, {compared.threads} threads, medians of {len(taken[0])} passes in turn")
    print(
        f"{'':<24}{'forward':>10}{'backward':>10}{'together':>10}{'CPU':>10}"
        f"{'speed':>8}{'half in':>12}{'saved':>10}{'least':>7}"
    )
    for row in rows:
        print(_line(row))
    print("speed: CPU time of eager torch over that of this way; half in: where half of the single speeds lie")
    print("saved: for the backward pass; least: share of the step's multiply-adds")
    if busy:
        print(busy)
    if compared.without:
        print(f"no neurons to freeze: {compared.without}")
    return 0


def _ways(options: argparse.Namespace) -> Any:
    try:
        from edgefl.torch.pass_variants import ways_of
    except ModuleNotFoundError as error:
        raise RequestError(str(error)) from None
    with users_code(options.factory):
        thing = found(options.factory)
        return ways_of(thing, options.factory, options.input, options.batch, options.keep, options.threads)


def _measured(ways: Any, seconds: float) -> list[list[Times]]:
    """Every way's passes, after a turn of each that makes ready."""
    taken: list[list[Times]] = [[] for _ in ways]
    began = time.perf_counter()
    while len(taken[0]) <= FEWEST * TURN or time.perf_counter() - began < seconds:
        for way, times in zip(ways, taken, strict=True):
            times += [_timed(way) for _ in range(TURN)]
    return [times[TURN:] for times in taken]


def _medians(times: list[Times]) -> Times:
    return Times(*map(statistics.median, zip(*times, strict=True)))


def _timed(way: Any) -> Times:
    cpu, start = time.process_time(), time.perf_counter()
    way.forward()
    middle = time.perf_counter()
    way.backward()
    end = time.perf_counter()
    return Times(middle - start, end - middle, end - start, time.process_time() - cpu)


def _row(way: Any, times: list[Times], taken: list[list[Times]]) -> dict[str, Any]:
    """The first of all ways is eager torch, whose passes are compared with those of this way, each with its own."""
    medians, eager = _medians(times), taken[0]
    ratios = [first.cpu / own.cpu for first, own in zip(eager, times, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    return {
        "way": way.name,
        **{f"{name}_s": value for name, value in medians._asdict().items()},
        "speed": _medians(eager).cpu / medians.cpu,
        "speed_quartiles": [low, high],
        "saved_bytes": way.saved,
        "least_share": way.share,
    }


def _line(row: dict[str, Any]) -> str:
    times = "".join(f"{1e3 * row[f'{name}_s']:>7.2f} ms" for name in Times._fields)
    least = "" if row["least_share"] is None else f"{row['least_share']:.2f}"
    spread = "{:.2f}-{:.2f}".format(*row["speed_quartiles"])
    return f"{row['way']:<24}{times}{row['speed']:>8.2f}{spread:>12}{row['saved_bytes'] / 1e6:>7.2f} MB{least:>7}"
