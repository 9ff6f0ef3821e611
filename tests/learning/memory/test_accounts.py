"""The accounts against the byte tables of ALGORITHMS 9, which were computed elsewhere, and against sums by hand."""

from __future__ import annotations

from statistics import mean

import pytest

from edgefl.errors import GraphError
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.learning.memory.scalar_counts import output_scalars, saved_bits, scalars, trained_scalars
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.architectures import build
from edgefl.models.graph.heads import head_of
from edgefl.models.graph.operations import Add, AvgPool2d, Conv2d, Linear
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.rng import INIT, stream

NETS = {
    "EMNIST": build("fedspu_emnist", (1, 28, 28), 62),
    "CIFAR": build("fedspu_cifar", (3, 32, 32), 10),
    "Speech": build("fedspu_speech", (1, 32, 32), 35),
}
KEEPS = (0.2, 0.4, 0.6, 0.8, 1.0)
# net, p: P_act, stat_act, hidden neurons, M_full, M_drop, M_spu_paper, M_spu_exact at a batch of 1
TABLE = """
EMNIST .2 12418 16 8 775960 153688 362904 397691
EMNIST .4 25062 32 16 775960 305800 464440 452187
EMNIST .6 37994 48 24 775960 460216 567128 507835
EMNIST .8 51214 64 32 775960 616936 670968 564635
EMNIST 1 64722 80 40 775960 775960 775960 622587
CIFAR .2 5228 8 44 1226296 77768 596464 617665
CIFAR .4 20542 16 89 1226296 223904 681344 680877
CIFAR .6 45942 24 134 1226296 450728 806568 784433
CIFAR .8 81428 32 179 1226296 758240 972136 928333
CIFAR 1 134902 44 226 1226296 1226296 1226296 1145465
Speech .2 3685 40 20 448516 80516 170916 202951
Speech .4 8135 80 40 448516 162916 235516 224351
Speech .6 13385 120 60 448516 251716 303316 248951
Speech .8 19435 160 80 448516 346916 374316 276751
Speech 1 26285 200 100 448516 448516 448516 307751
"""
ROWS = [(name, float(keep), *map(int, numbers)) for name, keep, *numbers in map(str.split, TABLE.strip().splitlines())]


def training(
    name: str, keep: float = 1.0, batch: int = 1, method: str = "fedspu", **options: object
) -> TrainingConfiguration:
    return TrainingConfiguration(name, NETS[name], batch, method, keep, **options)  # type: ignore[arg-type]


def total(account: str, *what: object, **options: object) -> int:
    return estimate(account, training(*what, **options)).total  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "keep", "active", "stats", "hidden", "full", "drop", "paper", "bound"), ROWS)
def test_accounts_are_those_of_the_byte_table(
    name: str, keep: float, active: int, stats: int, hidden: int, full: int, drop: int, paper: int, bound: int
) -> None:
    spec = ModelSpec.of(NETS[name])
    neurons = training(name, keep).neurons or NeuronSet.full(spec)
    assert trained_scalars(NETS[name], neurons) == active
    assert neurons.count(spec, ("stat",)) == stats
    assert sum(map(len, neurons.active.values())) == hidden
    assert total("paper", name, method="full") == full
    assert total("paper", name, keep, method="drop") == drop
    assert total("paper", name, keep) == paper
    assert total("bound", name, keep) == bound


def test_emnist_by_hand() -> None:
    graph, neurons = NETS["EMNIST"], training("EMNIST", 0.2).neurons
    assert trained_scalars(graph, neurons) == (4 * 9 + 4) + 8 + (4 * 4 * 9 + 4) + 8 + (4 * 49 * 62 + 62)
    assert output_scalars(graph, None) == 15680 * 3 + 3920 + 3920 * 3 + 980 + 62
    assert output_scalars(graph, neurons) == 12802
    assert saved_bits(graph, neurons) == {
        "inputs": 32 * (784 + 4 * 196 + 4 * 49),
        "xhat": 32 * (15680 + 3920),
        "signs": 15680 + 3920,
        "winners": 2 * (3920 + 980),
        "curves": 0,
    }


@pytest.mark.parametrize(("keep", "published"), [(0.2, 54), (0.4, 44), (0.6, 31), (0.8, 18)])
def test_the_account_paper_gives_the_savings_of_figure_5(keep: float, published: int) -> None:
    saved = [100 * (1 - total("paper", name, keep) / total("paper", name, method="full")) for name in NETS]
    assert mean(saved) == pytest.approx(published, abs=1.5)


def test_pfeiffer_counts_whole_tensors_so_freezing_neurons_saves_nothing() -> None:
    found = estimate("pfeiffer2023", training("EMNIST", batch=32))
    state = 64722 + 80 + 2  # two counters of batches
    assert found.parts == {"weights": 4 * state, "gradients": 4 * 64722, "activations": 4 * 32 * 63762}
    assert total("pfeiffer2023", "EMNIST", 0.2, 32) == found.total
    assert total("pfeiffer2023", "EMNIST", 0.2, 32, method="drop") < found.total


