"""FedSpa's two halves on small real models: its masks, what is sent, trained and added up (ALGORITHMS 3, 4, 8, 13)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl import methods, rng
from edgefl.methods.fedavg import FedAvg
from edgefl.methods.fedspa import FedSpa
from edgefl.methods.mask_store import BEFORE, MASK
from edgefl.methods.plan import Reply
from edgefl.methods.rounds.exchange import plan_of, read_answer, train_message, trained_message
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Graph, Params
from edgefl.models.neurons.density import counts, weights
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.prune_and_grow import annealed, prune_count
from edgefl.models.neurons.sparse_cost import mask_values
from edgefl.models.neurons.update import Update, mask_of
from tests.methods.masked_rounds import CLIENTS, ROUNDS, Run, dense, inside
from tests.methods.small_models import GRAPHS, copied, device, plain, same_bits

OPTIONS: dict[str, Any] = {"per_round": 3, "epochs": 2, "batch": 5, "lr": 0.1}
DST = FedSpa(**OPTIONS, density=0.4)
RSM = replace(DST, search="rsm")
graphs = pytest.mark.parametrize("graph", [make() for make in GRAPHS.values()], ids=list(GRAPHS))


# Masks.


@graphs
def test_masks_keep_every_layer_s_number_of_ones_and_stay_where_nobody_trains(graph: Graph) -> None:
    """This holds over all rounds, for server and clients. The last round has rate 0, moves no mask and asks for none of
    it.
    """
    run = Run(DST, graph)
    shapes = weights(run.spec)
    expected = {n: k for n, k in counts(shapes, 0.4, "erk").items() if k < np.prod(shapes[n])}
    first = [run.mask(client) for client in range(CLIENTS)]
    assert len({mask.hash() for mask in first}) == 1
    for round in range(1, ROUNDS + 1):
        before = [run.mask(client) for client in range(CLIENTS)]
        played = run.play()
        for plan, reply in played:
            assert (reply.masks.keys() == {MASK}) == (round < ROUNDS)
            assert plan.settings == {"alpha": annealed(0.5, round - 1, ROUNDS)}
            assert run.method.held(run.clients[plan.client])[0] == run.mask(plan.client)
            assert (run.mask(plan.client) != before[plan.client]) == (round < ROUNDS)
        for client in {*range(CLIENTS)} - {plan.client for plan, _ in played}:
            assert run.mask(client) == before[client]
        for client in range(CLIENTS):
            found = run.mask(client).bits
            assert {name: int(bits.sum()) for name, bits in found.items()} == expected


@graphs
def test_the_next_mask_is_what_a_sort_of_everything_gives(graph: Graph) -> None:
    """t_prune_grow_counts, t_grow_candidates: the n smallest |w~_N| leave, and the n largest |g| enter.

    They enter among coordinates that are not there after pruning, or that were not there before. g is the dense
    gradient of one batch at w~_N under the old mask. Where few are left to enter, no more leave.
    """
    for options in (
        {},
        {"floor": True},
        {"exclude_just_pruned": True},
        {"exclude_just_pruned": True, "floor": True, "density": 0.8, "prune_rate": 0.9},
    ):
        _check_next_masks(Run(replace(DST, **options), graph), **options)


def _check_next_masks(run: Run, floor: bool = False, exclude_just_pruned: bool = False, **_: object) -> None:
    run.play()
    for plan, reply in run.play():
        client_state = run.clients[plan.client]
        trained = copied(client_state.learner.read())  # w~_N: nothing has been written since
        batch = client_state.train[rng.stream(1, rng.MASK_BATCH, plan.client, plan.round).sample(12, 5)]
        assert set(batch) != set(DST.batches(client_state, plan.round)[0])  # a draw of its own
        gradient = client_state.learner.gradient(client_state.data, batch)
        for name, bits in mask_of(plan.payload[MODEL]).bits.items():
            w, g, present = trained[name].reshape(-1), np.abs(gradient[name].reshape(-1)), bits.reshape(-1)
            ones = int(present.sum())
            moved = prune_count(plan.settings["alpha"], ones, floor)
            moved = min(moved, len(w) - ones) if exclude_just_pruned else moved
            active = sorted(np.flatnonzero(present), key=lambda i, w=w: (abs(w[i]), i))
            excluded = set(active if exclude_just_pruned else active[moved:])
            candidates = [i for i in range(len(w)) if i not in excluded]
            entered = sorted(candidates, key=lambda i, g=g: (-g[i], i))[:moved]
            assert np.flatnonzero(reply.masks[MASK].bits[name]).tolist() == sorted([*active[moved:], *entered])


def test_first_masks_differ_where_they_are_asked_to_and_only_there() -> None:
    spec = ModelSpec.of(plain())
    for kind, expected in (("same", 1), ("different", CLIENTS)):
        method = replace(DST, masks=kind)
        drawn = [method.first_mask(spec, 1, client) for client in range(CLIENTS)]
        assert len({mask.hash() for mask in drawn}) == expected
        assert [method.held(device(plain(), client))[0] for client in range(CLIENTS)] == drawn
        uniform = replace(method, distribution="uniform").first_mask(spec, 1, 0)
        ones = {name: int(bits.sum()) for name, bits in uniform.bits.items()}
        assert ones == counts(weights(spec), 0.4, "uniform")


def test_growing_at_random_differs_by_client_and_asks_for_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(replace(DST, growth="random"), plain())
    for client_state in run.clients:
        monkeypatch.setattr(client_state.learner, "strongest", None)
    found = [reply.masks[MASK].hash() for _, reply in run.play()]
    assert len(set(found)) == len(found)
    assert {int(run.mask(0).bits["conv2.weight"].sum())} == {int(run.mask(3).bits["conv2.weight"].sum())}
    apart = Run(replace(DST, growth="random", exclude_just_pruned=True), plain())
    for plan, reply in apart.play():
        before, after = mask_of(plan.payload[MODEL]).bits, reply.masks[MASK].bits
        for name, bits in before.items():
            gone = int((bits & ~after[name]).sum())
            count = min(prune_count(plan.settings["alpha"], int(bits.sum())), int((~bits).sum()))
            assert gone == int((after[name] & ~bits).sum()) == count > 0, name


# Training.


@graphs
def test_every_step_is_masked_gradient_descent_and_nothing_else_exists(graph: Graph) -> None:
    """A step is w~ - eta m (g + wd w~). Off the mask are the bits of 0.0 after each step. U_k = w~_0 - w~_N at the
    mask.
    """
    run = Run(replace(DST, weight_decay=0.05), graph)
    plan = run.plans()[0]
    client_state, twin = run.clients[plan.client], device(graph, plan.client)
    here, learnt = (
        inside(mask_of(plan.payload[MODEL]), run.spec),
        [n for n, p in run.spec.params.items() if p.kind == "learn"],
    )
    w = dense(plan.payload[MODEL])
    start = copied(w)
    for batch in DST.batches(twin, 1):
        twin.learner.write(w)
        gradient = twin.learner.gradient(twin.data, batch)
        for name in learnt:
            w[name] = w[name] - np.float32(0.1) * here[name] * (gradient[name] + np.float32(0.05) * w[name])
    seen: list[Params] = []
    fit = client_state.learner.fit

    def one_by_one(samples: Any, batches: Any, sgd: Any) -> Any:
        results = []
        for batch in batches:
            results.append(fit(samples, [batch], sgd))
            seen.append(copied(client_state.learner.read()))
        return replace(results[0], steps=len(results))

    client_state.learner.fit = one_by_one  # type: ignore[method-assign]
    reply = run.answer(plan)
    assert len(seen) == reply.steps == 6
    for after in seen:
        for name, bits in here.items():
            assert not after[name][~bits].tobytes().strip(b"\0"), name
    assert mask_of(reply.payload[MODEL]) == mask_of(plan.payload[MODEL])
    for name, change in dense(reply.payload[MODEL]).items():
        assert change.tobytes() == np.where(here[name], start[name] - seen[-1][name], 0).astype(np.float32).tobytes()
        if name in learnt:
            np.testing.assert_allclose(seen[-1][name], w[name], rtol=2e-4, atol=2e-5)


def test_training_leaves_the_learner_to_others() -> None:
    """Learners are shared: what comes next has all coordinates again, whether or not training went well."""
    run = Run(DST, plain())
    plan = run.plans()[0]
    client_state = run.clients[plan.client]
    with pytest.raises(ValueError, match="broken"):
        client_state.learner.fit = lambda *_: (_ for _ in ()).throw(ValueError("broken"))  # type: ignore[method-assign]
        DST.train(client_state, plan)
    whole = {name: np.ones_like(value) for name, value in run.model.items()}
    client_state.learner.write(whole)
    assert same_bits(copied(client_state.learner.read()), whole)
    DST.evaluate(client_state, whole)
    client_state.learner.write(whole)
    assert same_bits(copied(client_state.learner.read()), whole)


def test_a_client_keeps_masks_and_no_weights() -> None:
    run = Run(DST, plain())
    for plan, _ in run.play():
        client_state = run.clients[plan.client]
        assert client_state.private == {MASK: 1} and client_state.arrays.keys() == {MASK, BEFORE}
        kept = sum(array.nbytes for each in client_state.arrays.values() for array in each.values())
        assert kept == 2 * sum((bits.size + 7) // 8 for bits in run.mask(plan.client).bits.values())
    assert not FedSpa.keeps_model


def test_weights_that_are_no_numbers_are_reported() -> None:
    run = Run(DST, plain())
    plan = run.plans()[0]
    client_state = run.clients[plan.client]
    read = client_state.learner.read

    def with_nan(names: Any = None) -> Any:
        found = copied(read(names))
        if "conv2.weight" in found:
            found["conv2.weight"][mask_of(plan.payload[MODEL]).bits["conv2.weight"]] = np.nan
        return found

    client_state.learner.read = with_nan  # type: ignore[method-assign]
    reply = DST.train(client_state, plan)
    assert reply.metrics["nan_weights"] == mask_of(plan.payload[MODEL]).bits["conv2.weight"].sum()


# The server.


def test_the_mask_that_moved_is_used_at_the_next_participation_with_warm_values() -> None:
    """t_mask_used_next_round_only, t_warm_start_value: what grew comes from the dense model, and what was pruned is
    still there, with what the client sent of it.
    """
    run = Run(replace(DST, per_round=CLIENTS), plain())
    initial = run.model
    played = run.play()
    again = run.plans()
    for (plan, reply), following in zip(played, again, strict=True):
        old, new = mask_of(plan.payload[MODEL]), mask_of(following.payload[MODEL])
        assert mask_of(reply.payload[MODEL]) == old and new == reply.masks[MASK] != old
        for name, value in dense(following.payload[MODEL]).items():
            assert value.tobytes() == np.where(inside(new, run.spec)[name], run.model[name], 0).tobytes()
    name, (plan, reply) = "conv2.weight", played[0]
    grew = reply.masks[MASK].bits[name] & ~mask_of(plan.payload[MODEL]).bits[name]
    assert grew.any() and dense(again[0].payload[MODEL])[name][grew].all()
    pruned = ~reply.masks[MASK].bits[name] & mask_of(plan.payload[MODEL]).bits[name]
    moved = np.mean([dense(reply.payload[MODEL])[name][pruned] for _, reply in played], axis=0)
    np.testing.assert_allclose(run.model[name][pruned], initial[name][pruned] - moved, rtol=1e-5, atol=1e-7)
    assert (run.model[name][pruned] != initial[name][pruned]).any()


def test_a_coordinate_of_one_client_of_two_moves_by_half_and_of_none_keeps_its_bits() -> None:
    """t_fedspa_divide_by_S, by hand."""
    run = Run(replace(DST, per_round=2, search="rsm", masks="different"), plain())
    plans = run.plans()
    one = [{n: replace(b, values=np.ones_like(b.values)) for n, b in p.payload[MODEL].blocks.items()} for p in plans]
    replies = [Reply(1, plan.client, {MODEL: Update(each)}, b"", 3, 1) for plan, each in zip(plans, one, strict=True)]
    before = run.model
    run.close(plans, replies)
    number = sum(
        inside(mask_of(plan.payload[MODEL]), run.spec)[n].astype(int) for plan in plans for n in ["conv2.weight"]
    )
    assert set(number.ravel().tolist()) == {0, 1, 2}
    expected = {
        0: before,
        1: {n: w - np.float32(0.5) for n, w in before.items()},
        2: {n: w - 1 for n, w in before.items()},
    }
    for share, model in expected.items():
        here = number == share
        assert run.model["conv2.weight"][here].tobytes() == model["conv2.weight"][here].tobytes()
    assert run.model["fc.bias"].tobytes() == (before["fc.bias"] - 1).tobytes()


def test_the_model_moves_where_somebody_has_a_mask_and_nowhere_else() -> None:
    run = Run(replace(DST, masks="different", density=0.1), plain())
    for _ in range(3):
        before, played = run.model, run.play()
        for name, after in run.model.items():
            anybody = np.any([inside(mask_of(plan.payload[MODEL]), run.spec)[name] for plan, _ in played], axis=0)
            assert after[~anybody].tobytes() == before[name][~anybody].tobytes()
            assert not np.array_equal(after[anybody], before[name][anybody])


def test_a_round_without_replies_changes_nothing() -> None:
    run = Run(DST, plain())
    run.play()
    before = run.state
    run.plans()
    run.close([], [])
    assert {n: {k: v.tobytes() for k, v in a.items()} for n, a in run.state.arrays.items()} == {
        n: {k: v.tobytes() for k, v in a.items()} for n, a in before.arrays.items()
    }


@pytest.mark.parametrize("search", ["dst", "rsm"])
def test_a_density_of_one_is_fedavg_on_updates(search: str) -> None:
    """t_fedspa_dense_equals_fedavg_updates: no mask is there or asked for, and w moves by the mean of U."""
    run = Run(replace(DST, density=1.0, search=search), plain())
    other = Run(FedAvg(**OPTIONS, lr_decay=0.998, weight_decay=5e-4, weight="uniform"), plain())
    for _ in range(3):
        before = copied(run.model)
        other.state = State({MODEL: before})
        played = run.play()
        other.play()
        for plan, _ in played:
            assert plan.due.keys() == {MODEL} and run.mask(plan.client) == Mask({})
        for name, value in run.model.items():
            mean = sum(dense(reply.payload[MODEL])[name].astype(float) for _, reply in played) / len(played)
            assert value.tobytes() == (before[name] - mean).astype(np.float32).tobytes()
            np.testing.assert_allclose(value, other.model[name], rtol=1e-5, atol=1e-6)
    assert run.state.arrays.keys() - {MODEL} == set()


# Masks that stay.


def test_random_masks_that_stay_are_sent_by_nobody_and_everybody_s_model_is_the_same() -> None:
    """t_rsm_constant: hash, the server's weights off the mask, and the clients' models."""
    run = Run(RSM, plain())
    initial, first = copied(run.model), run.mask(0)
    for _ in range(ROUNDS):
        for plan, reply in run.play():
            assert plan.due.keys() == {MODEL} and not reply.masks and plan.settings == {}
        for client, client_state in enumerate(run.clients):
            assert run.mask(client).hash() == first.hash() == run.method.held(client_state)[0].hash()
    for name, bits in inside(first, run.spec).items():
        assert run.model[name][~bits].tobytes() == initial[name][~bits].tobytes()
    predicted = []
    for client_state in run.clients:
        RSM.evaluate(client_state, run.model)
        predicted.append({n: np.where(bits, run.model[n], 0).tobytes() for n, bits in inside(first, run.spec).items()})
        assert {n: value.tobytes() for n, value in client_state.learner.read().items()} == predicted[0]


def test_a_prune_rate_of_zero_is_masks_that_stay_bit_for_bit() -> None:
    still, stays = Run(replace(DST, prune_rate=0.0), plain()), Run(RSM, plain())
    for _ in range(3):
        still.play()
        stays.play()
        assert same_bits(still.model, stays.model)
    assert still.state.arrays.keys() == stays.state.arrays.keys()
    dynamic = Run(DST, plain())
    for _ in range(3):
        dynamic.play()
    assert not same_bits(dynamic.model, stays.model)


# Evaluation, and what goes wrong.


def test_a_client_is_tested_with_its_mask_on_the_model_as_it_is_now() -> None:
    """It does not matter whether the client has trained. Metrics have it under "personal", beside the dense model."""
    run = Run(DST, plain())
    run.play()
    for client, client_state in enumerate(run.clients):
        found = DST.evaluate(client_state, run.model)
        twin = device(plain(), client)
        here = inside(run.mask(client), run.spec)
        twin.learner.write({name: np.where(here[name], value, 0) for name, value in run.model.items()})
        expected = twin.learner.evaluate(twin.data, twin.test)
        assert (found.correct, found.examples) == (expected.correct, expected.examples)
        assert found.loss_sum == pytest.approx(expected.loss_sum, rel=1e-5)
        twin.learner.write(run.model)
        assert found.loss_sum != twin.learner.evaluate(twin.data, twin.test).loss_sum
    assert DST.scored([MODEL]) == "personal" and DST.shared({MODEL: run.model}) is run.model


def test_a_client_whose_reply_came_too_late_goes_on_with_the_mask_that_the_server_knows() -> None:
    """Its values are still sent without ids, and it does what a client does that was never asked."""
    run, undisturbed = Run(DST, plain()), Run(DST, plain())
    plans = run.plans()
    late = plans[0].client
    replies = [run.answer(plan) for plan in plans]
    run.close(plans[1:], replies[1:])
    undisturbed.plans()
    undisturbed.close(plans[1:], replies[1:])
    for plan in plans[1:]:
        undisturbed.answer(plan)
    assert run.method.held(run.clients[late]) == [replies[0].masks[MASK], mask_of(plans[0].payload[MODEL])]
    for _ in range(3):
        for (plan, reply), (other, theirs) in zip(run.play(), undisturbed.play(), strict=True):
            assert plan.held is not None and mask_of(plan.payload[MODEL]) == mask_of(other.payload[MODEL])
            assert reply.payload == theirs.payload and reply.masks == theirs.masks


def test_a_client_that_lost_its_mask_is_sent_it() -> None:
    run = Run(DST, plain())
    run.play()
    (plan, *_) = [each for each in run.plans() if run.mask(each.client) != DST.first_mask(run.spec, 1, 0)]
    client_state = device(plain(), plan.client)
    lost = replace(run.task, lost={plan.client})
    again = DST.replan(lost, run.state, plan)
    assert again == plan and again.held is None
    message = train_message(again, run.spec, "float32")
    assert plan_of(message, plan.client, run.spec, DST.held(client_state)) == plan


def test_a_mask_of_another_size_is_refused_by_name() -> None:
    """A client cannot make its model denser, or move a layer that is whole."""
    run = Run(DST, plain())
    plan = run.plans()[0]
    client_state = run.clients[plan.client]
    reply = DST.train(client_state, plan)
    bits = {name: each.copy() for name, each in reply.masks[MASK].bits.items()}
    name = next(iter(bits))
    bits[name].reshape(-1)[np.flatnonzero(~bits[name])[0]] = True
    message = trained_message(replace(reply, masks={MASK: Mask.of(run.spec, bits)}), plan, run.spec, "float32", 1.0)
    ones = int(bits[name].sum())
    refusal = read_answer(message, plan, run.spec).refusal
    assert (
        refusal
        == f"reply of client {plan.client} has a mask mask with {ones} coordinates of {name}; expected {ones - 1}"
    )


def test_bytes_are_those_of_the_paper_s_formula() -> None:
    """t_fedspa_bytes_table on small models: values of the mask and of all one-dimensional parameters, both ways."""
    for make in GRAPHS.values():
        run = Run(DST, make())
        for plan in run.plans():
            reply = run.answer(plan)
            assert plan.payload[MODEL].count == reply.payload[MODEL].count == mask_values(run.spec, 0.4, "erk")


def test_the_schedule_needs_its_length_and_settings_their_range() -> None:
    task = Task(ModelSpec.of(plain()), CLIENTS, seed=1)
    with pytest.raises(ValueError, match="rounds=0; expected rounds >= 1: prune_rate falls over the rounds"):
        DST.start(task, plain().init(rng.stream(1, rng.INIT)))
    RSM.start(task, plain().init(rng.stream(1, rng.INIT)))
    for name, value in (
        ("density", 0.0),
        ("density", 1.5),
        ("prune_rate", -0.1),
        ("prune_rate", 1.1),
        ("growth", "none"),
        ("clip", -1),
    ):
        with pytest.raises(ValueError, match=f"{name}={value}; expected"):
            replace(DST, **{name: value})
    assert methods.build("fedspa", {}) == FedSpa() == FedSpa(per_round=10, epochs=5, batch=128, prune_rate=0.5)
    assert methods.build("fedspa", {"alpha": 0.25}) == FedSpa(prune_rate=0.25)
    assert methods.build("fedspa-rsm", {"density": 0.2}) == FedSpa(search="rsm", density=0.2)
    assert (
        FedSpa().rate(1) == 0.1 and FedSpa().rate(3) == pytest.approx(0.1 * 0.998**2) and FedSpa().weight_decay == 5e-4
    )
    assert FedSpa(batch=50).effort(120) == (15, 650) and FedSpa(batch=50).steps(120) == 15


def test_a_learner_hears_of_the_batches_that_it_is_restricted_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The storage of masked weights follows from the batches. A learner evaluates in the layout in which it trains."""
    run = Run(DST, plain())
    client_state = run.clients[run.plans()[0].client]
    told: list[int] = []
    restrict = client_state.learner.restrict

    def listening(mask: Mask | None, batch: int = 0) -> None:
        told.append(batch)
        restrict(mask, batch)

    monkeypatch.setattr(client_state.learner, "restrict", listening)
    DST.train(client_state, run.plans()[0])
    DST.evaluate(client_state, run.model)
    assert told == [DST.batch, 0, DST.batch, 0]
