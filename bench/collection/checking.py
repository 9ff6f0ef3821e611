"""The check of one model of the collection: outputs in evaluation and one training step, against torch in float64.

A step is SGD or Adam, trains all neurons or 40 % of them, and leaves out frozen parameters and frozen BatchNorms. Its
error stands beside the error of torch in float32. It is wrong if it is larger than torch's error and than the rounding
of float32, in the median over several batches: a ReLU or a maximum near its threshold turns either way in float32, and
moves the gradient of a deep network by a per cent in one batch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bench.collection import noise, oracle
from bench.collection.conversion import BATCH, Outcome, converted, inputs, samples
from bench.collection.entry import Entry
from edgefl.learning import SGD, Adam, FitOptions, GraphLearner, Samples
from edgefl.learning.batches import Listed
from edgefl.learning.optimizers import Optimizer
from edgefl.models.graph import Model
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.rng import NEURONS, stream

FLOOR = (
    2e-6  # of the whole gradient: a sum of n products in float32 is wrong by about sqrt(n) 2^-24, and n is some 1000
)
WORST = 5e-5  # of one parameter's largest gradient: the largest of some 10,000 such errors, over several layers
SMALL = 1e-4  # a parameter whose gradients are below this share of the largest is compared with that share
TIMES = 3.0  # an error up to this multiple of torch's own is one of float32: both are single draws
DRAWS = 5  # batches over which a large error is confirmed
KEEP = 0.4


class Error(NamedTuple):
    """Errors of a step: of the whole step in the Euclidean norm, and of the worst parameter in the maximum norm."""

    whole: float
    worst: float
    name: str = ""


@dataclass(frozen=True)
class Case:
    """One kind of step: what is frozen, the share of the neurons, and the optimizer."""

    frozen: str
    keep: float
    optimizer: str

    def __str__(self) -> str:
        return f"{self.frozen} p={self.keep:g} {self.optimizer}"


Batch = tuple[Samples, oracle.Pass, oracle.Pass]


class Verdict(NamedTuple):
    """The result of a case: our error and torch's, and the sentence that says what is wrong, or the empty text."""

    case: str
    ours: Error
    theirs: Error
    wrong: str


FROZEN = {  # what is frozen -> the steps that are taken then
    "all trained": tuple((keep, each) for keep in (1.0, KEEP) for each in ("sgd", "adam")),
    "half frozen": ((1.0, "sgd"), (KEEP, "adam")),
    "norms frozen": ((1.0, "sgd"), (KEEP, "sgd")),
}


def check(entry: Entry, kinds: tuple[str, ...] = tuple(FROZEN)) -> Iterator[Verdict]:
    """Yield the verdicts of a model that edgefl takes and trains. Nothing is yielded for norms where there is none."""
    plain = oracle.without_dropout(entry.module())
    outcome = converted(plain, entry.example(2))
    yield randomness(entry, outcome)
    has_noise = outcome.model is not None and bool(noise.numbers(outcome.model))
    if not has_noise and oracle.is_random(plain, entry.example(BATCH)):
        yield Verdict("all trained", Error(0, 0), Error(0, 0), "random in training without dropout; nothing to compare")
        return
    if outcome.model is None:
        yield Verdict("outputs", Error(0, 0), Error(0, 0), f"refused: {outcome.refusal}")
        return
    yield evaluation(entry, plain, outcome.model)
    known: Batches | None = None
    for kind in kinds:
        module = frozen(copy.deepcopy(plain), kind)
        if module is None:
            continue
        found = outcome if kind == "all trained" else converted(module, entry.example(2))
        if found.model is None:
            yield Verdict(kind, Error(0, 0), Error(0, 0), f"refused: {found.refusal}")
            continue
        batches = Batches(entry, module, found.model, known if kind == "half frozen" else None)
        known = known or batches
        for keep, optimizer in FROZEN[kind]:
            yield confirmed(batches, found.model, Case(kind, keep, optimizer))


