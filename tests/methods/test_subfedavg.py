"""Sub-FedAvg: masks that only lose coordinates, and means over the clients that still have them (ALGORITHMS 7.12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl.errors import TrainingError
from edgefl.experiment.assembly import check_held_out
from edgefl.experiment.data.split import Split
from edgefl.experiment.federation import Federation
from edgefl.methods import FedAvg, SubFedAvg, build
from edgefl.methods.mask_store import MASK
from edgefl.methods.plan import Reply
from edgefl.methods.task import MODEL
from edgefl.models.neurons.density import weights
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.update import Update, mask_of
from tests.methods.masked_rounds import CLIENTS, Run, dense, inside
from tests.methods.small_models import copied, device, plain, same_bits

OPTIONS: dict[str, Any] = {"per_round": 3, "epochs": 2, "batch": 5, "lr": 0.1}
METHOD = SubFedAvg(**OPTIONS, prune_rate=0.2, density=0.3, distance=0.0, accuracy=0.0, accept_on="test")


def ones(run: Run, client: int) -> dict[str, int]:
    here = inside(run.mask(client), run.spec)
    return {name: int(here[name].sum()) for name in weights(run.spec)}


def always(run: Run) -> None:
    """Lets every pruned model be accurate enough."""
    for client_state in run.clients:
        evaluate = client_state.learner.evaluate
        client_state.learner.evaluate = lambda *args, e=evaluate: replace(e(*args), correct=e(*args).examples)


def test_masks_lose_the_smallest_of_every_layer_until_they_are_done_and_gain_nothing() -> None:
    """t_subfedavg_monotone: after n prunings (1 - r)^n of the first ones are left, up to rounding, and not below the
    target.
    """
    run = Run(METHOD, plain(), rounds=12)
    always(run)
    sizes, pruned = ones(run, 0), dict.fromkeys(range(CLIENTS), 0)
    for _ in range(12):
        before = [run.mask(client) for client in range(CLIENTS)]
        for plan, reply in run.play():
            here = inside(before[plan.client], run.spec)
            assert mask_of(plan.payload[MODEL]) == before[plan.client]
            after = inside(run.mask(plan.client), run.spec)
            assert not any((after[name] & ~here[name]).any() for name in after)
            if MASK not in plan.due:
                assert run.mask(plan.client) == before[plan.client] and not reply.masks
                continue
            assert run.mask(plan.client) == reply.masks[MASK] == run.method.held(run.clients[plan.client])[0]
            pruned[plan.client] += run.mask(plan.client) != before[plan.client]
            share = sum(ones(run, plan.client).values()) / sum(sizes.values())
            assert reply.metrics["density"] == share
            if share > 0.3 + 0.2 * 0.3:
                for name, count in ones(run, plan.client).items():
                    assert abs(count - sizes[name] * 0.8 ** pruned[plan.client]) <= pruned[plan.client]
    assert min(pruned.values()) >= 5  # all are done
    total = sum(sizes.values())
    for client in range(CLIENTS):
        assert 0.3 - len(sizes) / total <= sum(ones(run, client).values()) / total <= 0.3
    assert MASK not in run.plans()[0].due


def test_the_smallest_weights_after_the_last_epoch_leave() -> None:
    run = Run(METHOD, plain())
    always(run)
    for plan, reply in run.play():
        trained = copied(run.clients[plan.client].learner.read())
        for name, after in reply.masks[MASK].bits.items():
            assert not trained[name][~after].any()
            sent = np.abs(dense(reply.payload[MODEL])[name])
            assert not sent[~after].any() and sent[after].min() > 0


def test_a_mask_stays_where_its_candidates_agree_or_the_pruned_model_is_too_bad() -> None:
    """Then the client sends what it trained, the coordinates that it would have lost included."""
    always_far, never_good = replace(METHOD, distance=1.0), replace(METHOD, accuracy=1.0)
    for method in (always_far, never_good):
        run, plainly = Run(method, plain()), Run(replace(METHOD, prune_rate=0.0), plain())
        for (plan, reply), (_, expected) in zip(run.play(), plainly.play(), strict=True):
            assert reply.masks == {MASK: Mask({})} and run.mask(plan.client) == Mask({})
            assert reply.payload == expected.payload


def test_masks_that_stay_whole_are_uniform_fedavg_bit_for_bit() -> None:
    for method in (replace(METHOD, prune_rate=0.0), replace(METHOD, density=1.0)):
        mine, theirs = Run(method, plain()), Run(FedAvg(**OPTIONS, weight="uniform"), plain())
        for _ in range(3):
            assert [plan.due.keys() for plan, _ in mine.play()] == [{MODEL}] * 3
            theirs.play()
            assert same_bits(mine.model, theirs.model)


def test_a_coordinate_is_the_mean_over_those_that_have_it_and_keeps_its_bits_where_nobody_does() -> None:
    """Biases are a plain mean. Where all clients agree, the mean is their common value."""
    run = Run(METHOD, plain())
    plans, name = run.plans(), "conv2.weight"
    before, shape = copied(run.model), run.model["conv2.weight"].shape
    flat = np.arange(np.prod(shape)).reshape(shape)
    bits = [flat % 4 == 1, flat % 4 >= 1, flat % 4 >= 2]
    replies = []
    for number, (plan, each) in enumerate(zip(plans, bits, strict=True)):
        blocks = plan.payload[MODEL].blocks
        values = {n: replace(b, values=np.full_like(b.values, 1 + number)) for n, b in blocks.items()}
        replies.append(
            Reply(1, plan.client, {MODEL: Update(values)}, b"", 3, 1, masks={MASK: Mask.of(run.spec, {name: each})})
        )
    run.close(plans, replies)
    expected = np.array([before[name].reshape(-1)[0], 1.5, 2.5, 2.5])
    assert np.array_equal(run.model[name].reshape(-1)[1:4], expected[1:])
    assert run.model[name][flat % 4 == 0].tobytes() == before[name][flat % 4 == 0].tobytes()
    assert (run.model["fc.bias"] == 2).all()
    assert [run.mask(plan.client).bits[name].tolist() for plan in plans] == [each.tolist() for each in bits]
    again = run.plans()
    returning = [plan for plan in again if plan.client == plans[0].client]
    for plan in returning:  # a mask that claims more than its client still had
        values = {n: replace(b, values=np.ones_like(b.values)) for n, b in plan.payload[MODEL].blocks.items()}
        run.close([plan], [Reply(2, plan.client, {MODEL: Update(values)}, b"", 3, 1, masks={MASK: Mask({})})])
        assert run.mask(plan.client).bits[name].tolist() == bits[0].tolist()
    assert returning


def test_validation_samples_decide_unless_test_samples_are_asked_for() -> None:
    assert (
        SubFedAvg().needs_validation and not METHOD.needs_validation and not SubFedAvg(prune_rate=0.0).needs_validation
    )
    client_state = device(plain())
    splits = (Split(client_state.train, client_state.validation[:0], client_state.test),)
    federation = Federation(plain(), client_state.data, splits, seed=1)
    with pytest.raises(ValueError, match=r"subfedavg: client 0 has 0 validation samples .* accept_on=test"):
        check_held_out({"subfedavg": SubFedAvg()}, federation)
    client_state.validation = client_state.validation[:0]
    with pytest.raises(TrainingError, match="client 0 has 0 validation samples; pruning needs at least 1"):
        SubFedAvg()._judges(client_state)
    assert METHOD._judges(client_state) is client_state.test


def test_a_client_is_tested_with_its_mask_on_the_model_of_all() -> None:
    run = Run(METHOD, plain())
    always(run)
    run.play()
    client = next(k for k in range(CLIENTS) if run.mask(k).bits)
    twin, here = device(plain(), client), inside(run.mask(client), run.spec)
    twin.learner.write({name: np.where(here[name], value, 0) for name, value in run.model.items()})
    found, expected = METHOD.evaluate(device_of(run, client), run.model), twin.learner.evaluate(twin.data, twin.test)
    assert found.loss_sum == pytest.approx(expected.loss_sum, rel=1e-5)
    assert METHOD.scored([MODEL]) == "personal"


def device_of(run: Run, client: int) -> Any:
    """The client with what it keeps, on a learner of its own."""
    return replace(device(plain(), client), arrays=run.clients[client].arrays)


def test_settings_out_of_range_are_refused() -> None:
    assert build("subfedavg", {}) == SubFedAvg() == SubFedAvg(prune_rate=0.05, distance=1e-4, accuracy=0.5, density=0.5)
    for name, value in (("epochs", 1), ("density", 0.0), ("prune_rate", 1.0), ("distance", 2.0), ("accuracy", -1.0)):
        with pytest.raises(ValueError, match=f"{name}={value}; expected"):
            SubFedAvg(**{name: value})
