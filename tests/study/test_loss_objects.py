"""Losses of torch as settings: the text that each is, or the option that edgefl has no word for."""

from __future__ import annotations

from typing import Any

import pytest

from edgefl.learning.losses import Loss
from edgefl.study.loss_objects import is_torch_loss, loss_text
from edgefl.study.run_request import asked

torch = pytest.importorskip("torch", reason="the losses are torch's")
nn = torch.nn

TEXTS = {
    nn.CrossEntropyLoss: "cross-entropy",
    nn.CrossEntropyLoss(): "cross-entropy",
    nn.CrossEntropyLoss(label_smoothing=0.125): "cross-entropy:label_smoothing=0.125",
    nn.CrossEntropyLoss(torch.tensor([1.0, 0.5])): "cross-entropy:weight=1.0,0.5",
    nn.BCEWithLogitsLoss(): "bce",
    nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0])): "bce:pos_weight=2.0",
    nn.MSELoss(): "mse",
    nn.HuberLoss(): "huber",
    nn.HuberLoss(delta=0.5): "huber:delta=0.5",
    nn.L1Loss(): "l1",
    nn.CrossEntropyLoss(ignore_index=0): "cross-entropy:ignore_index=0",
}


@pytest.mark.parametrize(("loss", "text"), TEXTS.items(), ids=TEXTS.values())
def test_a_loss_of_torch_is_the_loss_of_that_text(loss: Any, text: str) -> None:
    assert is_torch_loss(loss) and loss_text(loss) == text == str(Loss.parse(text))


FUNCTIONS = {"cross_entropy": "cross-entropy", "mse_loss": "mse", "huber_loss": "huber", "l1_loss": "l1"}
FUNCTIONS["binary_cross_entropy_with_logits"] = "bce"


@pytest.mark.parametrize(("name", "text"), FUNCTIONS.items())
def test_a_function_of_torch_is_the_loss_of_that_text(name: str, text: str) -> None:
    loss = getattr(nn.functional, name)
    assert loss_text(loss) == text
    assert asked(settings={"loss": loss}).experiment.loss == text


def own_loss(outputs: Any, targets: Any) -> Any:
    return (outputs - targets).abs().mean()


REFUSED = [
    (
        nn.functional.smooth_l1_loss,
        "loss is smooth_l1_loss, a function of your program; expected one of cross-entropy, bce, mse, huber",
    ),
    (
        own_loss,
        "loss is own_loss, a function of your program; expected one of cross-entropy, bce, mse, huber, l1, or of nn.",
    ),
    (nn.CrossEntropyLoss(reduction="sum"), "loss is nn.CrossEntropyLoss with reduction=sum; expected reduction=mean"),
    (
        nn.BCEWithLogitsLoss(torch.tensor([2.0])),
        "loss is nn.BCEWithLogitsLoss with weight=tensor([2.]); expected weight=N",
    ),
    (nn.MSELoss(reduction="none"), "loss is nn.MSELoss with reduction=none; expected reduction=mean"),
    (nn.NLLLoss(), "loss is nn.NLLLoss; expected loss='cross-entropy', which is NLLLoss of a log_softmax"),
    (nn.BCELoss(), "loss is nn.BCELoss; expected loss='bce', which is BCELoss of a sigmoid"),
    (nn.SmoothL1Loss(), "loss is nn.SmoothL1Loss; expected loss='huber:delta=...'"),
    (
        nn.PoissonNLLLoss(),
        "loss is nn.PoissonNLLLoss; expected one of nn.CrossEntropyLoss(), nn.BCEWithLogitsLoss(), nn.MSELoss(), nn.",
    ),
]


@pytest.mark.parametrize(("loss", "message"), REFUSED, ids=[type(loss).__name__ for loss, _ in REFUSED])
def test_what_edgefl_has_no_word_for_is_named(loss: Any, message: str) -> None:
    with pytest.raises(ValueError, match="expected") as error:
        loss_text(loss)
    assert message in str(error.value)


def test_settings_have_the_text() -> None:
    assert asked(settings={"loss": nn.CrossEntropyLoss()}).experiment.loss == "cross-entropy"
    with pytest.raises(ValueError, match=r"loss is nn\.NLLLoss"):
        asked(settings={"loss": nn.NLLLoss()})
    assert not any(map(is_torch_loss, ("mse", nn.Linear(1, 1), None)))