def randomness(entry: Entry, plain: Outcome) -> Verdict:
    """Compare whether training is random, as by dropout, in the module and in edgefl: two passes differ, or not.

    plain  the conversion of the module without dropout, which serves where the module is not random
    """
    module, example = entry.module(), entry.example(BATCH)
    theirs = oracle.is_random(module, example)
    outcome = converted(module, entry.example(2)) if theirs else plain
    if outcome.model is None:
        return Verdict("randomness", Error(0, 0), Error(0, 0), f"refused: {outcome.refusal}")
    batch = samples(entry, example, entry.targets(oracle.outputs_of(copy.deepcopy(module)(*example))))
    rows = np.arange(BATCH, dtype=np.int32)
    first, second = (GraphLearner(outcome.model).gradient(batch, rows, key=key) for key in (1, 2))
    ours = not all(np.array_equal(value, second[name]) for name, value in first.items())
    wrong = "" if ours == theirs else f"training is {'' if theirs else 'not '}random in torch, in edgefl the contrary"
    return Verdict("randomness", Error(float(ours), 0), Error(float(theirs), 0), wrong)


def frozen(module: nn.Module, kind: str) -> nn.Module | None:
    """Freeze half of the parameters, or the BatchNorms, of a module. Return None if it has no BatchNorm.

    Two of four parameters are frozen, so that one layer trains its weight and the next layer its bias.
    """
    if kind == "half frozen":
        for number, parameter in enumerate(module.parameters()):
            parameter.requires_grad_(parameter.requires_grad and number % 4 in (0, 3))
    if kind == "norms frozen":
        norms = [part for part in module.modules() if isinstance(part, _BatchNorm) and part.track_running_stats]
        for norm in norms:
            norm.eval()
        return module if norms else None
    return module


def evaluation(entry: Entry, module: nn.Module, model: Model) -> Verdict:
    """Compare outputs in evaluation mode."""
    example = entry.example(BATCH)
    runs = []  # a graph computes auxiliary outputs in training alone
    for dtype in (torch.float64, torch.float32):
        with noise.drawn(model, noise.EVALUATION):
            runs.append(oracle.evaluated(module, example, dtype)[:1])
    exact, near = runs
    found = _outputs(entry, model, example, exact)
    size = max(float(np.abs(each).max()) for each in exact) or 1.0
    ours, theirs = (
        Error(_distance(each, exact), max(float(np.abs(a - b).max()) for a, b in zip(each, exact, strict=True)) / size)
        for each in (found, near)
    )
    return Verdict("outputs", ours, theirs, _wrong(ours, theirs))


class Batches:
    """Batches of a module by their seeds: samples, and torch's passes in float64 and in float32.

    model  its conversion, whose noise torch draws
    wider  the batches of the module of which more is trained: its gradients are those of this module, and further ones
    """

    def __init__(self, entry: Entry, module: nn.Module, model: Model, wider: Batches | None = None) -> None:
        self.entry, self.module, self.model = entry, module, model
        self._known: dict[int, Batch] = {} if wider is None else wider._known

    def __getitem__(self, seed: int) -> Batch:
        if seed not in self._known:
            example = self.entry.example(BATCH, seed)
            with torch.no_grad():
                target = self.entry.targets(oracle.outputs_of(copy.deepcopy(self.module)(*example)), seed)
            passes = []
            for dtype in (torch.float64, torch.float32):
                with noise.drawn(self.model, noise.TRAINING):
                    passes.append(oracle.trained_pass(self.module, self.entry, example, target, dtype))
            double, single = passes
            self._known[seed] = samples(self.entry, example, target), double, single
        batch, *found = self._known[seed]
        trained = {name for name, each in self.module.named_parameters(remove_duplicate=False) if each.requires_grad}
        exact, near = (
            oracle.Pass({name: value for name, value in each.gradients.items() if name in trained}, each.statistics)
            for each in found
        )
        return batch, exact, near


