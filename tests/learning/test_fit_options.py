"""FitOptions: the options of a fit as one value, and the former way to pass them one by one."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, fields
from typing import Any

import numpy as np
import pytest

from edgefl.learning import SGD, FitOptions, GraphLearner, Learner
from edgefl.learning.fit_options import options_of
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.fedprox import FedProx
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.task import MODEL
from edgefl.models.graph import Model
from edgefl.torch import TorchLearner
from tests.methods.small_models import device, plain, same_bits
from tests.methods.small_rounds import Rounds

from .graphs import GRAPHS, model, samples

GRAPH = GRAPHS["plain"]
LAYERS = frozenset({"conv2"})
CENTRE = {name: np.full_like(value, 0.1) for name, value in model(GRAPH).params.items()}
BATCHES = [np.arange(4, dtype=np.int32)] * 2
PULL = (0.5, CENTRE)
MAKERS: dict[str, Callable[[Model], Learner]] = {"graph": GraphLearner, "torch": TorchLearner}
FORMER: dict[str, tuple[tuple[Any, ...], dict[str, Any], FitOptions]] = {
    "by position": ((LAYERS, PULL), {}, FitOptions(LAYERS, pull=PULL)),
    "everything, by position": ((None,), {}, FitOptions()),
    "all by position": (
        (LAYERS, PULL, CENTRE, "exact", "freeze", ""),
        {},
        FitOptions(LAYERS, PULL, CENTRE, "exact", "freeze"),
    ),
    "by keyword": ((), {"trainable": LAYERS, "linear": CENTRE}, FitOptions(LAYERS, linear=CENTRE)),
    "by both": ((LAYERS,), {"pull": PULL, "bn_frozen": "freeze"}, FitOptions(LAYERS, pull=PULL, bn_frozen="freeze")),
    "after a cut": ((), {"cut": "pool"}, FitOptions(cut="pool")),
}
SETTINGS: dict[str, Any] = {"per_round": 2, "epochs": 1, "batch": 5, "lr": 0.1, "mu": 0.5}


def test_without_options_a_fit_trains_everything_and_adds_no_term() -> None:
    options = FitOptions()
    assert options == FitOptions(None, None, None, "exact", "track", "")
    assert options_of(options) is options
    with pytest.raises(FrozenInstanceError):
        options.cut = "conv2"  # type: ignore[misc]


def test_the_fields_stand_in_the_order_in_which_fit_took_them() -> None:
    assert [field.name for field in fields(FitOptions)] == ["trainable", "pull", "linear", "delta", "bn_frozen", "cut"]


@pytest.mark.parametrize("learner", [Learner, GraphLearner, TorchLearner])
def test_the_contract_takes_one_value(learner: type) -> None:
    parameters = inspect.signature(learner.fit).parameters  # type: ignore[attr-defined]
    assert [*parameters][:5] == ["self", "samples", "batches", "optimizer", "options"]
    assert parameters["options"].default == FitOptions()


@pytest.mark.parametrize("way", FORMER)
def test_options_one_by_one_are_the_value_and_a_warning(way: str) -> None:
    positional, named, expected = FORMER[way]
    first, *rest = positional or (FitOptions(),)
    with pytest.warns(DeprecationWarning, match=r"fit takes FitOptions\(.+=\.\.\.\) now, in place of "):
        assert options_of(first, tuple(rest), named) == expected


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("way", [way for way in FORMER if way != "after a cut"])
def test_a_learner_that_is_called_the_former_way_takes_the_same_steps(way: str, kind: str) -> None:
    positional, named, options = FORMER[way]
    before, now = MAKERS[kind](model(GRAPH)), MAKERS[kind](model(GRAPH))
    with pytest.warns(DeprecationWarning, match="FitOptions") as caught:
        former = before.fit(samples(GRAPH, 4), BATCHES, SGD(0.1), *positional, **named)
    assert [each.filename for each in caught] == [__file__]  # who called, and not edgefl
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert now.fit(samples(GRAPH, 4), BATCHES, SGD(0.1), options) == former
    for name, value in now.read().items():
        np.testing.assert_array_equal(before.read()[name], value, err_msg=name)


def test_a_keyword_replaces_a_field_of_options_that_are_there() -> None:
    with pytest.warns(DeprecationWarning, match=r"FitOptions\(pull=\.\.\.\)"):
        found = options_of(FitOptions(LAYERS), named={"pull": PULL})
    assert found == FitOptions(LAYERS, pull=PULL)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ((FitOptions(), (LAYERS,), {}), "FitOptions and 1 more positional arguments; expected FitOptions only"),
        ((LAYERS, (PULL, CENTRE, "exact", "track", "", 1), {}), "7 options by position; expected at most 6"),
        ((LAYERS, (), {"trainable": None}), "multiple values for keyword argument 'trainable'"),
        ((FitOptions(), (), {"momentum": 0.9}), "unexpected keyword argument 'momentum'"),
    ],
)
def test_what_fit_never_took_is_refused(given: tuple[Any, ...], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        options_of(*given)


@dataclass(frozen=True)
class ProxOfBefore(FedProx):
    """A user's method that passes the pull as `fit` took it formerly."""

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        learner, pull = client_state.learner, self.pull(plan.payload[MODEL])
        learner.write(plan.payload[MODEL])
        batches, optimizer = self.batches(client_state, plan.round), self.local_optimizer(plan.round)
        fit = learner.fit(client_state.data, batches, optimizer, pull=pull)  # type: ignore[call-arg]
        return Reply(plan.round, plan.client, {MODEL: learner.take()}, steps=fit.steps)


def test_a_users_method_of_before_trains_as_the_method_of_now() -> None:
    before, now = device(plain()), device(plain())
    (plan, *_) = Rounds(FedProx(**SETTINGS)).plans(1)
    with pytest.warns(DeprecationWarning, match=r"FitOptions\(pull=\.\.\.\)"):
        ProxOfBefore(**SETTINGS).train(before, plan)
    FedProx(**SETTINGS).train(now, plan)
    assert same_bits(dict(before.learner.read()), dict(now.learner.read()))


def test_a_users_method_may_refit_with_the_former_keywords() -> None:
    method, found = FedProx(**SETTINGS), [device(plain()), device(plain())]
    centre = {name: np.full_like(value, 0.1) for name, value in found[0].learner.read().items()}
    mine = [OwnModel(each.learner, each.data) for each in found]
    with pytest.warns(DeprecationWarning, match="FitOptions") as caught:
        method.refit(mine[0], found[0], 1, 5, pull=(0.5, centre))
    assert [each.filename for each in caught] == [__file__]
    method.refit(mine[1], found[1], 1, 5, options=FitOptions(pull=(0.5, centre)))
    assert same_bits(dict(found[0].learner.read()), dict(found[1].learner.read()))
