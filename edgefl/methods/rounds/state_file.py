"""Named sets of arrays as a file in the format safetensors: the state of a method's server, and what a client keeps.

Plain values of a state are not in the file. An array is named "set/parameter". The caller writes the file, because the
caller knows when it must be durable. Frozen parameters of a server's state do not change from round to round, so they
are in a file of their own, base.safetensors, which the files of all rounds name by its SHA-256.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from edgefl.methods.task import BODY, MODEL, State
from edgefl.models.graph import Params
from edgefl.models.graph.quantized_names import gathered, parameter_of, spread
from edgefl.models.neurons.block_index import same_bits
from edgefl.system.durable_files import Piece, check_sha256, load_arrays, pieces_of, sha256, write_atomically
from edgefl.system.safetensors_files import array_names, content, same_values

BASE = "base.safetensors"  # file of the frozen parameters, in the folder of the server's states
BASE_DIGEST = "base"  # name in the metadata of the SHA-256 of BASE
WITH_BASE = (MODEL, BODY)  # sets that have the model's own parameters

Frozen = Mapping[str, np.ndarray]
"""Frozen parameters of a model, by name."""
NO_FROZEN: Frozen = MappingProxyType({})
Read = Callable[[Path, dict[str, Any], str | None], State]
"""Reads the state in a file, as `load` does."""


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


class StateFiles:
    """The contents of the files of a server's states in one folder, whose frozen parameters are written once.

    still  frozen parameters of the model, by name
    """

    def __init__(self, folder: Path) -> None:
        self.still: Frozen = NO_FROZEN
        self._folder = folder
        self._base: dict[str, np.ndarray] = {}
        self._digest = ""

    def pack(self, state: State) -> list[Piece]:
        """Return the arrays of a state as the content of a file, in pieces that are views of the arrays. BASE is
        written before the first state that needs it.

        Raises  OSError if the disk refuses.
        """
        arrays = flat(state.arrays)
        base = {name: array for name, array in arrays.items() if self._is_still(name)}
        if base and not self._digest:
            self._write(base)
        if not base or not _equal(base, self._base):
            return list(content(arrays))
        rest = {name: array for name, array in arrays.items() if name not in base}
        return list(content(rest, {BASE_DIGEST: self._digest}))

    def _is_still(self, name: str) -> bool:
        group, _, parameter = name.partition("/")
        return group in WITH_BASE and parameter_of(parameter) in self.still

    def _write(self, base: dict[str, np.ndarray]) -> None:
        digest, file = sha256(content(base)), self._folder / BASE
        if not file.exists() or sha256(pieces_of(file)) != digest:
            write_atomically(file, content(base))
        self._base, self._digest = base, digest


def load(file: Path, values: dict[str, Any], digest: str | None = None, still: Frozen = NO_FROZEN) -> State:
    """Return the state with the arrays of a file and these plain values. Raises RunError if the file is missing or
    corrupt.

    digest  SHA-256 of the file in hexadecimal, if it is known
    still   frozen parameters of the model, by name. The state has these very arrays where the file has their bits
    """
    if digest is not None:
        check_sha256(file, digest)
    arrays, metadata = load_arrays(file)
    if BASE_DIGEST in metadata:
        base = file.with_name(BASE)
        check_sha256(base, metadata[BASE_DIGEST])
        arrays |= _frozen(base, still)
    return State(sets(arrays), values)


def without_arrays(file: Path, values: dict[str, Any], digest: str | None) -> State:
    """Return the state that `load` returns, without its arrays. The files are compared with their digests alone.

    Raises  RunError if a file is missing or corrupt.
    """
    if digest is None:
        load(file, values, digest)
    else:
        check_sha256(file, digest)
        metadata = load_arrays(file, [])[1]
        if BASE_DIGEST in metadata:
            check_sha256(file.with_name(BASE), metadata[BASE_DIGEST])
    return State({}, values)


def _frozen(base: Path, still: Frozen) -> dict[str, np.ndarray]:
    """Return the arrays of BASE, which has just been checked."""
    found, known = dict[str, np.ndarray](), spread(still)
    for name in array_names(base):
        parameter = name.partition("/")[2]
        same = same_values(base, name, {each: known[each] for each in (parameter,) if each in known})
        found |= load_arrays(base, [name])[0] if same is None else {name: known[same]}
    return found


def flat(arrays: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the arrays of all sets, by the names that they have in a file."""
    return {f"{group}/{name}": array for group, params in arrays.items() for name, array in spread(params).items()}


def sets(arrays: Mapping[str, np.ndarray]) -> dict[str, Params]:
    """Return the sets from the arrays that `flat` returns. A set without arrays is lost."""
    found: dict[str, Params] = {}
    for name, array in arrays.items():
        group, _, parameter = name.partition("/")
        found.setdefault(group, {})[parameter] = array
    return {group: gathered(params) for group, params in found.items()}


def _equal(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    """Return whether both have the same names, and arrays of equal bits."""
    return one.keys() == other.keys() and all(same_bits(array, other[name]) for name, array in one.items())
