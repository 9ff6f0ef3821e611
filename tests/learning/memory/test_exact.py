"""The account `exact` against learners: the bytes it names are those they hold, and a limit of that many is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import MemoryLimitError
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory import TrainingConfiguration, best, estimate, fit
from edgefl.learning.optimizers import Adam, Optimizer, Saved
from edgefl.methods import PFLEGO
from edgefl.methods.client_state import ClientState
from edgefl.methods.personal_head import HEAD
from edgefl.methods.task import Task
from edgefl.models.graph import Graph, Model, architectures
from edgefl.models.graph.cuts import cuts
from edgefl.models.graph.operations import Conv2d
from edgefl.models.neurons.model_spec import ModelSpec
from tests.kernels.cuda import standin  # tests/kernels

KEEPS = (0.2, 0.4, 0.6, 0.8, 1.0)
INPUTS = {"digits_cnn": (1, 8, 8), "lenet5": (1, 28, 28), "pflego_mlp": (1, 28, 28), "pflego_omniglot": (1, 28, 28)}


def model(graph: Graph) -> Model:
    return Model(graph, graph.init(rng.stream(1, rng.INIT)))


def data(graph: Graph, examples: int) -> Samples:
    return Samples(np.zeros((examples, *graph.input_shape), np.uint8), np.zeros(examples, np.int32))


def train(learner: GraphLearner, training: TrainingConfiguration, examples: int) -> None:
    """Train one epoch in the batches of `training`, the last of which may be smaller."""
    order = np.arange(examples, dtype=np.int32)
    batches = [order[start : start + training.batch] for start in range(0, examples, training.batch)]
    learner.fit(data(learner.graph, examples), batches, SGD(0.0), FitOptions(training.trained[1]))


def held(learner: GraphLearner) -> dict[str, int]:
    return own(learner.memory())


def own(parts: Mapping[str, int]) -> dict[str, int]:
    """Return the parts without the kernels' scratch, which all learners of this process share.

    tests/study/test_memory_meter.py has the scratch.
    """
    return {name: size for name, size in parts.items() if name != "scratch"}


@pytest.mark.parametrize("name", architectures.PUBLISHED)
def test_exact_is_what_the_learner_holds(name: str) -> None:
    graph = architectures.build(name, INPUTS.get(name, (3, 32, 32)), 10)
    learner = GraphLearner(model(graph))
    for keep in KEEPS:
        training = TrainingConfiguration(name, graph, 2, keep=keep, examples=3)
        train(learner, training, 3)
        assert held(learner) == own(estimate("exact", training).parts)
        learner.release()


@pytest.mark.parametrize("keep", [1.0, 0.4])
@pytest.mark.parametrize("name", ["fedspu_cifar", "vgg11", "resnet18"])
def test_plain_sgd_holds_one_weight_gradient_at_a_time_and_none_of_a_linear_layer(name: str, keep: float) -> None:
    graph = architectures.build(name, (3, 32, 32), 10)
    tensors = estimate("exact", TrainingConfiguration(name, graph, 2, keep=keep)).tensors
    convolutions = [node.name for node in graph.nodes if isinstance(node.op, Conv2d)]
    held = [tensor for tensor in tensors if tensor.argument == "dw"]
    assert [tensor.node for tensor in held] == convolutions[::-1]
    assert all(earlier.last < later.first for earlier, later in pairwise(held))
    clipped = estimate("exact", TrainingConfiguration(name, graph, 2, keep=keep, terms=Terms(clip=1.0))).tensors
    held = [tensor for tensor in clipped if tensor.argument == "dw"]
    assert len(held) > len(convolutions)
    assert max(tensor.first for tensor in held) < min(tensor.last for tensor in held)


def test_a_sub_model_is_accounted_as_the_smaller_learner_it_is() -> None:
    graph = architectures.build("fedspu_emnist", (1, 28, 28), 62)
    training = TrainingConfiguration("emnist", graph, 16, "drop", 0.4, examples=16)
    learner = GraphLearner(model(training.trained[0]))
    train(learner, training, 16)
    assert held(learner) == own(estimate("exact", training).parts)


def test_pflego_is_accounted_pass_by_pass() -> None:
    graph = architectures.build("pflego_mlp", (1, 28, 28), 10)
    joint = estimate("exact", TrainingConfiguration("mlp", graph, 8, "pflego", examples=16))
    learner, order = GraphLearner(model(graph)), np.arange(16, dtype=np.int32)
    learner.with_head(10).gradient(data(graph, 16), order, chunk=8)
    assert joint.phase == "joint gradient"
    assert own(joint.parts) == {**held(learner), "summed gradients": joint.parts["summed gradients"]}
    steps = estimate("exact", TrainingConfiguration("mlp", graph, 1, "pflego", examples=2000))
    learner = GraphLearner(model(graph))
    features = Samples(np.zeros((2000, 200), np.float32), np.zeros(2000, np.int32))
    learner.with_head(10).head().fit(features, [np.arange(2000, dtype=np.int32)], SGD(0.0))
    assert steps.phase == "head steps"
    assert own(steps.parts) == {**held(learner), "features": features.x.nbytes}


@pytest.mark.parametrize("name", ["feddyn_mlp", "digits_cnn"])
@pytest.mark.parametrize("optimizer", [SGD(0.1), SGD(0.1, momentum=0.9, clip=1.0), Adam(0.1)], ids=repr)
def test_a_limit_of_so_many_bytes_is_kept_on_a_device(
    name: str, optimizer: Optimizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device packs for other operations than the processor does, and holds samples beside what is limited."""
    backend = standin.backend()
    monkeypatch.setenv("EDGEFL_KERNELS", "cuda")
    graph = architectures.build(name, INPUTS.get(name, (1, 8, 8)), 10)
    training = TrainingConfiguration(name, graph, 2, keep=0.5, examples=2, terms=Terms.of(optimizer))
    account = estimate("exact", training)
    samples = data(graph, 2)
    one = samples, [np.arange(2, dtype=np.int32)], optimizer, FitOptions(training.trained[1])
    learner = GraphLearner(model(graph), limit_bytes=account.total)
    learner.fit(*one)
    assert held(learner) == {**own(account.parts), "samples": samples.x.nbytes}
    assert backend.scratch_bytes() >= account.parts["scratch"]
    too_few = account.total - 3 * account.parts["arena"] // 4
    with pytest.raises(MemoryLimitError, match=f"limit_bytes={too_few}$"):
        GraphLearner(model(graph), limit_bytes=too_few).fit(*one)


