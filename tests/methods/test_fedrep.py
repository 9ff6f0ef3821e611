"""FedRep: phases that leave the other part's bits alone, identities, and three rounds against numpy's float64
(ALGORITHMS 7.9).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.methods import FedBABU, FedRep
from edgefl.methods.personal_head import CLASSES, HEAD
from edgefl.methods.task import BODY, MODEL
from tests.methods.float64_net import (
    RATE,
    Net,
    batches_of,
    difference,
    doubled,
    mean,
    rounds_of,
    three_layers,
    trained,
)
from tests.methods.small_models import copied, device, plain, same_bits
from tests.methods.test_frozen import Run

OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 1, "batch": 5, "lr": RATE}
METHOD = FedRep(**OPTIONS, head_epochs=2)


def test_each_phase_leaves_the_bits_of_the_other_part_alone() -> None:
    """t_fedrep_phases: with a body's rate that does nothing, what came is what goes, running statistics included."""
    run = Run(METHOD, plain())
    client_state, (plan, *_) = run.clients[0], METHOD.plan(run.task, run.state, 1)
    plan, calls, parts = replace(plan, client=0), [], []
    learner = client_state.learner.with_head(len(np.unique(client_state.data.y[client_state.train])))
    fit = learner.fit

    def watched(*args: Any) -> Any:
        before = copied(learner.read())
        found = fit(*args)
        after = copied(learner.read())
        parts.append({name for name in after if after[name].tobytes() != before[name].tobytes()})
        calls.append(found.steps)
        return found

    learner.fit = watched  # type: ignore[method-assign]
    reply = METHOD.train(client_state, plan)
    head, body = set(run.task.spec.head), set(run.task.spec.body)
    assert parts[0] == head and parts[1] <= body and "conv1.weight" in parts[1] and "bn1.running_mean" in parts[1]
    assert calls == [6, 3] and reply.steps == 9 == METHOD.steps(12)


def test_without_head_steps_and_with_one_head_it_is_fedbabu_bit_for_bit() -> None:
    """Every client has the common head over all three classes as its own then, and nobody trains it."""
    runs = [Run(replace(METHOD, head_epochs=0), plain()), Run(FedBABU(**OPTIONS), plain())]
    for client_state in runs[0].clients:
        client_state.private = {CLASSES: [0, 1, 2]}
        client_state.arrays = {HEAD: {name: runs[0].initial[name] for name in runs[0].task.spec.head}}
    for run in runs:
        assert [len(chosen) for _, chosen in rounds_of(run, 2)] == [2, 2]
    found, expected = runs[0].state.arrays[BODY], runs[1].state.arrays[MODEL]
    assert same_bits(found, {name: expected[name] for name in found})


def first_head(client: int, classes: int) -> Net:
    """Return a client's first head: uniform within 1 / sqrt(6), the weight before the bias."""
    stream, bound = rng.stream(1, rng.HEAD, client), 1 / np.sqrt(6)
    shapes = {"fc.weight": (classes, 6), "fc.bias": (classes,)}
    drawn = {name: (2 * stream.uniform(int(np.prod(shape))).reshape(shape) - 1) for name, shape in shapes.items()}
    return {name: value * bound for name, value in drawn.items()}


def test_three_rounds_are_those_of_the_paper_in_float64() -> None:
    graph = three_layers()
    run = Run(METHOD, graph)
    body = {name: value for name, value in doubled(run.initial).items() if not name.startswith("fc.")}
    heads: dict[int, Net] = {}
    for round, chosen in rounds_of(run, 3):
        bodies = []
        for client in chosen:
            data = device(graph, client)
            classes = np.unique(data.data.y[data.train])
            head = heads.get(client) or first_head(client, len(classes))
            batches = [(x, np.searchsorted(classes, y)) for x, y in batches_of(graph, client, round, 3, 5)]
            of_head = trained({**body, **head}, batches[:6], lambda name, slope: slope * name.startswith("fc."))
            both = trained(of_head, batches[6:], lambda name, slope: slope * (not name.startswith("fc.")))
            heads[client] = {name: both[name] for name in head}
            bodies.append({name: both[name] for name in body})
        body = mean(bodies, [len(device(graph, client).train) for client in chosen])
        assert difference(run.state.arrays[BODY], body) < 1e-6
        for client in chosen:
            assert difference(run.clients[client].arrays[HEAD], heads[client]) < 1e-6


def test_bodies_alone_travel() -> None:
    """32 x 8 + 8 and 8 x 6 + 6 values in both directions."""
    for plan, reply in Run(METHOD, three_layers()).play(1):
        assert [side.payload[BODY].count for side in (plan, reply)] == [318, 318]
        assert plan.payload.keys() == reply.payload.keys() == {BODY}


def test_after_a_refresh_the_head_alone_is_trained() -> None:
    run = Run(METHOD, three_layers())
    run.clients[0].private, (plan, *_) = {}, METHOD.refreshes(run.task, run.state, 1, [0])
    with METHOD.refreshed(run.clients[0], plan, 2) as own:
        found = own.learner.read(run.task.spec.body)
        assert same_bits(copied(dict(found)), {name: run.initial[name] for name in found})
        assert difference(own.learner.read(run.task.spec.head), first_head(0, len(own.classes or ()))) > 1e-3


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"head_epochs=-1; expected head_epochs >= 0"):
        replace(METHOD, head_epochs=-1)
