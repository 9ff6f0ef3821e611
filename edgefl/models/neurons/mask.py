"""The class Mask: the coordinates that exist of some parameters. It has no values, and does not say which are trained.

Source: FedSpa, see docs/algorithms.md section 3. docs/architecture.md, "The types that carry everything", places it
among the other types.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import SelectionError
from edgefl.models.neurons.model_spec import ModelSpec

HASH_BYTES = 8

Bits = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Mask:
    """The coordinates of parameters that are not whole. Make a mask with `of`, which checks it.

    bits  parameter -> booleans of its shape, read-only and not all true. A parameter that is not listed is whole
    """

    bits: Mapping[str, Bits]

    @staticmethod
    def of(spec: ModelSpec, bits: Mapping[str, Bits]) -> Mask:
        """Return the mask with these bits, in the order of `spec`. Parameters that the bits leave whole are not listed.

        Raises  SelectionError that names what is not a parameter, or the parameter whose bits are not booleans of its
                shape.
        """
        for name, value in bits.items():
            if name not in spec.params:
                raise SelectionError(f"mask of {name!r}; expected parameters among {', '.join(spec.params)}")
            shape = spec.params[name].shape
            if value.dtype != np.bool_ or value.shape != shape:
                raise SelectionError(f"mask of {name!r}: {value.dtype} of shape {value.shape}; expected bool {shape}")
        return Mask({name: _kept(bits[name]) for name in spec.params if name in bits and not bits[name].all()})

    @cached_property
    def ids(self) -> Mapping[str, NDArray[np.uint32]]:
        """Return the coordinates by parameter, as sorted uint32 positions in the flattened parameter."""
        return {name: np.flatnonzero(bits).astype(np.uint32) for name, bits in self.bits.items()}

    def only(self, names: Collection[str]) -> Mask:
        """Return the mask of the parameters in `names` only."""
        return Mask({name: bits for name, bits in self.bits.items() if name in names})

    def hash(self) -> bytes:
        """Return 8 bytes that stand for the parameters and their coordinates where a mask is not sent."""
        digest = hashlib.blake2b(digest_size=HASH_BYTES)
        for name, bits in sorted(self.bits.items()):
            digest.update(f"{name} {bits.shape}\n".encode())
            digest.update(np.packbits(bits, bitorder="little").tobytes())
        return digest.digest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mask):
            return NotImplemented
        same = self.bits.keys() == other.bits.keys()
        return same and all(np.array_equal(bits, other.bits[name]) for name, bits in self.bits.items())

    def __hash__(self) -> int:
        return hash(self.hash())


def _kept(bits: Bits) -> Bits:
    """Return a copy that cannot be written."""
    kept = np.array(bits, order="C")
    kept.flags.writeable = False
    return kept
