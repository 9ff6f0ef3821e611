"""The common part of the codec's two directions: numbers of the format, its table rows, and id sets by group.

The meaning of every field is in the package's docstring.
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
FLOAT16, KNOWN, KNOWN_MASK, BFLOAT16, INT8 = 1, 2, 4, 8, 16  # flags
ALL_FLAGS = FLOAT16 | KNOWN | KNOWN_MASK | BFLOAT16 | INT8
DENSE, AXES, FLAT, MASKED, FLAT_CODED = 0, 1, 2, 6, 7  # block codings; flat blocks have FLAT + id coding

HEADER = struct.Struct("<4sBBH16sI")
FLAGS_AT = 5  # the byte of the header with the flags
ENTRY = struct.Struct("<HHI")
HASH_BYTES = 8
ALIGNMENT = 4
Format = Literal["float32", "float16", "bfloat16", "int8"]


@dataclass(frozen=True)
class ActiveNeuronSets:
    """Active neurons by group, and the keys they were drawn with. Groups that are not listed are whole."""

    active: Mapping[str, npt.NDArray[np.int32]]
    keys: Mapping[str, int | None]
    made: dict[AxisSpec, AxisIds] = field(default_factory=dict, compare=False, repr=False)  # axes that were asked for

    def axes(self, param: ParamSpec, spec: ModelSpec) -> Axes | None:
        """The index that these sets give a parameter. Raises SelectionError if one does not fit its group."""
        return active_axes(param, spec, self.active, self.keys, self.made)
