"""Checks that a method can do its work within the trained part of a model. They pass for a model without frozen
parameters.

personal_head.py has the checks of methods whose clients have heads of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgefl.models.neurons.density import weights
from edgefl.models.neurons.model_spec import ModelSpec, groups_of

SHOWN = 3  # names of parameters in an error message


def check_neurons(spec: ModelSpec, keep: Sequence[float]) -> None:
    """Raise ValueError if clients shall train a share of the neurons and no neuron belongs to the trained part."""
    if not spec.frozen or min(keep) == 1:
        return
    axes = [axis for name in spec.learned for axis in (spec.params[name].rows, spec.params[name].cols)]
    if not any(group for axis in axes for group in groups_of(axis)):
        raise ValueError(
            f"keep={min(keep):g}, but the trained part {_listed(spec)} has no neurons, so that every client would "
            "train all of it; expected keep=1, or fedavg, which trains the same"
        )


def check_weights(spec: ModelSpec) -> None:
    """Raise ValueError if the trained part has no weight that a mask may thin out."""
    if spec.frozen and not weights(spec):
        raise ValueError(
            f"the trained part {_listed(spec)} has no weights of two or more dimensions, of which alone a mask keeps a "
            "share; expected such a weight, or fedavg, which trains the same part without masks"
        )


def _listed(spec: ModelSpec) -> str:
    """Return the first names of the trained part in words."""
    first = ", ".join(spec.learned[:SHOWN])
    return f"{first}, ..." if len(spec.learned) > SHOWN else first
