"""`python -m bench papers similarity`: figure 5 of FedSPU's first version, how alike the sub-models of clients are.

Twenty clients at Dirichlet .1 receive the common model, train five local epochs, and each keeps the share p of the
neurons of each layer that its rule calls important. A rule is the importance of a neuron as FedSPU's paper says it of
FedMP, Hermes and PruneFL. FedSPU draws its active neurons instead, and its draws show what chance gives. The similarity
of two clients is the number of neurons that both keep over the number that at least one keeps (Eq. 3, after Jaccard).

The paper has CIFAR-10 and says neither p nor the round. Here the data are 5,000 pictures of Fashion-MNIST, p is .2 to
.8, and the common model is the first one, or FedAvg's after ROUNDS rounds.

The rule, which was written before the runs: the paper calls the similarity low. It counts as low where the mean over
the seeds is below what draws give, and the whole 95 % t interval of the difference is below 0.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import fmean

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.papers import comparison
from bench.papers.comparison import COMPARISON
from bench.papers.pieces import Piece, piece
from edgefl import rng
from edgefl.errors import EdgeflError
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.learning import GraphLearner
from edgefl.methods.client_state import ClientState, dropout_key
from edgefl.methods.fedavg import FedAvg
from edgefl.methods.rounds.diagnosis import jaccard
from edgefl.methods.task import MODEL
from edgefl.models.graph import Model, Params
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_norms import l1_norms, largest_neurons
from edgefl.models.neurons.neuron_set import NeuronSet, n_act
from edgefl.study.paired_differences import PairedDifference
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate

RESULTS, NAME = Path(__file__).with_name("results"), "fedspu-similarity"
PLACE, SEEDS, ROUNDS, RATE, CHUNK = "fashion-5000", (1, 2, 3), 20, 0.1, 128
KEEPS = (0.2, 0.4, 0.6, 0.8)
DRAWN = "drawn, as FedSPU does"


def _squares(values: Mapping[str, np.ndarray]) -> Params:
    return {name: np.square(value, dtype=np.float64) for name, value in values.items()}


RULES: dict[str, Callable[[Params, Params], Mapping[str, np.ndarray]]] = {
    "FedMP, L1 norm of the weights": lambda weights, slopes: weights,
    "Hermes, L2 norm of the weights": lambda weights, slopes: _squares(weights),
    "PruneFL, L2 norm of the gradient": lambda weights, slopes: _squares(slopes),
}
"""By label, of a client's weights and their gradient the values whose sums over the weights of a neuron order the
neurons as its importance does."""


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return 1 if the data cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m bench papers similarity", description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="where the data sets' files lie")
    parser.add_argument("--results", type=Path, default=RESULTS, help="of the record; default: beside this file")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of FedAvg before the second half of the table")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}; expected at least 1")
    try:
        found = piece(options.results, NAME, partial(measured, options.data_dir, options.rounds))
    except EdgeflError as error:
        print(error, file=sys.stderr)
        return 1
    for rounds in found["similarity"]:
        _print(found, rounds)
    return 0


def _print(found: Piece, rounds: str) -> None:
    console = Console()
    console.width = max(console.width, 140)
    table = Table(title=f"Similarity of two clients' neurons after {rounds} rounds", title_justify="left")
    for heading in ("", *(f"p = {keep:g}" for keep in KEEPS)):
        table.add_column(heading, justify="right" if heading else "left")
    for rule, by_keep in means(found, rounds).items():
        offs = [] if rule == DRAWN else over_draws(found, rounds, rule)
        table.add_row(rule, *(f"{each:.3f}" for each in by_keep))
        if offs:
            table.add_row("  less that of draws, in hundredths", *map(_between, offs))
    console.print(table)


def _between(off: PairedDifference) -> str:
    """Return a difference with its interval."""
    return f"{off.mean:+.1f} ({off.low:+.1f} to {off.high:+.1f})"


def means(found: Piece, rounds: str) -> dict[str, list[float]]:
    """Return by rule the mean similarity over the seeds, for each p."""
    return {
        rule: [fmean(by_keep[f"{keep:g}"]) for keep in KEEPS] for rule, by_keep in found["similarity"][rounds].items()
    }


def over_draws(found: Piece, rounds: str, rule: str) -> list[PairedDifference]:
    """Return for each p the similarity under a rule less that of draws, in hundredths, over the seeds."""
    of_rule, of_draws = (found["similarity"][rounds][each] for each in (rule, DRAWN))
    pairs = ((of_rule[f"{keep:g}"], of_draws[f"{keep:g}"]) for keep in KEEPS)
    return [PairedDifference.of(*([100 * value for value in values] for values in pair)) for pair in pairs]


def measured(data_dir: Path | None, rounds: int) -> Piece:
    """Return the record: by the number of rounds before, by rule and by p, the similarity for each seed."""
    similarity: dict[str, dict[str, dict[str, list[float]]]] = {}
    clients = 0
    for seed in SEEDS:
        run = comparison.run(COMPARISON, PLACE, "FedAvg", RATE, seed)
        federation = run.federation(run.experiment, data_dir)
        clients = len(federation.clients)
        begun = {0: federation.initial(), rounds: _after(run.experiment, federation, rounds)}
        for number, common in begun.items():
            for rule, by_keep in _similarities(federation, run.experiment, common, number + 1).items():
                for keep, value in by_keep.items():
                    entry = similarity.setdefault(str(number), {}).setdefault(rule, {})
                    entry.setdefault(f"{keep:g}", []).append(round(value, 4))
    settings = {"place": PLACE, "clients": clients, "epochs": run.experiment.epochs, "rate": RATE}
    return {"seeds": list(SEEDS), **settings, "similarity": similarity}


def _after(experiment: Experiment, federation: Federation, rounds: int) -> Params:
    """Return FedAvg's model after this number of rounds."""
    short = replace(experiment, rounds=rounds, eval_every=rounds, refresh=0)
    ((_, algorithm),) = short.algorithms().items()
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder))
        try:
            return simulate(algorithm, federation, short.settings(1), journal).arrays[MODEL]
        finally:
            journal.close()


