"""`python -m bench papers search-time`: FedSpa's table 5, the time of the mask search beside the training of a round.

A client trains one round of FedSpa (DST) at density .5 with the paper's five epochs and batches of 128, and then looks
for its next mask. Pixels and labels are drawn, because the operations do not depend on them. The numbers of samples are
a hundredth of the published training parts. The search is pruning, the gradient of one batch, and growing. Its CPU time
is set against the CPU time of the rest of the round, with one thread, as the paper sets one wall time against another.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from bench import machine
from bench.papers.pieces import Piece, piece
from edgefl.experiment.data.split import Split
from edgefl.experiment.federation import Federation
from edgefl.experiment.presets import preset
from edgefl.learning import GraphLearner, Samples
from edgefl.methods.client_state import ClientState
from edgefl.methods.fedspa import FedSpa
from edgefl.methods.mask_search import NextMask
from edgefl.models.graph import Model, architectures
from edgefl.models.neurons.mask import Bits

RESULTS, NAME = Path(__file__).with_name("results"), "fedspa-search"
REPETITIONS, SEED = 3, 1


class Network(NamedTuple):
    """A row of the table.

    data     data set whose preset of FedSpa says the settings
    model    name of the built-in architecture
    samples  training samples of a client
    paper    the paper's search over training on its CPU, in percent
    """

    data: str
    model: str
    samples: int
    paper: float


NETWORKS = {
    "LeNet5": Network("emnist", "lenet5", 1248, 8.92),
    "VGG11": Network("cifar10", "vgg11", 500, 19.19),
    "ResNet18": Network("cifar100", "resnet18", 500, 12.93),
}


@dataclass
class Watch:
    """The CPU seconds that searches have taken so far."""

    seconds: float = 0.0

    def timed(self, search: NextMask, *arguments: Any) -> Mapping[str, Bits]:
        """Return what the search finds, and add its CPU time."""
        started = time.process_time()
        found = search(*arguments)
        self.seconds += time.process_time() - started
        return found


@dataclass(frozen=True)
class Watched(FedSpa):
    """FedSpa, whose searches are timed by `watch`."""

    watch: Watch = field(default_factory=Watch)

    def next_mask(self, rate: float) -> NextMask:
        return partial(self.watch.timed, super().next_mask(rate))


def main(arguments: Sequence[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m bench papers search-time", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="of the record; default: beside this file")
    parser.add_argument("--samples", type=int, default=0, help="of a client; default: a number for each network")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="of each round; default: %(default)s")
    options = parser.parse_args(arguments)
    for name, least in (("samples", 0), ("repetitions", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name} {getattr(options, name)}; expected at least {least}")
    found = piece(options.results, NAME, partial(_measured, options.samples, options.repetitions))
    table = Table(title=f"FedSpa, table 5: medians of {found['repetitions']} rounds", title_justify="left")
    for heading in ("", "samples", "training, CPU s", "search, CPU s", "search over training %", "paper %"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, (samples, training, searching, share, paper) in rows(found).items():
        table.add_row(name, f"{samples}", f"{training:.2f}", f"{searching:.3f}", f"{share:.1f}", f"{paper:.1f}")
    Console().print(table)
    return 0


def rows(found: Piece) -> dict[str, tuple[int, float, float, float, float]]:
    """Return by network the samples, the median seconds of training and search, their ratio in percent, and the
    paper's ratio. The ratio is the median of the rounds' ratios.
    """
    made = {}
    for name, each in found["networks"].items():
        seconds = np.array(each["seconds"])
        training, searching = np.median(seconds, axis=0)
        share = 100 * float(np.median(seconds[:, 1] / seconds[:, 0]))
        made[name] = (each["samples"], float(training), float(searching), share, NETWORKS[name].paper)
    return made


def _measured(samples: int, repetitions: int) -> Piece:
    """Return the record. Networks take turns, so that a slower hour of the machine meets all of them."""
    machine.use_threads(1)
    rounds = {name: _round(network, samples or network.samples) for name, network in NETWORKS.items()}
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in NETWORKS}
    for _ in range(repetitions):
        for name, carry_out in rounds.items():
            seconds[name].append(carry_out())
    return {
        "seed": SEED,
        "repetitions": repetitions,
        "networks": {
            name: {"samples": samples or network.samples, "seconds": seconds[name]}
            for name, network in NETWORKS.items()
        },
    }


def _round(network: Network, samples: int) -> Callable[[], tuple[float, float]]:
    """Return a function that carries out the first round of a client anew.

    It returns the CPU seconds of the round without the search, and those of the search.
    """
    shape, classes = architectures.EXAMPLES[network.model]
    drawn = np.random.RandomState(SEED)
    data = Samples(
        drawn.randint(0, 256, (samples, *shape)).astype(np.uint8),
        drawn.randint(0, classes, samples).astype(np.int32),
        1 / 255,
    )
    empty = np.zeros(0, np.int32)
    split = Split(np.arange(samples, dtype=np.int32), empty, empty)
    federation = Federation(architectures.build(network.model, shape, classes), data, (split,), SEED)
    settings = preset("fedspa", network.data)
    options = {name: value for name, value in settings["options"] if name != "accept_on"}
    method = Watched(per_round=1, epochs=settings["epochs"], batch=settings["batch"], lr=settings["lr"], **options)

    def carry_out() -> tuple[float, float]:
        initial, task = federation.initial(), federation.task(1)
        learner = GraphLearner(Model(federation.graph, initial))
        state = ClientState(0, SEED, task.spec, learner, data, split.train, split.validation, split.test)
        (plan,) = method.plan(task, method.start(task, initial), 1)
        searched, started = method.watch.seconds, time.process_time()
        method.train(state, plan)
        whole, searching = time.process_time() - started, method.watch.seconds - searched
        return round(whole - searching, 4), round(searching, 4)

    return carry_out
