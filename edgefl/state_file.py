"""The state of a method's server as a file: its named sets of arrays, as safetensors. Not its plain values.

An array is named "set/parameter". Writing is the caller's, who knows when it must be durable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import safetensors.numpy

from edgefl.algorithms.base import State
from edgefl.durable import load_arrays
from edgefl.graph import Params


def pack(state: State) -> bytes:
    """The arrays of a state as the content of a file."""
    arrays = {f"{group}/{name}": a for group, params in state.arrays.items() for name, a in params.items()}
    return safetensors.numpy.save(arrays)


def load(file: Path, values: dict[str, Any]) -> State:
    """The state with the arrays of a file and these plain values. Raises RunError if it is missing or corrupt."""
    arrays: dict[str, Params] = {}
    for name, array in load_arrays(file)[0].items():
        group, _, parameter = name.partition("/")
        arrays.setdefault(group, {})[parameter] = array
    return State(arrays, values)
