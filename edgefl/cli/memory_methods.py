"""The way of training that a federated method has, for `edgefl memory --method NAME`.

The accounts know ways of training (learning/memory/training_setup.py), and several methods train in one way.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from edgefl.learning.memory import METHODS as WAYS
from edgefl.learning.memory.training_setup import Method
from edgefl.methods import METHODS, FedSpa, FedSPU, PruneFL, SubFedAvg, SubModels, build, parse
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.head_training import HeadTraining
from edgefl.methods.method_label import Variant

KINDS: dict[Method, tuple[type[Algorithm], ...]] = {  # way of training -> classes of methods that train so
    "fedspu": (FedSPU,),
    "drop": (SubModels,),
    "sparse": (FedSpa, SubFedAvg, PruneFL),
    "pflego": (HeadTraining,),
}
STEPS = ("batch", "optimizer", "momentum", "saved", "micro_batch")  # options of a method that the command has, too


def resolve(options: argparse.Namespace) -> str:
    """Replace the name of a federated method in `options.method` by its way of training, and take over the method's own
    options. Return a sentence about it, or "" if `options.method` is a way of training already.

    Raises  ValueError for an unknown name or option, or for shares that are given twice
    """
    label = options.method
    if label is None or label in WAYS:
        return ""
    name = Variant.of(label).method
    if name not in METHODS and ":" not in name:
        raise ValueError(f"--method {label}; expected one of {', '.join(WAYS)}, or a method of edgefl methods")
    algorithm, written = build(label, {}), dict(Variant.of(label).options)
    own = {option: parse([name], option, text) for option, text in written.items() if option != "rounds"}
    options.method = way = way_of(algorithm)
    shares, layers = _shares(algorithm), getattr(algorithm, "head_layers", 1)
    if way == "pflego" and layers > 1:
        raise ValueError(f"head_layers={layers} with edgefl memory; expected head_layers=1, the only head it counts")
    if shares is not None and (options.keep or options.density):
        given = "--density" if options.density else "--keep"
        if own.keys() & {"keep", "density"}:
            raise ValueError(f"{given} with --method {label}; expected one of them")
    elif shares is not None:
        options.keep = shares
    for option in STEPS:
        if option in own:
            setattr(options, option, own[option])
    return (
        f"{label} trains in the way {way}. Nothing is counted that a method keeps beside the model which it trains, "
        "such as a second model or control variates."
    )


def way_of(algorithm: Algorithm) -> Method:
    """Return the way in which a method trains."""
    return next((way for way, kinds in KINDS.items() if isinstance(algorithm, kinds)), "full")


def _shares(algorithm: Algorithm) -> Sequence[float] | None:
    """Return the shares of neurons or weights that a method trains, or None for the shares of the command.

    A density of 0 stands for masks that the method sizes itself. Masks of Sub-FedAvg begin whole.
    """
    if isinstance(algorithm, (FedSPU, SubModels)):
        return tuple(sorted(set(algorithm.keep)))
    if isinstance(algorithm, KINDS["sparse"]):
        density = float(getattr(algorithm, "density", 0.0)) or 1.0
        return tuple(sorted({density, 1.0 if isinstance(algorithm, SubFedAvg) else density}))
    return None
