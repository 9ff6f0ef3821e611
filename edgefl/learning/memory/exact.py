"""The account `exact`: what the native learner allocates for a way of training, tensor by tensor. Nothing is allocated.

parts  params (parameters, each on a cache line of its own), arena (the peak over the batch sizes that occur), states
       (velocities, moments and the like), indices (id lists of the calls, structures of masks), and scratch (the
       kernels' packing memory, which depends on the instruction set and the number of threads of this machine). PFLEGO
       also has features and summed gradients. Its learner frees the arena of one pass before the next pass
saved  bytes that the largest schedule keeps from the forward pass for the backward pass
flops  operations of the largest schedule's products, as they are called

The data set, the interpreter and its libraries are not included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgefl import kernels
from edgefl.learning.lowering.arena import aligned
from edgefl.learning.lowering.arena_inventory import arena_tensors, saved_bytes
from edgefl.learning.lowering.lower import lower
from edgefl.learning.lowering.product_flops import flops
from edgefl.learning.lowering.recompute import NO_PLAN, MemoryPlan
from edgefl.learning.lowering.schedule import Schedule
from edgefl.learning.memory.footprint import Footprint
from edgefl.learning.memory.mask_memory import MaskFootprint
from edgefl.learning.memory.scalar_counts import trained_scalars
from edgefl.learning.memory.training_setup import FLOAT, Pass, TrainingConfiguration
from edgefl.learning.running.cached_prefix import chunk_of
from edgefl.learning.running.scratch_memory import scratch_bytes
from edgefl.models.neurons.model_spec import ModelSpec


def exact(training: TrainingConfiguration) -> Footprint:
    """Return the footprint by the learner's schedules. Raises GraphError if a sub-model or a head is impossible."""
    found = {name: _measure(each, training) for name, each in training.passes().items()}
    phase = max(found, key=lambda name: sum(found[name][0].values()))
    parts, schedule = found[phase]
    known = {"saved": saved_bytes(schedule), "flops": flops(schedule), "tensors": arena_tensors(schedule)}
    return training.footprint("exact", parts, phase=phase, **known)


def lowered(
    one: Pass, size: int, training: TrainingConfiguration, held: MaskFootprint, plan: MemoryPlan = NO_PLAN
) -> Schedule:
    """Return the schedule of a pass in batches of `size` examples."""
    sparse = {name: each.plan for name, each in held.sparse.items()}
    step = {"mode": one.mode, "terms": training.terms, "loss": training.loss, "masks": held.existing, "plan": plan}
    trained = one.neurons if one.trainable is None else one.trainable
    return lower(one.graph, one.spec, size, trained, sparse=sparse, **step)  # type: ignore[arg-type]


def _still(one: Pass) -> list[Schedule]:
    """Return the schedules of the passes before a cut, which lie in the same arena as the steps."""
    if one.behind is None:
        return []
    graph, cut = one.behind
    return [lower(graph, ModelSpec.of(graph), chunk_of(graph, cut, one.batches[0]), mode="features", cut=cut)]


def _measure(one: Pass, training: TrainingConfiguration) -> tuple[dict[str, int], Schedule]:
    """Return the parts of one pass, and its largest schedule."""
    held = MaskFootprint.of(one.graph, one.spec, one.density, training.batch)
    schedules = [lowered(one, size, training, held) for size in one.batches]
    return parts_of(one, schedules, held), max(schedules, key=lambda schedule: schedule.arena_bytes)


def parts_of(one: Pass, schedules: Sequence[Schedule], held: MaskFootprint) -> dict[str, int]:
    """Return the bytes of a pass by purpose, with these schedules for its batch sizes."""
    still = _still(one)
    quantized = one.graph.quantized_by_name
    shapes = {name: param.shape for name, param in one.graph.parameters().items() if name not in held.sparse}
    whole = [*(shape for name, shape in shapes.items() if name not in quantized), *(each.shape for each in one.idle)]
    narrow = sum(each.nbytes(shapes[name]) for name, each in quantized.items())
    parts = {
        "params": sum(aligned(FLOAT * math.prod(shape)) for shape in whole) + held.value_bytes + narrow,
        "arena": max(schedule.arena_bytes for schedule in [*schedules, *still]),
        "states": max(schedule.state_bytes(FLOAT) for schedule in schedules),
        "indices": held.index_bytes + max(map(held.other_lists, schedules)),
        "scratch": max(scratch_bytes(kernels.backend(), each, held.structures()) for each in [*schedules, *still]),
    }
    if one.cached:
        parts["features"] = one.cached
    if one.summed:
        parts["summed gradients"] = FLOAT * trained_scalars(one.graph, one.neurons)
    return parts
