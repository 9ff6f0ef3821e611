"""The binding of a schedule to memory: references become array views, and a backend's Program records the calls."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from edgefl.errors import BackendError
from edgefl.learning.lowering.schedule import (
    AuxiliarySlot,
    Codes,
    Companion,
    IndexPart,
    Param,
    Scale,
    Schedule,
    Slot,
    Structure,
    TapCodes,
    Tensor,
)
from edgefl.models.graph.quantized_array import QuantizedArray

Array = NDArray[Any]
_DTYPES: dict[str, np.dtype[Any]] = {"int32": np.dtype(np.int32), "byte": np.dtype(np.uint8)}


class ScheduleMemory:
    """All memory to which a schedule may refer. `floats` is the type of activations, gradients and parameters."""

    def __init__(
        self,
        arena: NDArray[np.uint8],
        floats: DTypeLike,
        params: Mapping[str, Array],
        states: Mapping[Companion, Array],
        slots: Mapping[str, Any],
        structures: Mapping[Structure, Array] | None = None,
    ) -> None:
        self._arena, self._floats = arena, np.dtype(floats)
        self._params, self._states, self._slots = params, states, slots
        self._structures = structures or {}

    def view(self, schedule: Schedule, tensor: Tensor) -> Array:
        """Return the array of a tensor of `schedule`."""
        dtype = _DTYPES.get(schedule.buffers[tensor.buffer].kind, self._floats)
        return np.ndarray(tensor.shape, dtype, self._arena, schedule.offsets[tensor.buffer])

    def resolve(self, schedule: Schedule, arg: Any) -> Any:
        """Return the value of a call's argument."""
        if isinstance(arg, Tensor):
            return self.view(schedule, arg)
        if isinstance(arg, Param):
            return self._params[arg.name].reshape(arg.shape)
        if isinstance(arg, Codes | TapCodes | Scale):
            return self._of_quantized(arg)
        if isinstance(arg, Structure):
            return self._structures[arg]
        if isinstance(arg, Slot):
            return self._slots[arg.name]
        if isinstance(arg, IndexPart):
            return self._slots["index"][arg.first : arg.first + arg.size]
        if isinstance(arg, AuxiliarySlot):
            return self._slots.get(f"{arg.name} {arg.position}", self._slots[arg.name])
        return self._states[arg] if isinstance(arg, Companion) else arg

    def _of_quantized(self, arg: Codes | TapCodes | Scale) -> Array:
        held = self._params[arg.param]
        assert isinstance(held, QuantizedArray)
        if isinstance(arg, Codes):
            return held.codes
        if isinstance(arg, TapCodes):
            return held.taps_first.reshape(arg.shape)
        assert held.scale is not None
        return held.scale.astype(self._floats, copy=False)


def bind(backend: ModuleType, schedule: Schedule, memory: ScheduleMemory) -> Any:
    """Return a Program of the backend that makes the schedule's calls.

    Raises ValueError if an argument does not fit, and BackendError naming the node whose operation the backend lacks.
    """
    program = backend.Program()
    for call in schedule.calls:
        try:
            program.append(call.op, *(memory.resolve(schedule, arg) for arg in call.args))
        except BackendError as error:
            raise BackendError(f"{call.node!r}: {error}") from None
    return program
