"""`edgefl bench backward` measures the time and the memory that converted layers and frozen neurons save on a model of
the user's own. It also computes the least time that a step with that number of frozen neurons can take.

The ways of training take turns of a few passes in one process, so that a busy machine slows all ways alike. The
figures are medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any, NamedTuple

from edgefl.cli.size_arguments import extents
from edgefl.cli.working import working
from edgefl.errors import RequestError
from edgefl.experiment.user_code import HELP, found, users_code
from edgefl.system import machine_load

FEWEST = 5  # smallest number of turns of each way
TURN = 5  # number of passes in a turn, as in a training loop: the first find the other ways' data in the caches


class Times(NamedTuple):
    """The times of one way of training in seconds.

    forward, backward  elapsed time of one pass
    together           elapsed time of both passes
    cpu                processor time of all threads in both passes
    """

    forward: float
    backward: float
    together: float
    cpu: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model and the options of the measurement."""
    parser.add_argument(
        "what",
        choices=("backward",),
        help="passes that are timed: backward times the forward and the backward pass",
    )
    parser.add_argument("factory", metavar="MODULE:FACTORY", help=HELP)
    parser.add_argument(
        "--input", type=extents, required=True, metavar="C,H,W", help="shape of one example (for example: 3,32,32)"
    )
    parser.add_argument(
        "--keep", type=float, default=0.2, metavar="SHARE", help="share of the neurons that are trained (default: .2)"
    )
    parser.add_argument(
        "--batch", type=int, default=16, metavar="N", help="number of examples in a batch (default: 16)"
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="number of threads, for torch and for edgefl (default: torch's number)"
    )
    parser.add_argument(
        "--seconds", type=float, default=3.0, metavar="S", help="time in seconds that the measuring takes (default: 3)"
    )


def run(options: argparse.Namespace) -> int:
    """Measure every way of training and print the medians."""
    for name in ("batch", "threads", "seconds"):
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise RequestError(f"--{name} {value:g}; expected a number above 0")
    if not 0 < options.keep <= 1:
        raise RequestError(f"--keep {options.keep:g}; expected a share above 0 and at most 1")
    with working(f"importing and converting {options.factory}"):
        compared = _ways(options)
    with working(f"measuring for {options.seconds:g} s or more"):
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
    """Return the times of every way's passes. The first turn of each way is a warm-up and is left out."""
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
    """Return one way of training as JSON values. The first of all ways is eager torch, and each pass of this way is
    compared with the pass of eager torch in the same turn.
    """
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
