"""Rounds that wait for their clients, over-selected rounds and asynchronous rounds, on modelled devices.

The virtual clock of the packaged devices says how long each run took. A row has the same federation, method and rate in
all three studies. A round that waits has 10 clients. An over-selected round has 13 clients and takes the first 10
replies, which is an asynchronous round without staleness. An asynchronous round takes the first 4 replies of at most 12
clients that have a task. It has two and a half times the rounds, so as many replies.

The bar, which was written before the runs: an asynchronous run reaches the final accuracy of the run that waits, less
one point, in at most half of the virtual seconds of the run that waits, and with at most 1.2 times its bytes.
"""

from __future__ import annotations

from bench.papers.comparison import METHODS, Study
from bench.papers.fair import FEDSPU

RATE, POINTS, MODE = 0.1, 20, {"devices": "mixed"}
ROWS = {FEDSPU: METHODS[FEDSPU], "FedAvg": METHODS["FedAvg"]}
WAITING = {"per_round": 10, "rounds": 60}
OVER_SELECTED = {"per_round": 13, "buffer": 10, "max_staleness": 0, "rounds": 60}
BUFFERED = {"per_round": 12, "buffer": 4, "max_staleness": 30, "rounds": 180}
STUDIES = {
    name: Study(name, ROWS, {**MODE, **more}, points=POINTS, rate=RATE)
    for name, more in (("waiting", WAITING), ("over-selected", OVER_SELECTED), ("asynchronous", BUFFERED))
}
