"""The packing memory that the kernels will take for a schedule, as the kernels themselves report it. Nothing is
computed.

It depends on the machine's instruction set and on its number of threads. The kernels' blocks grow to the largest call
and are then reused, so a schedule takes as much as its largest call. A limit never makes a kernel choose an algorithm
with less memory. Otherwise results would depend on the limit, and a served run would differ from its simulation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgefl.kernels.memory import aligned_zeros
from edgefl.kernels.table import ADAM, ADAM_RATES, HYPER, TABLE
from edgefl.learning.lowering.schedule import Codes, Companion, Param, Scale, Schedule, Structure, TapCodes
from edgefl.learning.running.program_binding import Array, ScheduleMemory
from edgefl.models.graph.quantized_array import QuantizedArray


def scratch_bytes(
    backend: ModuleType, schedule: Schedule, structures: Mapping[Structure, NDArray[np.uint32]] | None = None
) -> int:
    """Return the bytes that the calling thread will hold for packing once the schedule has run. 0 if the backend does
    not pack.

    backend     module of the kernels
    structures  the structures to which the schedule refers

    The call reserves address space for the schedule's arrays and hardly touches it. Only float32 schedules are
    measured.
    """
    needed = getattr(backend, "scratch_needed", None)
    if needed is None:
        return 0
    packs = getattr(backend, "packs", lambda op: TABLE[op].packs)
    calls = [call for call in schedule.calls if packs(call.op)]
    args = [arg for call in calls for arg in call.args]
    params = {arg.name: np.empty(arg.shape, np.float32) for arg in args if isinstance(arg, Param)} | _quantized(args)
    states = {arg: np.empty(arg.shape, np.float32) for arg in args if isinstance(arg, Companion)}
    memory = ScheduleMemory(aligned_zeros(schedule.arena_bytes), np.float32, params, states, _slots(), structures)
    return max((needed(call.op, *(memory.resolve(schedule, arg) for arg in call.args)) for call in calls), default=0)


def _quantized(args: Sequence[Any]) -> dict[str, Any]:
    """Return quantized parameters of the shapes to which these arguments refer."""
    scales = {arg.param: np.empty(arg.size, np.float32) for arg in args if isinstance(arg, Scale)}
    shapes = {arg.param: arg.shape[:2] for arg in args if isinstance(arg, Codes)}
    for arg in args:
        if isinstance(arg, TapCodes):
            outs, *taps, ins = arg.shape
            shapes[arg.param] = (outs, ins, *taps)
    room = {name: np.empty(math.prod(shape) * (1 if name in scales else 2), np.uint8) for name, shape in shapes.items()}
    return {name: QuantizedArray(shape, room[name], scales.get(name)) for name, shape in shapes.items()}


def _slots() -> dict[str, Array | None]:
    """Return the arrays that calls read or add to, except a data set's. Calls that read a data set pack nothing."""
    total = np.zeros(1)
    return {
        "hyper": np.zeros(len(HYPER), np.float32),
        "adam": np.array([name == "eps" for name in ADAM], np.float64),
        "adam_steps": np.zeros(1, np.int64),
        "rates": np.array([name == "eps" for name in ADAM_RATES], np.float32),
        "loss": np.zeros(1),
        "correct": np.zeros(1, np.int64),
        "auxiliary_correct": np.zeros(1, np.int64),
        "output_weight": None,
        "total": total,
        "total_bits": total.view(np.float32),
        "clip": np.zeros(1, np.float32),
        "dropout": np.zeros(3, np.int64),
    }
