"""The class ModuleGradients: gradients of the mean loss of a torch module. It changes no parameter and no buffer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from edgefl.learning.batches import Keyed
from edgefl.learning.fit_options import FitOptions
from edgefl.learning.learner import Gradient, Samples
from edgefl.learning.running.growth_request import check_counts
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.top_k import largest, magnitudes
from edgefl.torch.masked_parameters import MaskedParameters
from edgefl.torch.optimizer_steps import TrainedCoordinates
from edgefl.torch.parameter_arrays import buffers_kept
from edgefl.torch.passes import Passes, chunks


class ModuleGradients:
    """A computer of gradients of the module that the passes run."""

    def __init__(self, module: nn.Module, spec: ModelSpec, parameters: MaskedParameters, passes: Passes) -> None:
        self._module, self._spec, self._parameters, self._passes = module, spec, parameters, passes

    def gradient(
        self, samples: Samples, index: NDArray[np.int32], options: FitOptions, chunk: int | None, key: int | None
    ) -> Gradient:
        """Return the gradient of the mean loss over `index`, like TorchLearner.gradient.

        options  options of a fit, whose `trainable` and `delta` say which parameters the gradient is for
        """
        passes = self._passes
        passes.check(samples, index)
        positions, divisor = self._parameters.trained(options.trainable), samples.loss.divisor(samples.y, index)
        position, total, loss_sum = None if key is None else Keyed(key), dict[str, Tensor](), 0.0
        with passes.training(position, options.trainable, options.delta), buffers_kept(self._module):
            for part in chunks(index, chunk):
                loss, found = passes.gradients(samples, part, positions)
                share = samples.loss.divisor(samples.y, part) / divisor if divisor else 0.0
                for name, value in found.items():
                    block = positions[name].take(value) * share
                    total[name] = total[name] + block if name in total else block
                loss_sum += loss.item() * share * len(index)
                passes.dropping.count_examples(len(part))
        gradient = Gradient({name: value.cpu().numpy() for name, value in total.items()})
        gradient.loss_sum = loss_sum
        return gradient

    def strongest(
        self, samples: Samples, index: NDArray[np.int32], outside: Mask, counts: Mapping[str, int]
    ) -> Mapping[str, NDArray[np.uint32]]:
        """Return the `counts[name]` coordinates outside a mask with the largest |gradient|, for each named parameter.

        It works like GraphLearner.strongest.
        """
        self._passes.check(samples, index)
        outside = Mask.of(self._spec, outside.bits)
        check_counts(self._spec, outside, counts)
        sought = {name: TrainedCoordinates() for name, count in counts.items() if count}
        positions = {name: np.zeros(0, np.uint32) for name in counts}
        if not sought:
            return positions
        with buffers_kept(self._module):
            self._passes.train()
            _, found = self._passes.gradients(samples, index, sought, search=True)
        for name, value in found.items():
            candidates = np.flatnonzero(~outside.bits[name])
            chosen = largest(magnitudes(value.cpu().numpy().reshape(-1)[candidates]), counts[name])
            positions[name] = candidates[chosen].astype(np.uint32)
        return positions
