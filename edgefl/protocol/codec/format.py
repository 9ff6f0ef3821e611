"""The common part of encoder and decoder: the numbers of the format, its table rows, and the id sets by group.

The docstring of the package explains every field.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from edgefl.models.neurons.block_index import Axes, AxisIds, active_axes

if TYPE_CHECKING:
    from edgefl.models.neurons.model_spec import AxisSpec, ModelSpec, ParamSpec

MAGIC, VERSION = b"EFLU", 1
FLOAT16, KNOWN, KNOWN_MASK, BFLOAT16, INT8 = 1, 2, 4, 8, 16  # bits of the flags in the header
ALL_FLAGS = FLOAT16 | KNOWN | KNOWN_MASK | BFLOAT16 | INT8
DENSE, AXES, FLAT, MASKED, FLAT_CODED = 0, 1, 2, 6, 7  # block codings. A flat block has FLAT + its id coding

HEADER = struct.Struct("<4sBBH16sI")
FLAGS_AT = 5  # offset of the flags in the header, in bytes
ENTRY = struct.Struct("<HHI")
HASH_BYTES = 8
ALIGNMENT = 4
Format = Literal["float32", "float16", "bfloat16", "int8"]


@dataclass(frozen=True)
class ActiveNeuronSets:
    """The active neurons by group, and the keys with which they were drawn. All neurons of other groups are active."""

    active: Mapping[str, npt.NDArray[np.int32]]
    keys: Mapping[str, int | None]
    made: dict[AxisSpec, AxisIds] = field(default_factory=dict, compare=False, repr=False)  # results of `axes` so far

    def axes(self, param: ParamSpec, spec: ModelSpec) -> Axes | None:
        """Return the index that these sets give a parameter. Raises SelectionError if a set does not fit its group."""
        return active_axes(param, spec, self.active, self.keys, self.made)
