"""FitOptions: the parameters that the steps of a fit train, and the terms that they add to the loss. No step is taken
here.

`options_of` reads the former way of calling `fit`, which passed the options one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal
from warnings import warn

from numpy.typing import NDArray

from edgefl.models.neurons.trainable_parameters import Trainable

Array = NDArray[Any]
Delta = Literal["exact", "cut"]
FrozenStats = Literal["track", "freeze"]
Pull = tuple[float, Mapping[str, Array]]


@dataclass(frozen=True)
class FitOptions:
    """The parameters that a call of `Learner.fit` trains, and the terms that it adds to the loss of the samples.

    trainable  A TrainableParameters says for each parameter whether it is trained whole, in rows and columns, at a
               mask, or not at all. A NeuronSet selects the blocks of its neurons. A collection of names selects whole
               parameters, and the name of a layer selects its parameters. A Mask selects its coordinates. None selects
               every parameter. What is not selected keeps its bits, and `bn_frozen` describes the one exception. While
               the learner keeps to a mask, the masked parameters can be selected as a whole only.
    pull       A pair (mu, centre) adds mu / 2 |w - centre|^2 to the loss. `centre` maps the name of each parameter of
               the model to an array of the parameter's shape. None adds no such term.
    linear     A mapping of the name of each parameter of the model to an array of the parameter's shape adds the inner
               product of w with these arrays to the loss. None adds no such term.
    delta      "exact" computes the true gradient of the selected parameters. With "cut" the gradient at the output of a
               layer is set to zero on frozen neurons before it is passed back. "cut" costs less.
    bn_frozen  With "track" the running statistics of frozen channels follow the batches. With "freeze" they have the
               same values after the fit as before it.
    cut        The name of a result in the graph from which everything after it follows (models/graph/cuts.py). The fit
               trains only what lies after the result. The part before it runs once over the samples, with running
               statistics and without dropout. Its results are stored for all steps, as float32 or float16 according to
               the optimizer's `saved`. The empty name trains the whole model.
    """

    trainable: Trainable = None
    pull: Pull | None = None
    linear: Mapping[str, Array] | None = None
    delta: Delta = "exact"
    bn_frozen: FrozenStats = "track"
    cut: str = ""


def options_of(options: object, positional: tuple[Any, ...] = (), named: Mapping[str, Any] | None = None) -> FitOptions:
    """Return the options of a call of `fit`, which may have passed them one by one, as `fit` took them formerly.

    options     a FitOptions, or the value of `trainable`, which formerly stood at this position
    positional  the further positional arguments, in the order of the fields of FitOptions
    named       the keyword arguments, which are named like the fields of FitOptions
    Warns       with a DeprecationWarning that points at the caller of `fit`, if the options came one by one
    Raises      TypeError for an argument that `fit` never took, or that was passed twice
    """
    if isinstance(options, FitOptions) and not positional and not named:
        return options
    names = [field.name for field in fields(FitOptions)]
    if isinstance(options, FitOptions):
        if positional:
            raise TypeError(
                f"fit got FitOptions and {len(positional)} more positional arguments; expected FitOptions only"
            )
        start = options
    else:
        start, positional = FitOptions(), (options, *positional)
    if len(positional) > len(names):
        raise TypeError(f"fit got {len(positional)} options by position; expected at most {len(names)}")
    found = replace(start, **dict(zip(names, positional, strict=False)), **(named or {}))
    given = [*names[: len(positional)], *(named or {})]
    now = ", ".join(f"{name}=..." for name in given)
    warn(f"fit takes FitOptions({now}) now, in place of {', '.join(given)}", DeprecationWarning, stacklevel=3)
    return found
