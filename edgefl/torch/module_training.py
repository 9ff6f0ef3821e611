"""The class ModuleTraining: the steps of a fit of a torch module.

passes.py computes the gradients, and optimizer_steps.py moves the parameters.
"""

from __future__ import annotations

import torch

from edgefl.errors import TrainingError
from edgefl.learning.batches import keyed
from edgefl.learning.fit_options import FitOptions
from edgefl.learning.learner import Batches, FitResult, Samples
from edgefl.learning.optimizers import Optimizer
from edgefl.learning.running import running_statistics
from edgefl.learning.running.input_checks import sizes_of
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.torch.masked_parameters import MaskedParameters
from edgefl.torch.optimizer_steps import Stepper
from edgefl.torch.passes import Passes


class ModuleTraining:
    """A trainer of the parameters that a specification lists, with the passes of their module."""

    def __init__(self, spec: ModelSpec, parameters: MaskedParameters, passes: Passes) -> None:
        self._spec, self._parameters, self._passes = spec, parameters, passes

    def fit(self, samples: Samples, batches: Batches, optimizer: Optimizer, options: FitOptions) -> FitResult:
        """Take one step per batch, in order, like TorchLearner.fit. The options have no cut."""
        passes, trainable = self._passes, options.trainable
        if optimizer.micro_batch:
            raise TrainingError(
                f"micro_batch={optimizer.micro_batch} with a learner of torch; expected 0, whole batches"
            )
        passes.check(samples)
        sizes_of(batches, len(samples))
        positions = self._parameters.trained(trainable)
        wholes = {name: self._parameters.held.whole(name) for name in positions}
        stepper = Stepper(wholes, positions, optimizer, options)
        is_frozen = options.bn_frozen == "freeze"
        left_alone = running_statistics.frozen(self._spec, trainable) if is_frozen else {}
        total, divisor, examples = torch.zeros((), dtype=torch.float64, device=passes.device), 0.0, 0
        with (
            passes.training(keyed(batches), trainable, options.delta, optimizer.saved),
            self._parameters.statistics_kept(left_alone),
        ):
            for rows in batches:
                loss, found = passes.gradients(samples, rows, positions)
                stepper.step(found)
                passes.dropping.count_step()
                share = samples.loss.divisor(samples.y, rows)
                total, divisor, examples = total + loss * share, divisor + share, examples + len(rows)
        return FitResult(total.item() * examples / divisor if divisor else 0.0, examples, len(batches))
