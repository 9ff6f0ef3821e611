"""Two published attacks that rebuild pictures from the gradient of a model, or from a sum of gradients.

The gradient attack (Geiping et al. 2020, "Inverting Gradients") searches pictures whose gradient has the direction of
the given gradient. Equation 4 of the paper is the loss, and Adam takes the signs of its gradients. The neuron attack
(Phong et al. 2017; Boenisch et al. 2023, "When the Curious Abandon Honesty") reads pictures from the first linear
layer. If a neuron was active for one picture alone, the gradient of its weights divided by the gradient of its bias is
this picture.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

DROPS = (3 / 8, 5 / 8, 7 / 8)  # parts of all steps after which the rate falls to a tenth, as in the paper's code


@dataclass(frozen=True)
class GradientAttack:
    """The numbers of the gradient attack.

    steps      steps of Adam
    rate       rate of the first steps
    smoothing  weight of the total variation in the loss (alpha in the paper)
    """

    steps: int = 500
    rate: float = 0.1
    smoothing: float = 1e-2

    def rebuild(
        self, model: nn.Module, gradients: list[Tensor], labels: Tensor, shape: torch.Size, seed: int
    ) -> Tensor:
        """Return the rebuilt pictures, [groups, pictures, *shape] with values from 0 to 1.

        gradients  of every parameter of the model, [groups, *parameter], each up to a positive factor
        labels     [groups, pictures], which the attacker knows
        shape      of one picture
        seed       of the random pictures from which the search begins
        """
        draw = torch.Generator().manual_seed(seed)
        pictures = torch.rand((*labels.shape, *shape), generator=draw).requires_grad_()
        optimiser = torch.optim.Adam([pictures], self.rate)
        drops = [int(part * self.steps) for part in DROPS]
        rates = torch.optim.lr_scheduler.MultiStepLR(optimiser, drops, 0.1)
        wanted = _rows(gradients)
        for _ in range(self.steps):
            found = _rows(gradients_of(model, pictures, labels))
            unlike = 1 - torch.cosine_similarity(found, wanted, dim=1)
            loss = (unlike + self.smoothing * total_variation(pictures)).sum()
            (slope,) = torch.autograd.grad(loss, [pictures])
            pictures.grad = slope.sign()
            optimiser.step()
            rates.step()
            with torch.no_grad():
                pictures.clamp_(0, 1)
        return pictures.detach()


def gradients_of(model: nn.Module, pictures: Tensor, labels: Tensor) -> list[Tensor]:
    """Return the gradients of the mean loss of each group, [groups, *parameter] for every parameter.

    pictures  [groups, pictures, *shape]
    labels    [groups, pictures]
    """
    parameters = dict(model.named_parameters())

    def loss(values: dict[str, Tensor], inputs: Tensor, classes: Tensor) -> Tensor:
        return nn.functional.cross_entropy(functional_call(model, values, (inputs,)), classes)

    return list(vmap(grad(loss), (None, 0, 0))(parameters, pictures, labels).values())


def total_variation(pictures: Tensor) -> Tensor:
    """Return the mean difference of adjacent pixels of each group, [groups]."""
    down = (pictures[..., 1:, :] - pictures[..., :-1, :]).abs()
    across = (pictures[..., :, 1:] - pictures[..., :, :-1]).abs()
    return down.flatten(1).mean(1) + across.flatten(1).mean(1)


def neurons_pictures(weight: Tensor, bias: Tensor, shape: torch.Size) -> Tensor:
    """Return what the neurons of the first linear layer show, [neurons, *shape] with values from 0 to 1.

    weight  gradient of the layer's weights, [neurons, pixels]
    bias    gradient of its biases, [neurons]; a neuron with 0 has seen nothing and is left out
    """
    seen = bias != 0
    return (weight[seen] / bias[seen, None]).clamp(0, 1).reshape(-1, *shape)


def _rows(gradients: list[Tensor]) -> Tensor:
    """Return the gradients of all parameters in one row for each group."""
    return torch.cat([each.flatten(1) for each in gradients], 1)