def confirmed(batches: Batches, model: Model, case: Case) -> Verdict:
    """Return the verdict on a step, over several batches if the first batch looks wrong."""
    first = step(batches, model, case, 1)
    if not first.wrong or not first.wrong.startswith("error"):
        return first
    every = [first, *(step(batches, model, case, seed) for seed in range(2, DRAWS + 1))]
    if bad := [each for each in every if each.wrong and not each.wrong.startswith("error")]:
        return bad[0]
    ours, theirs = (
        Error(median(each.whole for each in errors), median(each.worst for each in errors), errors[0].name)
        for errors in ([each.ours for each in every], [each.theirs for each in every])
    )
    return Verdict(first.case, ours, theirs, _wrong(ours, theirs))


def step(batches: Batches, model: Model, case: Case, seed: int) -> Verdict:
    """Take one step on a batch with edgefl, with torch in float64, and with torch in float32."""
    batch, exact, near = batches[seed]
    scale = oracle.scale_of(exact.gradients)
    learner = GraphLearner(model)
    before = {name: np.array(value) for name, value in learner.read().items()}
    neurons = None if case.keep == 1 else NeuronSet.draw(ModelSpec.of(model.graph), case.keep, stream(seed, NEURONS))
    rows = Listed([np.arange(BATCH, dtype=np.int32)], noise.TRAINING)
    learner.fit(batch, rows, _optimizer(case, scale), FitOptions(neurons))
    after = {name: np.array(value) for name, value in learner.read().items()}
    active = _active(model, neurons)
    if lost := _lost(model, batches.module, exact, before, after, active):
        return Verdict(str(case), Error(0, 0), Error(0, 0), lost)
    moved = {name: after[name].astype(np.float64) - before[name] for name in active}
    steps = [_expected(each, case, scale, before, active) for each in (exact, near)]
    ours, theirs = (_error(each, steps[0], active) for each in (moved, steps[1]))
    statistics = {name: after[name] for name, info in model.graph.parameters().items() if info.kind == "stat"}
    return Verdict(str(case), ours, theirs, _wrong(ours, theirs) or _wrong_statistics(statistics, exact, near))


def _optimizer(case: Case, scale: float) -> Optimizer:
    """Return an optimizer whose first step is of order 1. The eps of Adam lies within the gradients, so that a gradient
    near 0 does not become a step of full length with the sign of its rounding.
    """
    return SGD(1 / scale) if case.optimizer == "sgd" else Adam(1.0, eps=scale / 16)


def _expected(found: oracle.Pass, case: Case, scale: float, before: oracle.Arrays, active: dict) -> oracle.Arrays:
    """Return the change of every parameter by a step with the gradients of a pass, as float32 parameters would show it
    for float32 gradients.
    """
    steps = {}
    for name in active:
        gradient = found.gradients.get(name)
        if gradient is None:
            steps[name] = np.zeros(before[name].shape)
            continue
        gradient = gradient.reshape(before[name].shape)
        change = oracle.sgd(gradient, 1 / scale) if case.optimizer == "sgd" else oracle.adam(gradient, 1.0, scale / 16)
        if gradient.dtype == np.float32:
            change = (before[name] + change).astype(np.float64) - before[name]
        steps[name] = change
    return steps


def _active(model: Model, neurons: NeuronSet | None) -> dict[str, np.ndarray]:
    """Return for each parameter that is learned a mask of the coordinates that a step may move."""
    blocks = {} if neurons is None else neurons.blocks_of(model.graph)
    found = {}
    for name, info in model.graph.parameters().items():
        if info.kind != "learn" or name in model.graph.frozen:
            continue
        mask = np.ones(info.shape, bool)
        for axis, ids in enumerate(blocks.get(name, (None, None))):
            if ids is not None:
                chosen = np.zeros(info.shape[axis], bool)
                chosen[ids] = True
                mask &= chosen.reshape([-1 if axis == each else 1 for each in range(len(info.shape))])
        found[name] = mask
    return found


