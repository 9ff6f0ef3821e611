"""FedProx: FedAvg whose clients are drawn to the model that they received (ALGORITHMS 7.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.methods import FedAvg, FedProx, build
from edgefl.methods.client_state import minibatches
from edgefl.methods.plan import Plan
from edgefl.methods.task import MODEL
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from tests.methods.masked_rounds import Run
from tests.methods.quadratics import clients, play, start, weight
from tests.methods.small_models import copied, device, plain, same_bits

OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 2, "batch": 5, "lr": 0.1, "lr_decay": 0.9}


def test_two_clients_follow_the_trace_by_hand() -> None:
    """Centres 4 and -12, eta = 1/4, mu = 2, two steps each: x <- x - ((x - c) + 2 (x - w)) / 4, then the mean."""
    method = FedProx(per_round=2, epochs=2, batch=8, lr=0.25, mu=2.0)
    client_states = clients([4.0, -12.0])
    state, w = start(method, client_states, 8.0), 8.0
    for round in (1, 2, 3):
        models = []
        for centre in (4.0, -12.0):
            first = w - (w - centre) / 4
            models.append(first - ((first - centre) + 2 * (first - w)) / 4)
        w = sum(models) / 2
        state = play(method, client_states, state, round)
        assert weight(state) == w
    assert w != 0.0


def test_without_a_draw_it_is_fedavg_bit_for_bit() -> None:
    mine, theirs = Run(FedProx(**OPTIONS, mu=0.0, momentum=0.5), plain()), Run(FedAvg(**OPTIONS, momentum=0.5), plain())
    drawn = Run(FedProx(**OPTIONS, mu=0.5, momentum=0.5), plain())
    for run in (mine, theirs, drawn):
        for _ in range(3):
            run.play()
    assert same_bits(mine.model, theirs.model)
    assert not same_bits(drawn.model, theirs.model)


def test_a_client_trains_as_torch_does_with_the_term_in_the_loss() -> None:
    """SGD with momentum and weight decay over F(x) + mu / 2 |x - w|^2, its gradient by torch."""
    torch = pytest.importorskip("torch", reason="the oracle is torch")
    method = FedProx(per_round=1, epochs=2, batch=5, lr=0.05, mu=0.7, momentum=0.9, weight_decay=0.01)
    client_state, w = device(plain(), 0), plain().init(rng.stream(1, rng.INIT))
    spec = ModelSpec.of(plain())
    reply = method.train(client_state, Plan("train", 1, 0, payload={MODEL: take(w, spec, None)}))
    other = device(plain(), 0)
    other.learner.write(w)
    learned = [name for name, param in spec.params.items() if param.kind == "learn"]
    x = {name: torch.tensor(w[name], dtype=torch.float64, requires_grad=True) for name in learned}
    steps = torch.optim.SGD(list(x.values()), lr=0.05, momentum=0.9, weight_decay=0.01)
    for index in minibatches(other, 1, 2, 5):
        data_gradient = other.learner.gradient(other.data, index)
        steps.zero_grad()
        (0.7 / 2 * sum(((x[name] - torch.tensor(w[name])) ** 2).sum() for name in learned)).backward()
        for name in learned:
            x[name].grad += torch.tensor(np.asarray(data_gradient[name]).reshape(w[name].shape))
        steps.step()
        other.learner.write({name: x[name].detach().numpy() for name in learned})
    assert reply.steps == method.steps(12) == 6
    trained = copied(client_state.learner.read())
    for name in learned:
        np.testing.assert_allclose(trained[name], x[name].detach().numpy(), rtol=0, atol=2e-6)
        assert np.abs(trained[name] - w[name]).max() > 1e-3


def test_the_more_it_draws_the_nearer_a_client_stays() -> None:
    w, spec = plain().init(rng.stream(1, rng.INIT)), ModelSpec.of(plain())
    moved = []
    for mu in (0.0, 1.0, 10.0):
        client_state = device(plain(), 0)
        FedProx(**OPTIONS, mu=mu).train(client_state, Plan("train", 1, 0, payload={MODEL: take(w, spec, None)}))
        trained = client_state.learner.read()
        moved.append(sum(float(((trained[name] - w[name]) ** 2).sum()) for name in w))
    assert moved[0] > moved[1] > moved[2] > 0


def test_settings_out_of_range_are_refused() -> None:
    assert build("fedprox", {"mu": 0.25, "lam": 3.0}) == FedProx(mu=0.25)
    for value in (-0.5, float("inf")):
        with pytest.raises(ValueError, match=f"mu={value}; expected"):
            FedProx(mu=value)
