"""A loss that a program has as an object of torch, as the text that settings have. torch is not imported to read the
object. learning/losses.py lists the losses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgefl.learning.losses import L1, LOSSES, MSE, BinaryCrossEntropy, CrossEntropy, Huber, Loss

NOT_TAKEN: Mapping[
    str, Mapping[str, Any]
] = {  # options of torch's losses that edgefl does not have, and their defaults
    "CrossEntropyLoss": {"reduction": "mean"},
    "BCEWithLogitsLoss": {"reduction": "mean", "weight": None},
    "MSELoss": {"reduction": "mean"},
    "HuberLoss": {"reduction": "mean"},
    "L1Loss": {"reduction": "mean"},
}
MADE: Mapping[str, Callable[[Any], Loss]] = {
    "CrossEntropyLoss": lambda loss: CrossEntropy(
        _numbers(loss.weight), float(loss.label_smoothing), int(loss.ignore_index)
    ),
    "BCEWithLogitsLoss": lambda loss: BinaryCrossEntropy(_numbers(loss.pos_weight)),
    "MSELoss": lambda loss: MSE(),
    "HuberLoss": lambda loss: Huber(float(loss.delta)),
    "L1Loss": lambda loss: L1(),
}
INSTEAD = {  # other losses of torch -> what to give in their place
    "NLLLoss": "loss='cross-entropy', which is NLLLoss of a log_softmax",
    "BCELoss": "loss='bce', which is BCELoss of a sigmoid",
    "SmoothL1Loss": "loss='huber:delta=...'",
}
FUNCTIONS = {  # functions of torch.nn.functional, which many users give in place of the module
    "cross_entropy": "cross-entropy",
    "binary_cross_entropy_with_logits": "bce",
    "mse_loss": "mse",
    "huber_loss": "huber",
    "l1_loss": "l1",
}


def is_torch_loss(value: Any) -> bool:
    """Return whether a value is a loss of torch, or the class of such a loss."""
    kind = value if isinstance(value, type) else type(value)
    return kind.__module__ == "torch.nn.modules.loss"


def loss_text(value: Any) -> str:
    """Return the text of a loss of torch, a module or a function. Raises ValueError for a loss or an option that edgefl
    does not have, and for a loss of the program's own.
    """
    if not is_torch_loss(value):
        return _text_of_function(value)
    loss = value() if isinstance(value, type) else value
    name = type(loss).__name__
    if name not in MADE:
        known = INSTEAD.get(name, f"one of {', '.join(f'nn.{each}()' for each in MADE)}, or of {', '.join(LOSSES)}")
        raise ValueError(f"loss is nn.{name}; expected {known}")
    for option, default in NOT_TAKEN[name].items():
        if (found := getattr(loss, option)) is not default and found != default:
            raise ValueError(f"loss is nn.{name} with {option}={found}; expected {option}={default}")
    return str(MADE[name](loss))


def _text_of_function(value: Any) -> str:
    name = getattr(value, "__name__", type(value).__name__)
    if getattr(value, "__module__", "") == "torch.nn.functional" and name in FUNCTIONS:
        return FUNCTIONS[name]
    known = f"{', '.join(LOSSES)}, or of {', '.join(f'nn.{each}()' for each in MADE)}"
    raise ValueError(
        f"loss is {name}, a function of your program; expected one of {known}: devices and kernels have no other loss"
    )


def _numbers(weights: Any) -> tuple[float, ...] | None:
    return None if weights is None else tuple(float(each) for each in weights.detach().cpu().reshape(-1))
