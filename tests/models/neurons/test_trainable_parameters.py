"""The values that say what is trained: what they select, what they have in common, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl.errors import SelectionError
from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import BatchNorm2d, Conv2d, Flatten, Linear
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.trainable_parameters import Trainable, TrainableParameters
from edgefl.models.neurons.trainable_slice import RowsAndColumns

NODES = (
    Node("conv", Conv2d(2, 3, (1, 1)), (INPUT,)),
    Node("bn", BatchNorm2d(3), ("conv",)),
    Node("flat", Flatten(), ("bn",)),
    Node("fc", Linear(3, 4), ("flat",)),
)
SPEC = ModelSpec.of(Graph((2, 1, 1), NODES, frozenset({"fc.bias"})))
NEURONS = NeuronSet.of(SPEC, {"conv": [0, 2]})
DIAGONAL = Mask.of(SPEC, {"fc.weight": np.eye(4, 3, dtype=np.bool_)})
OF = TrainableParameters.of
ROW = TrainableParameters.sliced(SPEC, {"fc.weight": ([1], None)})

Flat = dict[str, list[int]]


def flat(part: TrainableParameters) -> Flat:
    """The trained positions of each flattened parameter."""
    return {name: at.flat(SPEC.params[name].shape).tolist() for name, at in part.blocks(SPEC).items()}


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (OF(SPEC, ["conv.bias"]), {"conv.bias": [0, 1, 2]}),
        (OF(SPEC, {"fc"}), {"fc.weight": list(range(12))}),  # its bias is frozen
        (OF(SPEC, frozenset()), {}),
        (TrainableParameters.sliced(SPEC, {"fc.weight": ([0, 3], [2]), "bn.bias": ([], None)}), {"fc.weight": [2, 11]}),
        (ROW & OF(SPEC, DIAGONAL), {"fc.weight": [4]}),
        (ROW & OF(SPEC, NEURONS), {"fc.weight": [3, 5]}),  # of row 1 the columns 0 and 2
        (OF(SPEC, NEURONS) & OF(SPEC, ["bn"]), {"bn.weight": [0, 2], "bn.bias": [0, 2]}),
        (OF(SPEC, DIAGONAL) & OF(SPEC, ["fc", "conv.bias"]), {"conv.bias": [0, 1, 2], "fc.weight": [0, 4, 8]}),
        (OF(SPEC, None) & ROW, {"fc.weight": [3, 4, 5]}),
    ],
)  # fmt: skip
def test_what_is_selected(part: TrainableParameters, expected: Flat) -> None:
    assert flat(part) == expected


def test_everything_is_all_that_is_learned() -> None:
    everything = OF(SPEC, None)
    assert set(everything.blocks(SPEC)) == {"conv.weight", "conv.bias", "bn.weight", "bn.bias", "fc.weight"}
    assert everything == OF(SPEC, NeuronSet.full(SPEC)) != OF(SPEC, list(everything.blocks(SPEC)))


def test_a_slice_of_all_rows_is_the_whole() -> None:
    assert TrainableParameters.sliced(SPEC, {"bn.bias": ([0, 1, 2], None)}) == OF(SPEC, ["bn.bias"])
    assert len({ROW, TrainableParameters.sliced(SPEC, {"fc.weight": ([2], None)}), OF(SPEC, ["fc.weight"])}) == 3


@pytest.mark.parametrize(
    ("part", "channels"),
    [
        (None, None),
        (NEURONS, [0, 2]),
        (["bn"], None),
        (["bn.weight"], None),
        (["bn.running_mean", "conv"], None),
        (["conv"], []),
        (TrainableParameters.sliced(SPEC, {"bn.weight": ([1], None), "bn.bias": ([2], None)}), [1, 2]),
    ],
)
def test_statistics_follow_their_layer(part: Trainable, channels: list[int] | None) -> None:
    found = OF(SPEC, part).statistics(SPEC)["bn.running_mean"]
    assert (None if found is None else found.tolist()) == channels


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (["fc.wight"], "trainable: 'fc.wight' is neither a parameter nor a layer; the nearest are fc.weight"),
        (["flat"], "trainable: 'flat' is neither a parameter nor a layer; expected one of"),
        (["fc.bias"], "trainable: 'fc.bias' is frozen in the graph; expected parameters that are learned"),
        ("fc", r"trainable='fc', a text; expected a collection of names, such as \{'fc'\}"),
        (Mask({"bn.running_mean": np.eye(1, 3, dtype=np.bool_)[0]}), "trainable: mask of 'bn.running_mean'; expected"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(selection: Trainable, message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        OF(SPEC, selection)


@pytest.mark.parametrize(
    ("slices", "message"),
    [
        ({"fc": (None, None)}, "trainable: 'fc' is not a parameter; expected one of conv.weight"),
        ({"fc.weight": ([4], None)}, "trainable: rows of 'fc.weight' from 4 to 4; expected 0 to 3"),
        ({"fc.weight": (None, [1, 0])}, r"trainable: columns of 'fc.weight' are not sorted and unique: \[1, 0\]"),
        ({"bn.bias": (None, [0])}, r"trainable: columns of 'bn.bias' of shape \(3,\); expected rows only"),
        (
            {"bn.bias": ([0.5], None)},
            r"trainable: rows of 'bn.bias' of shape \(1,\) and type float64; expected integers",
        ),
    ],
)
def test_ids_that_do_not_fit_are_refused(slices: dict[str, RowsAndColumns], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        TrainableParameters.sliced(SPEC, slices)


def test_a_value_of_another_model_is_refused() -> None:
    other = ModelSpec.of(Graph((3,), (Node("fc", Linear(3, 9), (INPUT,)),)))
    with pytest.raises(SelectionError, match=r"'conv.bias' is not a parameter"):
        OF(other, OF(SPEC, ["conv.bias"]))
    with pytest.raises(SelectionError, match=r"row 8 of 'fc.weight'; the shape of 'fc.weight' is \(4, 3\)"):
        OF(SPEC, TrainableParameters.sliced(other, {"fc.weight": ([8], None)}))
    with pytest.raises(SelectionError, match="two sets of neurons; expected one set of neurons"):
        OF(SPEC, NEURONS) & OF(SPEC, NeuronSet.of(SPEC, {"conv": [1]}))