def _lost(
    model: Model, module: nn.Module, exact: oracle.Pass, before: oracle.Arrays, after: oracle.Arrays, active: dict
) -> str:
    """Return what a step lost or moved against the rules, or the empty text."""
    names = {id(value): set() for value in module.parameters()}
    for name, value in module.named_parameters(remove_duplicate=False):
        names[id(value)].add(name)
    for name, gradient in exact.gradients.items():
        alias = next(each for each in names.values() if name in each)
        if not alias & set(active) and np.abs(gradient).max(initial=0) > 0:
            return f"{name} has a gradient in torch and is not trained by edgefl"
    known = dict(module.named_parameters(remove_duplicate=False))
    for name in active:
        if name not in known:
            return f"{name} is trained by edgefl and is not a parameter of the module"
    for name, value in before.items():
        still = ~active[name] if name in active else np.full(value.shape, name in model.graph.frozen)
        if not np.array_equal(value[still], after[name][still]):
            return f"{name} is frozen, and its bits changed"
    return ""


def _error(found: oracle.Arrays, exact: oracle.Arrays, active: dict[str, np.ndarray]) -> Error:
    largest = max((float(np.abs(each[active[name]]).max(initial=0)) for name, each in exact.items()), default=0.0)
    worst, total, size, where = 0.0, 0.0, 0.0, ""
    for name, mask in active.items():
        own = exact[name][mask]
        difference = np.asarray(found[name], np.float64)[mask] - own
        error = float(np.abs(difference).max(initial=0)) / (
            max(float(np.abs(own).max(initial=0)), SMALL * largest) or 1
        )
        if error > worst:
            worst, where = error, name
        total, size = total + float((difference**2).sum()), size + float((own**2).sum())
    return Error((total / size) ** 0.5 if size else total**0.5, worst, where)


def _wrong(ours: Error, theirs: Error) -> str:
    if not ours.whole <= max(TIMES * theirs.whole, FLOOR):
        return f"error {ours.whole:.1e} of the whole; torch in float32 {theirs.whole:.1e}"
    if not ours.worst <= max(TIMES * theirs.worst, WORST):
        return f"error {ours.worst:.1e} in {ours.name or 'an output'}; torch in float32 {theirs.worst:.1e}"
    return ""


def _wrong_statistics(statistics: oracle.Arrays, exact: oracle.Pass, near: oracle.Pass) -> str:
    for name, value in statistics.items():
        if name not in exact.statistics:
            return f"{name} is a running statistic of edgefl and not a buffer of the module"
        truth = exact.statistics[name]
        size = float(np.abs(truth).max()) or 1.0
        ours, theirs = (float(np.abs(each - truth).max()) / size for each in (value, near.statistics[name]))
        if not ours <= max(TIMES * theirs, WORST):
            return f"error {ours:.1e} in {name}; torch in float32 {theirs:.1e}"
    return ""


def _outputs(entry: Entry, model: Model, example: tuple[Tensor, ...], exact: tuple) -> tuple[np.ndarray, ...]:
    """Return the outputs of edgefl, with the softmax that a conversion leaves to the loss."""
    x = inputs(example)
    found = torch.from_numpy(np.array(GraphLearner(model).predict(x))).double()
    truth = torch.from_numpy(np.asarray(exact[0]))
    if entry.target == "probabilities":
        found = found.softmax(1)
    elif entry.target == "labels" and truth.logsumexp(entry.classes).abs().max() < 1e-9:
        found = found.log_softmax(entry.classes)
    return (found.reshape(truth.shape).numpy(),)


def _distance(found: tuple, exact: tuple) -> float:
    pairs = list(zip(found, exact, strict=True))
    size = float(sum((b**2).sum() for _, b in pairs)) ** 0.5 or 1.0  # the outputs of a head of zeros are 0
    return float(sum(((a - b) ** 2).sum() for a, b in pairs)) ** 0.5 / size
