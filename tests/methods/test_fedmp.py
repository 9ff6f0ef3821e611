"""FedMP: the neurons by hand, R2SP by hand, identities, and three rounds against numpy's float64 (ALGORITHMS 7.16)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl.methods import FedAvg, FedMP
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.plan import Reply
from edgefl.methods.task import MODEL
from edgefl.models.neurons.update import Block, Update
from tests.methods.float64_net import RATE, Net, batches_of, difference, doubled, rounds_of, three_layers, trained
from tests.methods.small_models import copied, plain, same_bits
from tests.methods.test_frozen import Run

OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 2, "batch": 5, "lr": RATE}
METHOD = FedMP(**OPTIONS, keep=(0.5, 1.0, 0.25))
SIZES = {"one": 8, "two": 6}


def largest(norms: np.ndarray, count: int) -> np.ndarray:
    """Return where the `count` largest are. The test data have no equal norms."""
    return norms >= np.sort(norms)[-count]


def marks_of(net: Net, keep: float) -> Net:
    """Return 1 where both neurons of a coordinate are kept, and 0 elsewhere, from the weights' own norms."""
    kept = {
        layer: largest(np.abs(net[f"{layer}.weight"]).sum(axis=1), max(1, int(size * keep)))
        for layer, size in SIZES.items()
    }
    one, two = kept["one"].astype(float), kept["two"].astype(float)
    return {
        "one.weight": np.outer(one, np.ones(32)), "one.bias": one, "two.weight": np.outer(two, one), "two.bias": two,
        "fc.weight": np.outer(np.ones(3), two), "fc.bias": np.ones(3),
    }  # fmt: skip


def submodel(net: Net, marks: Net, batches: Any) -> Net:
    """Return the net after training with only the marked coordinates, 0 elsewhere: dropped neurons give 0."""
    return trained({n: v * marks[n] for n, v in net.items()}, batches, lambda name, slope: slope * marks[name])


def test_three_rounds_are_those_of_the_paper_in_float64() -> None:
    """Each client's model is recovered by the residual, the server's model without the client's neurons."""
    graph = three_layers()
    run = Run(METHOD, graph)
    w = doubled(run.initial)
    for round, chosen in rounds_of(run, 3):
        recovered = []
        for client in chosen:
            marks = marks_of(w, METHOD.keep[client])
            x = submodel(w, marks, batches_of(graph, client, round, 2, 5))
            recovered.append({name: x[name] + (w[name] - w[name] * marks[name]) for name in w})
        w = {name: (recovered[0][name] + recovered[1][name]) / 2 for name in w}
        assert difference(run.state.arrays[MODEL], w) < 1e-6


def test_a_client_without_a_coordinate_counts_with_the_servers_value() -> None:
    """Every value was 2. Client 0 has 1 sample, 2 of 8 neurons and sends 6. Client 1 has 3 samples, 4 neurons and sends
    10. By samples the first two neurons become (6 + 3 * 10) / 4 = 9, and the next two (2 + 3 * 10) / 4 = 8.
    """
    for weight, both, one in (("samples", 9.0, 8.0), ("uniform", 8.0, 6.0)):
        run = Run(replace(METHOD, weight=weight), three_layers())
        run.state.arrays[MODEL] = {name: np.full_like(value, 2) for name, value in run.initial.items()}
        accumulator = Accumulator(run.task.spec)
        for client, tier, examples, value in ((0, 2, 1, 6), (1, 0, 3, 10)):
            plan = run.method.client_plan(run.task, run.state, 1, tier)
            blocks = plan.payload[MODEL].blocks
            values = {n: Block(b.shape, b.index, np.full_like(b.values, value)) for n, b in blocks.items()}
            run.method.aggregate(accumulator, plan, Reply(1, client, {MODEL: Update(values)}, examples=examples))
        after = run.method.finish(run.task, run.state, accumulator, 1).arrays[MODEL]
        assert after["one.bias"].tolist() == [both] * 2 + [one] * 2 + [2.0] * 4  # among equal norms the first


def test_with_every_neuron_it_is_fedavg_bit_for_bit() -> None:
    """t_dense_equals_fedavg, with running statistics, and under both weights."""
    for weight in ("uniform", "samples"):
        runs = [
            Run(FedMP(**OPTIONS, keep=(1.0,), weight=weight), plain()),
            Run(FedAvg(**OPTIONS, weight=weight), plain()),
        ]
        for run in runs:
            assert [len(chosen) for _, chosen in rounds_of(run, 2)] == [2, 2]
        assert same_bits(*(copied(run.state.arrays[MODEL]) for run in runs))


def test_a_sub_model_is_sent_and_trained_as_a_smaller_net() -> None:
    """4 of 8 and 3 of 6 neurons: 4 * 32 + 4 + 3 * 4 + 3 + 3 * 3 + 3 values in both directions, 4 bytes each."""
    run = Run(replace(METHOD, keep=(0.5,)), three_layers())
    for plan, reply in run.play(1):
        assert [side.payload[MODEL].count for side in (plan, reply)] == [159, 159]
        smaller = run.method.smaller(run.clients[plan.client], plan)
        assert sum(value.size for value in smaller.read().values()) == 159


def test_a_round_without_replies_changes_nothing() -> None:
    run = Run(METHOD, three_layers())
    assert METHOD.finish(run.task, run.state, Accumulator(run.task.spec), 1) is run.state


def test_a_weight_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"weight=batches; expected samples or uniform"):
        replace(METHOD, weight="batches")  # type: ignore[arg-type]