def _similarities(
    federation: Federation, experiment: Experiment, common: Params, round: int
) -> dict[str, dict[float, float]]:
    """Return by rule and p the mean similarity over all pairs of clients that begin with the common model."""
    spec = ModelSpec.of(federation.graph)
    chosen: dict[tuple[str, float], list[NeuronSet]] = {}
    for client, (weights, slopes) in enumerate(_trained(federation, experiment, common, round)):
        for keep in KEEPS:
            counts = {group: n_act(size, keep) for group, size in spec.groups.items()}
            for rule, strength in RULES.items():
                norms = l1_norms(strength(weights, slopes), spec)
                chosen.setdefault((rule, keep), []).append(largest_neurons(spec, norms, counts))
            stream = rng.stream(federation.seed, rng.NEURONS, client, round)
            chosen.setdefault((DRAWN, keep), []).append(NeuronSet.draw(spec, keep, stream))
    found: dict[str, dict[float, float]] = {}
    for (rule, keep), sets in chosen.items():
        found.setdefault(rule, {})[keep] = alike(sets)
    return found


def _trained(
    federation: Federation, experiment: Experiment, common: Params, round: int
) -> Iterator[tuple[Params, Params]]:
    """Yield each client's weights after its training, and the gradient of its mean loss there."""
    method = FedAvg(epochs=experiment.epochs, batch=experiment.batch, lr=RATE)
    spec = ModelSpec.of(federation.graph)
    for client, split in enumerate(federation.clients):
        learner = GraphLearner(Model(federation.graph, {name: value.copy() for name, value in common.items()}))
        state = ClientState(
            client, federation.seed, spec, learner, federation.data, split.train, split.validation, split.test
        )
        learner.fit(federation.data, method.batches(state, round), method.local_optimizer(round))
        slopes = learner.gradient(federation.data, split.train, chunk=CHUNK, key=dropout_key(state, round))
        yield learner.read(spec.params), slopes


def alike(sets: Sequence[NeuronSet]) -> float:
    """Return the mean over all pairs of the neurons that both have over the neurons that at least one has."""
    bits = [{group: np.isin(np.arange(each.sizes[group]), ids) for group, ids in each.active.items()} for each in sets]
    pairs = [jaccard(first, second) for first, second in combinations(bits, 2)]
    return math.fsum(pairs) / len(pairs)