def test_inputs_shared_by_two_layers_are_saved_once() -> None:
    conv = Conv2d(2, 2, (1, 1), bias=False)
    shared = Graph(
        (2, 3, 3), (Node("a", conv, ("input",)), Node("b", conv, ("input",)), Node("sum", Add(), ("a", "b")))
    )
    assert saved_bits(shared, None)["inputs"] == 32 * 18


def test_pooling_by_average_saves_nothing_and_a_3x3_maximum_four_bits() -> None:
    average = Graph((1, 4, 4), (Node("pool", AvgPool2d((2, 2), (2, 2)), ("input",)),))
    assert sum(saved_bits(average, None).values()) == 0
    cifar = build("pflego_cifar", (3, 32, 32), 10)  # 3x3 windows, to 16x16 and 8x8 cells of 64 channels
    assert saved_bits(cifar, None)["winners"] == 4 * 64 * (256 + 64)


@pytest.mark.parametrize("account", ["paper", "bound", "exact"])  # pfeiffer2023 counts no inputs
def test_pflego_takes_as_much_as_its_joint_gradient_or_its_cached_features(account: str) -> None:
    mlp = build("pflego_mlp", (1, 28, 28), 10)
    joint = estimate(account, TrainingConfiguration("mlp", mlp, 600, "pflego"))
    assert joint.phase == "joint gradient"
    few = estimate(account, TrainingConfiguration("mlp", mlp, 1, "pflego", examples=6000))
    assert few.phase == "head steps"
    features = 4 * 6000 * 200
    assert features < few.total < joint.total + 3 * features


def test_gradients_of_chunks_are_summed_in_a_buffer_of_their_own() -> None:
    mlp = build("pflego_mlp", (1, 28, 28), 10)
    one = estimate("bound", TrainingConfiguration("mlp", mlp, 32, "pflego"))
    many = estimate("bound", TrainingConfiguration("mlp", mlp, 32, "pflego", examples=64))
    assert many.total - one.total == 4 * scalars(mlp.parameters().values())


def test_the_head_is_the_last_linear_layer() -> None:
    head = head_of(NETS["CIFAR"])
    assert (head.input_shape, [node.name for node in head.nodes]) == ((84,), ["fc"])
    with pytest.raises(GraphError, match="without a Linear layer"):
        head_of(Graph((1, 4, 4), (Node("pool", AvgPool2d((2, 2), (2, 2)), ("input",)),)))


def test_states_of_the_optimiser_are_in_the_account_exact() -> None:
    plain = estimate("exact", training("EMNIST", 0.2, 16))
    momentum = estimate("exact", training("EMNIST", 0.2, 16, terms=Terms(momentum=True)))
    assert plain.parts["states"] == 0
    assert momentum.parts["states"] == 4 * 12418
    assert momentum.total >= plain.total + 4 * 12418


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "fedavg"}, "method=fedavg; expected one of full, fedspu, sparse, drop, pflego"),
        ({"batch": 0}, "batch=0; expected at least 1"),
        ({"keep": 1.5}, "keep=1.5 with method=fedspu; expected 0 < keep <= 1"),
        ({"keep": 0.5, "method": "full"}, "keep=0.5 with method=full; expected"),
    ],
)
def test_what_cannot_be_trained_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        training("EMNIST", **options)  # type: ignore[arg-type]


def test_an_unknown_account_is_named() -> None:
    with pytest.raises(ValueError, match="account=torch; expected one of pfeiffer2023, paper, bound, exact"):
        estimate("torch", training("EMNIST"))


def test_a_footprint_is_json_with_parts_that_add_up() -> None:
    found = estimate(
        "exact", TrainingConfiguration("line", Graph((4,), (Node("fc", Linear(4, 2), ("input",)),)), 3)
    ).to_json()
    assert found["total"] == sum(found["parts"].values())
    assert {(tensor["node"], tensor["argument"], tensor["bytes"]) for tensor in found["tensors"]} >= {
        ("input", "out", 48),
        ("fc", "y", 24),
        ("fc", "out", 8),  # the gradient of the bias. The gradient of the weights is not stored
    }


@pytest.mark.parametrize("name", NETS)
def test_pfeiffer_is_what_hooks_on_a_torch_model_count(name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    from edgefl.torch import to_torch

    graph, outputs = NETS[name], []
    module = to_torch(Model(graph, graph.init(stream(1, INIT))))
    for leaf in module.modules():
        if not list(leaf.children()) and not isinstance(leaf, torch.nn.Flatten):
            leaf.register_forward_hook(lambda _, inputs, output: outputs.append(output.numel()))
    module(torch.zeros(32, *graph.input_shape))
    state = sum(tensor.numel() for tensor in module.state_dict().values())
    learned = sum(tensor.numel() for tensor in module.parameters())
    assert total("pfeiffer2023", name, batch=32) == 4 * (sum(outputs) + state + learned)
