"""Named sets of arrays as a file in the format safetensors: the state of a method's server, and what a client keeps.

Plain values of a state are not in the file. An array is named "set/parameter". The caller writes the file, because the
caller knows when it must be durable.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from edgefl.methods.task import MODEL, State
from edgefl.models.graph import Params
from edgefl.system.durable_files import check_sha256, load_arrays


class StoredClientState(NamedTuple):
    """The state that a client keeps between rounds.

    params   model of the client without its frozen parameters, which the initial model has. It is empty where the
             method keeps no model
    private  private plain values
    arrays   private sets of arrays
    """

    params: Mapping[str, np.ndarray]
    private: dict[str, Any]
    arrays: dict[str, Params]

    def flat(self) -> dict[str, np.ndarray]:
        """Return all arrays, by the names that they have in a file."""
        return flat({MODEL: self.params, **self.arrays})

    @staticmethod
    def of(arrays: Mapping[str, np.ndarray], private: dict[str, Any]) -> StoredClientState:
        """Return the state from the arrays that `flat` returns, with these private values."""
        found = sets(arrays)
        return StoredClientState(found.pop(MODEL, {}), private, found)


def pack(state: State) -> bytes:
    """Return the arrays of a state as the content of a file."""
    return safetensors.numpy.save(flat(state.arrays))


def load(file: Path, values: dict[str, Any], sha256: str | None = None) -> State:
    """Return the state with the arrays of a file and these plain values. Raises RunError if the file is missing or
    corrupt.

    sha256  digest of the file in hexadecimal, if it is known
    """
    if sha256 is not None:
        check_sha256(file, sha256)
    return State(sets(load_arrays(file)[0]), values)


def flat(arrays: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the arrays of all sets, by the names that they have in a file."""
    return {f"{group}/{name}": array for group, params in arrays.items() for name, array in params.items()}


def sets(arrays: Mapping[str, np.ndarray]) -> dict[str, Params]:
    """Return the sets from the arrays that `flat` returns. A set without arrays is lost."""
    found: dict[str, Params] = {}
    for name, array in arrays.items():
        group, _, parameter = name.partition("/")
        found.setdefault(group, {})[parameter] = array
    return found
