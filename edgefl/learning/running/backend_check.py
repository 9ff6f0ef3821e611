"""The check that a backend computes what a learner is asked for."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from edgefl.errors import BackendError, GraphError
from edgefl.kernels.memory import HOST, memory_of
from edgefl.models.graph import Graph


def check_backend(backend: ModuleType, floats: np.dtype[Any], graph: Graph, int8_activations: bool) -> None:
    """Raise BackendError unless the backend computes in this type, and multiplies codes where activations are int8.

    Raise GraphError for int8 activations of a graph without int8 weights.
    """
    if floats != np.float32 and not backend.__name__.endswith(".reference"):
        raise BackendError(f"dtype={floats} with {backend.__name__}; expected float32, or reference")
    if int8_activations and not any(each.precision == "int8" for each in graph.quantized):
        raise GraphError("int8_activations of a model without int8 weights; expected a model of quantize_model")
    if int8_activations and memory_of(backend) is not HOST:
        raise BackendError("int8_activations on CUDA; expected a backend on the processor: native, numba or reference")
