"""Mask: which coordinates of some parameters there are. It carries no values, and does not say which ones are trained.

Source: FedSpa (ALGORITHMS 3); ARCHITECTURE, "The types that carry everything".
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
    """The coordinates of parameters that are not whole. Make one with `of`, which checks it.

    bits  parameter -> booleans of its shape, read-only and not all true; a parameter that is not listed is whole
    """

    bits: Mapping[str, Bits]

    @staticmethod
    def of(spec: ModelSpec, bits: Mapping[str, Bits]) -> Mask:
        """The mask with these bits, in the order of `spec`. Parameters that they leave whole are not listed.

        Raises  SelectionError naming what is not a parameter, or whose bits differ from it in shape, or are none.
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
        """The coordinates by parameter: sorted positions in the flattened parameter."""
        return {name: np.flatnonzero(bits).astype(np.uint32) for name, bits in self.bits.items()}

    def only(self, names: Collection[str]) -> Mask:
        """The mask of these parameters."""
        return Mask({name: bits for name, bits in self.bits.items() if name in names})

    def hash(self) -> bytes:
        """8 bytes that stand for the parameters and their coordinates where a mask is not sent."""
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
    """A copy that cannot be written."""
    kept = np.array(bits, order="C")
    kept.flags.writeable = False
    return kept