def test_a_round_of_pflego_runs_within_its_account_and_gives_the_same_heads_to_rounding() -> None:
    """The learner is limited to the account without features and sums, which it does not hold.

    Without a limit it takes no more, because the head's steps and the joint gradient lie in one arena.
    """
    graph = architectures.build("pflego_mlp", (1, 8, 8), 4)
    account = estimate("exact", TrainingConfiguration("mlp", graph, 8, "pflego", examples=40))
    limit = account.total - account.parts["summed gradients"]
    found = {}
    for name, most in {"limited": limit, "free": None}.items():
        learner, samples = GraphLearner(model(graph), limit_bytes=most), data(graph, 50)
        order = np.arange(50, dtype=np.int32)
        client_state = ClientState(0, 1, ModelSpec.of(graph), learner, samples, order[:40], order[:0], order[40:])
        method, initial = PFLEGO(tau=5, beta=0.1, chunk=8), dict(model(graph).params)
        task = Task(client_state.spec, 1, 1, examples=40)
        method.train(client_state, method.plan(task, method.start(task, initial), 1)[0])
        found[name] = learner, client_state.arrays[HEAD]
    used = {name: sum(held(learner).values()) for name, (learner, _) in found.items()}
    assert used["limited"] <= used["free"] <= limit - account.parts["scratch"]
    for name, value in found["free"][1].items():
        np.testing.assert_allclose(found["limited"][1][name], value, rtol=0, atol=1e-6)
    with pytest.raises(MemoryLimitError, match="gradient in batches of 8 needs"):
        GraphLearner(model(graph), limit_bytes=limit - 1).with_head(4).gradient(samples, order[:40], chunk=8)


