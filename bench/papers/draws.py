"""FedSPU with draws of its own and with shared draws, aggregated by the float64 mean and by whole numbers.

Secure aggregation needs both: clients of a tier that train the same neurons, and sums of whole numbers. Here they are
without it, because it changes no sum. A round has 25 clients, five of each tier. All rows have the rate .1, which
FedSPU has chosen on EMNIST in `comparison`.

The rule, which was written before the runs: a difference counts where its 95 % t interval over three seeds is on one
side of 0, as in fair.py.
"""

from __future__ import annotations

from bench.papers.comparison import METHODS, REFRESH, Method, Study
from bench.papers.fair import FEDSPU

ROUNDS, POINTS, RATE, PER_ROUND = 40, 4, 0.1, 25
ROWS = {FEDSPU: METHODS[FEDSPU], "FedSPU, shared draws": Method("fedspu:draws=shared"), "FedAvg": METHODS["FedAvg"]}


def study(name: str, aggregation: str) -> Study:
    """Return the study of an aggregation."""
    more = {
        "rounds": ROUNDS,
        "per_round": PER_ROUND,
        "refresh": REFRESH,
        "devices": "mixed",
        "aggregation": aggregation,
    }
    return Study(name, ROWS, more, points=POINTS, rate=RATE)


STUDIES = {name: study(name, aggregation) for name, aggregation in (("draws", "mean"), ("draws-exact", "exact"))}
