"""The cost of a round beyond training: a thousand parameters, a process per client, every client in every round.

A round lasts from Opened to the next Opened, as the store has them, less the longest training time that a device
reported. Beside the wall time stands the processor time of the parts, which neighbours on the machine change little.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles

from bench import hosted, stopwatch
from bench.figures import Figure
from bench.fleet import fleet, wait_for_end
from bench.stopwatch import Span
from edgefl.server import run_history

BAR_MS = 20
WARM = 5  # rounds at the beginning that are left out
PARTS = {  # label of a stopwatch -> what it is
    "plan": "draw neurons, gather their values",
    "codec": "updates <-> payloads",
    "frames": "messages <-> frames",
    "decide": "coordinator",
    "fold": "fold the replies, finish the round",
    "store": "commits, arrays",
    "keep": "reply and model to the disk",
    "accept": "verdict to the disk",
}


def measure(path: Path, clients: int, rounds: int) -> Iterator[Figure]:
    """Yield the milliseconds per round beyond training, and then the parts, over `rounds` rounds after some that warm
    up.
    """
    last = WARM + rounds
    with fleet(path, "small", clients, last + 1) as running:
        devices = [running.timed_device(client) for client in range(clients)]
        wait_for_end(running, devices, last + 1)
    spans = stopwatch.read(path / hosted.SPANS)
    opened = hosted.times(spans)["RoundOpened"]
    training = {
        log_record["round"]: max(each["seconds"] for each in log_record["clients"])
        for log_record in run_history.metrics(path)
    }
    beyond = [1e3 * (opened[r + 1] - opened[r] - training[r]) for r in range(WARM + 1, last + 1)]
    low, _, high = quantiles(beyond, n=4)
    note = f"median of {rounds} rounds, {clients} devices; quartiles {low:.1f} and {high:.1f}, least {min(beyond):.1f}"
    yield Figure("round beyond training", median(beyond), "ms", BAR_MS, note)
    yield Figure("training, longest of a round", 1e3 * median(list(training.values())[WARM:last]), "ms")
    window = opened[WARM + 1], opened[last + 1]
    yield from _parts("server", _inside(spans, window), rounds)
    each = [span for client in range(clients) for span in _inside(stopwatch.read(running.spans(client)), window)]
    yield from _parts("devices together", each, rounds)


def _inside(spans: Sequence[Span], window: tuple[float, float]) -> list[Span]:
    return [span for span in spans if window[0] <= span.start_s < window[1]]


def _parts(who: str, spans: Sequence[Span], rounds: int) -> Iterator[Figure]:
    """Yield the processor time and calls per round of every part, and the wall time of a call."""
    calls: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        calls[span.label].append(span)
    for label, what in PARTS.items():
        if label in calls:
            found = calls[label]
            cpu_ms = 1e3 * sum(span.own_cpu_s for span in found) / rounds
            wall_ms = 1e3 * median(span.own_s for span in found)
            note = f"{what}; {len(found) / rounds:.1f} calls a round, median {wall_ms:.2f} ms of wall time"
            yield Figure(f"{who}: {label}", cpu_ms, "ms CPU a round", note=note)
