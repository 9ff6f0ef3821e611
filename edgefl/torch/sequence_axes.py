"""The conversion of a torch module with samples whose axes the caller names.

The order in which the module takes channels and steps is found by trying. trace.py traces the module, and
models/graph/axis_reading.py knows the axes of a graph's operations.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from edgefl.errors import GraphError
from edgefl.models.graph import Model
from edgefl.models.graph.axis_reading import NCL, NLC, OTHER, fitting_order, read_order
from edgefl.torch.attempt_warnings import warnings_of_success
from edgefl.torch.trace import read_module

Inputs = NDArray[np.float32]
Read = tuple[Model, nn.Module]  # the model, and the softmax that is left to the loss
ALONG_STEPS = (nn.Conv1d, nn.BatchNorm1d, nn.RNNBase, nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.MaxPool1d)


def read_with(module: nn.Module, inputs: Inputs, axes: str = "") -> Read:
    """Return the result of `read_module` with real inputs, which are ids if the module looks up rows of a table.

    inputs  [N, ...] as data sets have them: sequences are [N, channels, steps], or [N, 1, rows, columns] if their axes
            were not named
    axes    name of the data's axes, empty if they were not named
    Raises  GraphError if edgefl cannot take the module, or if the module does not take such inputs. The message then
            says which axes would fit.
    """
    if inputs.ndim == 3:
        return _in_either_order(module, inputs, axes)
    try:
        return _read(module, inputs)
    except GraphError as error:
        if inputs.ndim != 4 or inputs.shape[1] != 1:
            raise
        return _as_lines(module, inputs[:, 0], error)


def _read(module: nn.Module, inputs: Inputs) -> Read:
    has_ids = any(isinstance(part, nn.Embedding) for part in module.modules())
    example = torch.from_numpy(np.ascontiguousarray(inputs))
    return read_module(module, example.long() if has_ids else example)


def _in_either_order(module: nn.Module, inputs: Inputs, axes: str) -> Read:
    """Convert with sequences whose axes are known, in the caller's order, and in the other order if that fails."""
    orders = (NLC, NCL) if axes == NLC else (NCL, NLC)
    shape = (inputs.shape[1], inputs.shape[2])
    given = {NCL: inputs, NLC: inputs.transpose(0, 2, 1)}
    failures: dict[str, str] = {}
    for order in orders:
        try:
            with warnings_of_success():
                found = _read(module, given[order])
        except GraphError as error:
            failures[order] = str(error)
            continue
        graph = found[0].graph
        if shape[0] == shape[1] and not read_order(graph):
            raise GraphError(
                f"axes={axes or NCL}: no layer of the module says which of {shape[0]} x {shape[1]} values of an "
                f"example are channels and which are steps; expected no axes, and x as the module takes it"
            )
        if fitting_order(graph, shape) == order and read_order(graph) in ("", order):
            return found
        failures[order] = (
            f"the module reads {_shown(given[order])} as {_named(read_order(graph))}, and axes={axes or NCL} "
            f"gives the data another order; expected axes={OTHER[axes or NCL]}"
        )
    raise GraphError(_told(failures, given, orders))


def _told(failures: dict[str, str], given: dict[str, Inputs], orders: tuple[str, ...]) -> str:
    """Return what is wrong: that the axes are in another order, or else the failures of both orders."""
    contradictions = [text for text in failures.values() if text.startswith("the module reads")]
    if contradictions:
        return contradictions[0]
    first, second = orders
    if failures[first] == failures[second]:
        return failures[first]
    shown = f"with x as {_shown(given[first])}: {failures[first]}"
    return f"{shown}; with x as {_shown(given[second])}: {failures[second]}"


def _as_lines(module: nn.Module, inputs: Inputs, error: GraphError) -> Read:
    """Convert with rows and columns whose axes are not named, and which the module does not take as images.

    error   the failure with the samples as images of one channel
    """
    try:
        with warnings_of_success():
            return _read(module, inputs)
    except GraphError as found:
        of_lines = found
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = _read(module, inputs.transpose(0, 2, 1))[0].graph
    except GraphError:
        is_of_lines = any(isinstance(part, ALONG_STEPS) for part in module.modules())
        raise (of_lines if is_of_lines else error) from None
    order = read_order(graph)
    raise GraphError(
        f"the module takes {_shown(inputs.transpose(0, 2, 1))}{f', {_named(order)},' if order else ''} and x is "
        f"{_shown(inputs)}; expected axes={NCL if order == NLC else NLC}"
    )


def _shown(inputs: Inputs) -> str:
    return f"[N, {', '.join(map(str, inputs.shape[1:]))}]"


def _named(order: str) -> str:
    return {NCL: "channels and steps", NLC: "steps and channels"}[order]