@pytest.mark.parametrize(("name", "limit", "batch"), [("fedspu_emnist", 3_000_000, 16), ("fedspu_cifar", 1_200_000, 3)])
def test_what_fit_chooses_runs_and_a_larger_choice_computes_again_or_is_refused(
    name: str, limit: int, batch: int
) -> None:
    graph = architectures.build(name, (3, 32, 32), 10)
    choices = fit(TrainingConfiguration(name, graph, batch), limit, KEEPS)
    chosen = best(choices, batch)
    assert chosen is not None
    learner = GraphLearner(model(graph), limit_bytes=limit)
    examples = 3 * chosen.batch - 1
    train(learner, TrainingConfiguration(name, graph, chosen.batch, keep=chosen.keep), examples)
    learner.evaluate(data(graph, examples))
    assert sum(held(learner).values()) <= limit
    for keep, size in _larger(choices, chosen.keep, batch):
        larger = TrainingConfiguration(name, graph, size, keep=keep)
        try:
            train(learner, larger, 2 * size - 1)
        except MemoryLimitError as error:
            assert f"limit_bytes={limit}" in str(error)
        else:
            assert held(learner)["arena"] < estimate("exact", larger).parts["arena"]
            assert sum(held(learner).values()) <= limit


def _larger(choices: Sequence[tuple[float, int, object]], keep: float, batch: int) -> list[tuple[float, int]]:
    """Return (share, batch) pairs: one example more at each share, and `batch` at shares above `keep`."""
    return [(p, size + 1) for p, size, _ in choices] + [(p, batch) for p, _, _ in choices if p > keep]


def test_nothing_fits_where_the_parameters_do_not() -> None:
    graph = architectures.build("fedspu_emnist", (1, 28, 28), 62)
    choices = fit(TrainingConfiguration("emnist", graph, 16), 100_000, KEEPS)
    assert [choice.batch for choice in choices] == [0] * len(KEEPS)
    assert best(choices, 16) is None
    assert all(choice.footprint.total > 100_000 for choice in choices)


def test_a_batch_that_fits_nowhere_gives_the_largest_share_with_any_batch() -> None:
    graph = architectures.build("fedspu_cifar", (3, 32, 32), 10)
    choices = fit(TrainingConfiguration("cifar", graph, 1), 1_000_000, KEEPS)
    assert [choice.keep for choice in choices] == sorted(KEEPS, reverse=True)
    chosen = best(choices, 4096)
    assert chosen is not None
    assert chosen == next(choice for choice in choices if choice.batch)


@pytest.mark.parametrize("saved", ["fp32", "fp16"])
@pytest.mark.parametrize("name", ["fedspu_emnist", "fedspu_cifar", "pflego_mlp"])
def test_training_behind_a_cut_holds_what_exact_says(name: str, saved: Saved) -> None:
    graph = architectures.build(name, INPUTS.get(name, (1, 28, 28)), 10)
    order = np.arange(35, dtype=np.int32)
    for cut in cuts(graph):
        for keep in (0.4, 1.0):
            training = TrainingConfiguration(name, graph, 8, keep=keep, examples=35, terms=Terms(saved=saved), cut=cut)
            learner = GraphLearner(model(graph))
            batches = [order[start : start + 8] for start in range(0, 35, 8)]
            learner.fit(data(graph, 35), batches, SGD(0.0, saved=saved), FitOptions(training.neurons, cut=cut))
            assert held(learner) == own(estimate("exact", training).parts), (cut, keep)


def test_only_exact_accounts_for_a_cut_and_only_of_fedspu() -> None:
    graph = architectures.build("fedspu_emnist", (1, 28, 28), 10)
    with pytest.raises(ValueError, match="account=paper with cut=pool1; expected account exact"):
        estimate("paper", TrainingConfiguration("emnist", graph, 16, cut="pool1"))
    with pytest.raises(ValueError, match="cut=pool1 with method=drop; expected method fedspu"):
        TrainingConfiguration("emnist", graph, 16, "drop", 0.2, cut="pool1")
