"""A plan and a reply that are passed on without messages are those that messages carry, and a difference is noticed.

tests/study/simulation/test_simulate_torch.py compares both for every client of every method.
"""

from __future__ import annotations

import gc
from dataclasses import replace
from weakref import ref

import numpy as np
import pytest

from edgefl.errors import CodecError
from edgefl.methods import FedAvg, FedSPU
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.early_stopping import train
from edgefl.methods.plan import Plan
from edgefl.methods.rounds import direct_exchange
from edgefl.methods.rounds.carrier import CheckedCarrier, DirectCarrier, MessageCarrier, carrier_of
from edgefl.methods.rounds.direct_exchange import UpdateFacts, is_direct
from edgefl.methods.rounds.exchange import NOT_DECLARED
from edgefl.methods.task import MODEL
from edgefl.models.neurons.block_index import Axes, AxisIds
from edgefl.models.neurons.update import Block, Update
from edgefl.protocol.codec.encoding import payload_sizes
from tests.methods.small_models import device
from tests.methods.small_rounds import Rounds

METHODS = [FedAvg(per_round=3, epochs=1, batch=5), FedSPU(per_round=3, epochs=1, batch=5, keep=(0.5, 1.0))]


class Elsewhere(FedAvg):
    pass


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_both_carriers_give_the_plan_the_answer_and_the_sizes(method: Algorithm) -> None:
    rounds = Rounds(method)
    for plan in rounds.plans(1):
        found = []
        for carrier in (
            MessageCarrier(plan, rounds.spec, "float32"),
            DirectCarrier(plan, rounds.spec, UpdateFacts(rounds.spec)),
        ):
            client_state = device(rounds.graph, plan.client, 20, seed=1)
            received = carrier.received(method.held(client_state))
            reply = train(method, client_state, received)
            found.append((received, carrier.down, carrier.answer(reply, received, 1.0, NOT_DECLARED)))
        assert found[0] == found[1]
        assert found[0][1].values > 0 and found[0][2].reply is not None


def test_a_difference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(METHODS[0])
    plan = rounds.plans(1)[0]
    monkeypatch.setattr(direct_exchange, "finite_settings", lambda settings: {"lr": 1.0})
    carrier = CheckedCarrier(plan, rounds.spec, UpdateFacts(rounds.spec))
    with pytest.raises(CodecError, match=f"for or of client {plan.client} differs"):
        carrier.received(())


def test_rounded_values_masks_and_methods_from_elsewhere_go_by_messages() -> None:
    rounds = Rounds(METHODS[0])
    plan, facts = rounds.plans(1)[0], UpdateFacts(rounds.spec)
    assert is_direct(METHODS[0], plan, "float32")
    assert isinstance(carrier_of(METHODS[0], plan, rounds.spec, "int8", facts, False), MessageCarrier)
    own = Elsewhere(per_round=3, epochs=1, batch=5)
    assert isinstance(carrier_of(own, plan, rounds.spec, "float32", facts, False), MessageCarrier)
    assert isinstance(carrier_of(METHODS[0], plan, rounds.spec, "float32", facts, True), CheckedCarrier)


def test_a_reply_that_a_server_would_refuse_is_refused() -> None:
    rounds = Rounds(METHODS[0])
    plan, spec = rounds.plans(1)[0], rounds.spec
    carrier = DirectCarrier(plan, spec, UpdateFacts(spec))
    received = carrier.received(())
    reply = train(METHODS[0], device(rounds.graph, plan.client, 20, seed=1), received)
    name, block = next(iter(reply.payload[MODEL].blocks.items()))
    wrong = Block(block.shape, None, np.full(block.shape, np.nan, np.float32))
    damaged = replace(reply, payload={MODEL: Update({**reply.payload[MODEL].blocks, name: wrong})})
    answer = carrier.answer(damaged, received, 1.0, NOT_DECLARED)
    assert answer.reply is None and f"non-finite value in {MODEL}/{name}" in str(answer.refusal)


def test_facts_are_those_of_the_update() -> None:
    rounds = Rounds(METHODS[0])
    update = rounds.plans(1)[0].payload[MODEL]
    facts = UpdateFacts(rounds.spec)
    assert facts.of(update) is facts.of(update)
    part = Update(dict(list(update.blocks.items())[:1]))
    assert facts.of(part).sizes.values < facts.of(update).sizes.values


def test_sizes_of_a_reply_are_those_of_its_payload() -> None:
    rounds = Rounds(METHODS[0])
    update, facts = rounds.plans(1)[0].payload[MODEL], UpdateFacts(rounds.spec)
    name, block = next((n, b) for n, b in update.blocks.items() if len(b.shape) > 1)
    row = Block(block.shape, Axes(AxisIds(np.array([0], np.int32), block.shape[0])), block.values[:1])
    parts = [update, Update({name: block}), Update({name: row}), update]
    for each in parts:
        assert facts.sizes(each, None) == payload_sizes(each, rounds.spec)
    wide = Update({**update.blocks, name: Block(block.shape, None, block.values.astype(np.float64))})
    with pytest.raises(CodecError, match="float64"):
        facts.sizes(wide, None)


def test_facts_keep_no_update() -> None:
    rounds = Rounds(METHODS[1])
    facts, updates = UpdateFacts(rounds.spec), [plan.payload[MODEL] for plan in rounds.plans(1)]
    for update in updates:
        facts.of(update)
    kept = [ref(update) for update in updates]
    del update, updates
    gc.collect()
    assert [each() for each in kept] == [None] * len(kept)


def test_a_plan_of_unknown_parameters_is_refused() -> None:
    rounds = Rounds(METHODS[0])
    plan = Plan("train", 1, 0, payload={MODEL: Update({"other": Block((1,), None, np.zeros(1, np.float32))})})
    with pytest.raises(CodecError, match="'other' is not a parameter"):
        DirectCarrier(plan, rounds.spec, UpdateFacts(rounds.spec))
