"""One random model, trained by every backend and by torch in float64: how far apart they end.

Where a gradient is what is left of large terms, float32 says little of it: a backend may be a few times as far from
float64 as torch is in float32. Where a ReLU or a pool's winner hangs on the last bits, float32 may decide otherwise,
and a whole gradient goes another way. Such a thing happens with some parameters and data and not with others, while
a mistake in a kernel does not care: a graph counts as wrong if it is with each of a few draws of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch

from edgefl import kernels
from edgefl.learning import FitOptions, GraphLearner, Learner, Samples
from edgefl.learning.batches import Keyed, Listed
from edgefl.learning.lowering.active_ids import trained_blocks
from edgefl.learning.lowering.gradient_needs import RowsCols
from edgefl.models.graph import Model, Params
from edgefl.models.graph.cuts import after, cuts, until
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.trainable_parameters import TrainableParameters

from . import oracle
from .graphs import model, targets
from .random_graphs import CLASSES, Trial, trial

DRAWS = 4
REFERENCE_EVERY, NUMBA_EVERY, CUT_EVERY = 10, 60, 3
THREADS = (1, 3)
# Allowed: of a parameter's largest move, of any's, of its largest value, and of torch's own error in float32.
OF_MOVE, OF_ALL, OF_VALUE, OF_ROUNDING = 2e-4, 5e-6, 3e-7, 8.0


class Way(NamedTuple):
    """A backend, and of the native one its instruction set and threads."""

    backend: str
    isa: str = ""
    threads: int = 1

    def __str__(self) -> str:
        return f"{self.backend} {self.isa} with {self.threads} threads" if self.isa else self.backend


def ways(seed: int) -> Iterator[Way]:
    """Yield every instruction set of this machine, with one thread or several, and the slow backends now and then."""
    native: ModuleType = kernels.backend("native")
    for number, isa in enumerate(filter(native.has_isa, kernels.ISAS)):
        yield Way("native", isa, THREADS[(seed + number) % len(THREADS)])
    if seed % REFERENCE_EVERY == 0:
        yield Way("reference")
    if seed % NUMBA_EVERY == 0 and find_spec("numba"):
        yield Way("numba")


def check(seed: int) -> None:
    """Raise AssertionError, with the command that repeats it, if a way ends elsewhere than torch.

    Some seeds are tried after a cut, too, where the graph has a cut.
    """
    chosen = trial(seed)
    _check(chosen, seed, "")
    cut_points = cuts(chosen.graph)
    if cut_points and seed % CUT_EVERY == 0:
        _check(chosen, seed, cut_points[np.random.default_rng([seed, 3]).integers(len(cut_points))])


def _check(chosen: Trial, seed: int, cut: str) -> None:
    left = dict.fromkeys(ways(seed), "")
    for draw in range(DRAWS):
        problem = Problem.of(chosen, seed, draw, cut)
        expected = problem.solved()
        left = problem.differences(left, expected, {})
        if left:
            left = problem.differences(left, expected, problem.rounding(expected))
        if not left:
            return
    way, difference = next(iter(left.items()))
    again = f"python -m tests fuzz --graphs 1 --seed {seed}"
    raise AssertionError(f"seed {seed}, {way}, cut after {cut!r}: {difference}\n{chosen}\n{again}")


@dataclass(frozen=True)
class Problem:
    """A trial with parameters and data, after a cut if one is named."""

    trial: Trial
    model: Model
    data: Samples
    batches: list[np.ndarray]
    centre: Params
    linear: Params
    cut: str = ""

    @staticmethod
    def of(chosen: Trial, seed: int, number: int, cut: str = "") -> Problem:
        draw = np.random.default_rng([seed, 1, number])
        start = model(chosen.graph, 1000 * seed + number)
        count = max(chosen.sizes) + 2
        x = draw.integers(0, 256, (count, *chosen.graph.input_shape)).astype(np.uint8)
        if not chosen.are_bytes:
            x = draw.standard_normal(x.shape).astype(np.float32)
        if chosen.graph.vocabulary is not None:
            x = draw.integers(0, chosen.graph.vocabulary, x.shape).astype(x.dtype)
        y = targets(chosen.loss, draw, count, CLASSES)
        batches = [draw.integers(0, count, size).astype(np.int32) for size in chosen.sizes]
        beside = [
            {
                name: (value + 0.1 * draw.standard_normal(value.shape)).astype(np.float32)
                for name, value in params.items()
            }
            for params in (start.params, {name: 0 * value for name, value in start.params.items()})
        ]
        return Problem(chosen, start, Samples(x, y, chosen.scale, chosen.shift, chosen.loss), batches, *beside, cut)

    @property
    def pull(self) -> tuple[float, Params] | None:
        return None if self.trial.mu is None else (self.trial.mu, self.centre)

    @property
    def dropout(self) -> Keyed:
        """Return a dropout position whose bits above the lowest 32 count, too."""
        return Keyed((1 << 63) + len(self.data), 2**32 - 1)

    def solved(self, dtype: torch.dtype = torch.float64) -> Params:
        """Return the result of torch."""
        chosen, spec = self.trial, ModelSpec.of(self.trial.graph)
        graph, params, data = chosen.graph, self.model.params, self.data
        if self.cut:
            graph, data = after(graph, self.cut), self._still(dtype)
            spec = spec.part(graph)
            params = {name: params[name] for name in spec.params}
        nothing = np.zeros(0, np.int32)
        learned = [name for name, param in spec.params.items() if param.kind == "learn"]
        blocks = dict.fromkeys(learned, (nothing, None)) | self._trained(spec)
        linear = self.linear if chosen.is_linear else None
        at_neurons = oracle.cut(blocks) if chosen.delta == "cut" else None
        given = (graph, params, data, self.batches, chosen.optimizer)
        found, _ = oracle.train(*given, blocks, self.pull, linear, at_neurons, dtype, self.dropout)
        return found if chosen.bn_frozen == "track" else found | self._frozen(spec, found)

    def _trained(self, spec: ModelSpec) -> dict[str, RowsCols]:
        """The trained rows and columns of the parameters of `spec`, which is the model or a part of it."""
        chosen = TrainableParameters.of(ModelSpec.of(self.trial.graph), self.trial.trainable)
        return dict(trained_blocks(spec, chosen.within(spec)))

    def _still(self, dtype: torch.dtype) -> Samples:
        """Results at the cut, by torch in evaluation mode."""
        graph, data = until(self.trial.graph, self.cut), self.data
        params = oracle.to_torch({name: self.model.params[name] for name in graph.parameters()}, dtype)
        with torch.no_grad():
            x = torch.tensor(data.x).to(dtype) * data.scale + data.shift
            results = oracle.logits(graph, params, x.reshape(len(x), *graph.input_shape), training=False)
        return Samples(results.reshape(len(x), *graph.output_shape).contiguous().numpy(), data.y, loss=data.loss)

    def _frozen(self, spec: ModelSpec, found: Params) -> Params:
        """Running statistics, which only follow the batches where they are trained."""
        statistics = {name: param for name, param in spec.params.items() if param.kind == "stat"}
        trained = self._trained(spec)
        kept = {}
        for name in statistics:
            weight = f"{name.rpartition('.')[0]}.weight"
            rows = trained[weight][0] if weight in trained else np.zeros(0, np.int32)
            active = oracle.mask(found[name].shape, rows, None)
            kept[name] = np.where(active, found[name], self.model.params[name])
        return kept

    def rounding(self, expected: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Return by parameter how far torch itself ends from `expected` in float32."""
        found = self.solved(torch.float32)
        return {name: float(np.abs(found[name] - value).max()) for name, value in expected.items()}

    def differences(
        self, ways: Iterable[Way], expected: Mapping[str, np.ndarray], rounding: Mapping[str, float]
    ) -> dict[Way, str]:
        """The ways that end elsewhere, and where, in words."""
        found = {way: self.difference(way, expected, rounding) for way in ways}
        return {way: difference for way, difference in found.items() if difference}

    def difference(self, way: Way, expected: Mapping[str, np.ndarray], rounding: Mapping[str, float]) -> str:
        """Return in words where a backend ends elsewhere, or ""."""
        with using(way), np.errstate(invalid="ignore"):  # of signals that nobody reads
            found = self.fitted(GraphLearner(self.model, way.backend))
        return self.judged(found, expected, rounding)

    def fitted(self, learner: Learner) -> Mapping[str, np.ndarray]:
        """Return the parameters with which a learner of the model ends."""
        chosen = self.trial
        linear = self.linear if chosen.is_linear else None
        batches = Listed(self.batches, self.dropout)
        options = FitOptions(chosen.trainable, self.pull, linear, chosen.delta, chosen.bn_frozen, self.cut)
        learner.fit(self.data, batches, chosen.optimizer, options)
        return learner.read()

    def judged(
        self, found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], rounding: Mapping[str, float]
    ) -> str:
        """Return in words where `found` differs from `expected` by too much, or ""."""
        start = self.model.params
        for name in start.keys() - expected.keys():
            if found[name].tobytes() != start[name].tobytes():
                return f"{name}, which stands still, has changed"
        moves = {name: float(np.abs(value - start[name]).max()) for name, value in expected.items()}
        most = max(moves.values())
        for name, value in expected.items():
            allowed = OF_MOVE * moves[name] + OF_ALL * most + OF_VALUE * float(np.abs(value).max())
            allowed += OF_ROUNDING * rounding.get(name, 0.0)
            error = np.abs(found[name] - value)
            if not error.max() <= allowed:
                at = tuple(map(int, np.unravel_index(int(np.argmax(error)), error.shape)))
                ends = f"{found[name][at]:.7g}, torch at {value[at]:.7g}"
                return f"{name}{list(at)} ends at {ends}, from {start[name][at]:.7g}; allowed {allowed:.1g}"
        return ""


@contextmanager
def using(way: Way) -> Iterator[None]:
    """The native kernels' instruction set and threads for the length of the with block."""
    native: ModuleType = kernels.backend("native")
    isa, threads = native.isa(), native.threads()
    try:
        native.cap_isa(way.isa or isa)
        native.set_threads(way.threads)
        yield
    finally:
        native.cap_isa(isa)
        native.set_threads(threads)
