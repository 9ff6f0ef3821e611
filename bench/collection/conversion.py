"""The conversion of one model of the collection: taken or refused, by which sentence, and in how many seconds."""

from __future__ import annotations

import copy
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bench.collection import oracle
from bench.collection.entry import Entry
from edgefl.errors import EdgeflError
from edgefl.learning import GraphLearner, Samples, pack_inputs
from edgefl.learning.losses import MSE, CrossEntropy
from edgefl.models.graph import Model
from edgefl.torch import from_torch

BATCH = 16


class Outcome(NamedTuple):
    """The result of a conversion.

    model      the graph and its parameters, or None if the module was refused
    refusal    the sentence of the refusal, or the empty text
    convert_s  seconds of CPU time of from_torch
    warned     the warnings of from_torch
    """

    model: Model | None
    refusal: str
    convert_s: float
    warned: tuple[str, ...] = ()


def converted(module: nn.Module, example: tuple[Tensor, ...]) -> Outcome:
    """Convert a module with edgefl's public function. An error of another type than EdgeflError counts as a crash."""
    before = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = from_torch(module, example[0] if len(example) == 1 else example, **_of_all_outputs(module, example))
            refusal = ""
        except EdgeflError as error:
            model, refusal = None, str(error)
        except Exception as error:
            model, refusal = None, f"CRASH {type(error).__name__}: {error}"
    warned = tuple(str(each.message) for each in caught if issubclass(each.category, UserWarning))
    return Outcome(model, refusal, time.process_time() - before, warned)


def _of_all_outputs(module: nn.Module, example: tuple[Tensor, ...]) -> dict[str, Any]:
    """Return the settings that train all outputs of a module of several outputs with weight 1. The first is the main
    output.
    """
    with torch.no_grad():
        found = oracle.outputs_of(copy.deepcopy(module)(*example))
    return {} if isinstance(found, Tensor) else {"output": 0, "outputs": dict.fromkeys(range(1, len(found)), 1.0)}


def exported_s(module: nn.Module, example: tuple[Tensor, ...]) -> float | None:
    """Return the seconds of CPU time of torch.export with a free batch, or None if torch does not export the module."""
    batch = torch.export.Dim("batch", min=2)
    before = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.export.export(module, example, dynamic_shapes=[{0: batch}] * len(example), strict=False)
    except Exception:  # whatever torch raises, the module is not exported
        return None
    return time.process_time() - before


def samples(entry: Entry, example: tuple[Tensor, ...], target: Tensor | tuple[Tensor, ...]) -> Samples:
    """Return a batch as edgefl's samples. Raises EdgeflError where edgefl has no such inputs or targets."""
    targets = target if isinstance(target, tuple) else (target,)
    labels = CrossEntropy(class_axis=entry.axis_of_classes)
    dtype, loss = (torch.float32, MSE()) if entry.target == "values" else (torch.int32, labels)
    y, *further = (each.to(dtype).contiguous().numpy() for each in targets)
    return Samples(inputs(example), y, loss=loss, auxiliary=tuple(further))


def inputs(example: tuple[Tensor, ...]) -> np.ndarray:
    """Return the inputs of a batch as edgefl's samples x: several inputs side by side."""
    if len(example) > 1:
        return pack_inputs([each.numpy() for each in example])
    return example[0].to(torch.float32).contiguous().numpy()


def untrainable(entry: Entry, model: Model, module: nn.Module) -> str:
    """Return the sentence by which the learner refuses to train a converted model, or the empty text."""
    example = entry.example(BATCH)
    with torch.no_grad():
        output = oracle.outputs_of(module(*example))
    try:
        batch = samples(entry, example, entry.targets(output))
        GraphLearner(model).evaluate(batch)
        if model.graph.auxiliary:  # evaluations do not compute them
            GraphLearner(model).gradient(batch, np.arange(BATCH, dtype=np.int32), key=1)
    except EdgeflError as error:
        return str(error)
    except Exception as error:
        return f"CRASH {type(error).__name__}: {error}"
    return ""
