"""RNN, GRU and LSTM in each of their forms: a launch for all steps, with weights near and far, and a launch a step."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from edgefl.kernels import reference
from edgefl.kernels.cuda import recurrent
from edgefl.kernels.cuda.launch import KernelArray

from ..calls import as_float64, check_case, each, run
from ..cases import Args, Case, shape_label
from ..cases_recurrent import (
    from_steps,
    gru_backward,
    gru_forward,
    lstm_backward,
    lstm_forward,
    rnn_backward,
    rnn_forward,
    to_steps,
)
from . import standin

THROUGH = [(3, 17, 20), (3, 3, 85), (2, 3, 70), (3, 3, 128)]
STEPWISE = [(2, 17, 129), (3, 2, 268)]
"""Steps, examples, units: several blocks each; few and many threads, near and far terms; several turns of terms."""
SHARED = {"weight", "bias", "units"}  # by examples


def named(shape: tuple[int, int, int]) -> str:
    return shape_label(*shape)


@pytest.fixture
def cuda() -> ModuleType:
    return standin.backend()


@pytest.mark.parametrize("shape", [*THROUGH, *STEPWISE], ids=named)
def test_every_form_is_the_reference(cuda: ModuleType, shape: tuple[int, int, int]) -> None:
    cases = [
        Case("rnn_forward", "tanh", lambda rng: rnn_forward(rng, shape, True, False)),
        Case("rnn_forward", "relu", lambda rng: rnn_forward(rng, shape, False, True)),
        Case("gru_forward", "bias", lambda rng: gru_forward(rng, shape, True, True)),
        Case("gru_forward", "nothing kept", lambda rng: gru_forward(rng, shape, False, False)),
        Case("lstm_forward", "bias", lambda rng: lstm_forward(rng, shape, True)),
        Case("lstm_forward", "no bias", lambda rng: lstm_forward(rng, shape, False)),
    ]
    for kind in ("all", "odd", "none"):
        cases.append(Case("rnn_backward", kind, lambda rng, k=kind: rnn_backward(rng, shape, k == "odd", k)))
        cases.append(Case("gru_backward", kind, lambda rng, k=kind: gru_backward(rng, shape, k)))
        cases.append(Case("lstm_backward", kind, lambda rng, k=kind: lstm_backward(rng, shape, k)))
    each((case, lambda case=case: check_case(cuda, case)) for case in cases)


@pytest.mark.parametrize("shape", [*THROUGH, *STEPWISE], ids=named)
def test_products_that_no_order_rounds_are_exact(cuda: ModuleType, shape: tuple[int, int, int]) -> None:
    for op, args in (
        ("gru_forward", _saturated(shape)),
        ("gru_backward", _halves(gru_backward, shape)),
        ("lstm_backward", _halves(lstm_backward, shape)),
    ):
        expected = run(reference, op, as_float64(args))
        run(cuda, op, args)
        for name in ("gates", "dhidden", "hidden", "states"):
            if name in args and not (op == "gru_forward" and name == "gates"):
                assert (args[name] == expected[name]).all(), (op, name)


def _saturated(shape: tuple[int, int, int]) -> Args:
    """A GRU whose states are -1 or 1, so that `hidden` is whole."""
    args = gru_forward(np.random.default_rng(3), shape, True, True)
    units = shape[2]
    args["weight"], args["bias"] = _whole(args["weight"]), _whole(args["bias"])
    args["gates"][:, :, : 2 * units] = -2000  # r and z are 0
    args["gates"][:, :, 2 * units :] = np.where(args["gates"][:, :, 2 * units :] > 0, 50, -50)
    return args


def _halves(make: Callable[..., Args], shape: tuple[int, int, int]) -> Args:
    """Return gates of 1/2 or 0, at which slopes are short binary fractions, and small whole numbers for all else."""
    args = make(np.random.default_rng(4), shape, "odd")
    units = shape[2]
    for name in ("dy", "hidden", "states", "weight"):
        if name in args:
            args[name] = _whole(args[name])
    args["gates"][...] = 0.5
    if "hidden" in args:
        args["gates"][:, :, units:] = 0  # z and n
    else:
        args["cells"] = 0 * args["cells"]
    return args


def _whole(values: np.ndarray) -> np.ndarray:
    return np.sign(np.round(values / max(float(values.std()), 1e-9) / 2)).astype(np.float32)


@pytest.mark.parametrize("shape", [(4, 19, 20), (2, 5, 128), (2, 19, 130)], ids=named)
def test_an_example_is_the_same_whoever_is_beside_it(cuda: ModuleType, shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(5)
    makers = (
        ("gru_forward", lambda: gru_forward(rng, shape, True, True)),
        ("lstm_forward", lambda: lstm_forward(rng, shape, True)),
        ("gru_backward", lambda: gru_backward(rng, shape, "but_one")),
        ("lstm_backward", lambda: lstm_backward(rng, shape, "but_one")),
    )
    for op, make in makers:
        together = make()
        alone = {name: value if name in SHARED else of_last(value) for name, value in together.items()}
        run(cuda, op, together)
        run(cuda, op, alone)
        for name in together.keys() - SHARED:
            assert of_last(together[name]).tobytes() == alone[name].tobytes(), (op, name)


def of_last(values: np.ndarray) -> np.ndarray:
    """Return the last example, in memory of its own."""
    return values[:, -1:].copy()


def test_layers_of_many_units_take_a_launch_a_step() -> None:
    rng = np.random.default_rng(0)
    for units, forward, backward in ((1, 2, 1), (128, 2, 1), (129, 5, 6)):  # of 5 steps
        assert (
            len(recurrent.gru_forward(*map(KernelArray, gru_forward(rng, (5, 2, units), True, True).values())))
            == forward
        )
        assert (
            len(recurrent.gru_backward(*map(KernelArray, gru_backward(rng, (5, 2, units), "odd").values()))) == backward
        )


def test_steps_of_several_tiles(cuda: ModuleType) -> None:
    for shape in ((70, 3, 33), (5, 2, 70)):
        check_case(cuda, Case("to_steps", str(shape), lambda rng, s=shape: to_steps(rng, s)))
        check_case(cuda, Case("from_steps", str(shape), lambda rng, s=shape: from_steps(rng, s, 1)))
