"""Diagnosis of a round of a method whose clients train parts of a model: gradient norms, masks that move, and overlap.

Everything is computed beside the round, from the plans, the replies and the clients' training samples. No bit of a run
depends on it. The simulation asks for it (--diagnose), and devices do not.

FedSpa's p_t compares gradients at a client's mask with gradients at the best mask, which nobody knows. What can be
measured of it is how much of a mask leaves in a round.

Source  FedSPU, Lemma 1 and Fig. 5 of its first version. FedSpa, Theorem 1 and section 5. ALGORITHMS 7.25
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState, dropout_key
from edgefl.methods.mask_store import MASK, restricted
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.task import MODEL
from edgefl.models.neurons.axes import Axis, parts_of
from edgefl.models.neurons.mask import Bits, Mask
from edgefl.models.neurons.model_spec import ModelSpec, ParamSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import mask_of

DIAGNOSIS = "diagnosis"  # entry of a log record
CHUNK = 128  # samples of one pass of a gradient over all training samples
MEANS = ("gradient_norm", "trained_gradient_norm", "ratio", "expected_ratio", "p_squared", "mask_drift")


class GradientSquares(NamedTuple):
    """Squared norms of a client's gradient at the model with which a round begins.

    full      of the gradient of all trained parameters, over all training samples
    trained   of the part at the coordinates that the client trains in the round
    expected  mean of `trained` over all draws of as many neurons. None where no neurons are drawn
    """

    full: float
    trained: float
    expected: float | None


def gradient_squares(algorithm: Algorithm, client_state: ClientState, plan: Plan) -> GradientSquares | None:
    """Client: measure the gradient before the training of a round. The learner has the plan's values afterwards.

    The result is None for a smaller model of a client that keeps no model, which has no gradient elsewhere.
    """
    if MODEL not in plan.payload or (plan.selection is not None and not algorithm.keeps_model):
        return None
    learner, sent, spec = client_state.learner, plan.payload[MODEL], client_state.spec
    if plan.selection is None and not algorithm.keeps_model:
        with restricted(learner, mask_of(sent), CHUNK):
            learner.write(sent)
    else:
        learner.write(sent)
    key = dropout_key(client_state, plan.round)
    slopes = learner.gradient(client_state.data, client_state.train, chunk=CHUNK, key=key)
    squares = {name: np.square(slope, dtype=np.float64) for name, slope in slopes.items() if name in spec.learned}
    bits, full = trained_bits(plan, spec), sum(float(each.sum()) for each in squares.values())
    trained = sum(float(each[bits[name]].sum()) for name, each in squares.items() if name in bits)
    expected = None
    if plan.selection is not None:
        chances = {name: chance(plan.selection, spec.params[name]) for name in squares if name in bits}
        expected = sum(float((squares[name] * each).sum()) for name, each in chances.items())
    return GradientSquares(full, trained, expected)


def trained_bits(plan: Plan, spec: ModelSpec) -> dict[str, Bits]:
    """Return the coordinates that a client trains by a plan, for each parameter of which it trains anything."""
    names = plan.due[MODEL].names if MODEL in plan.due else None
    learned = [name for name in spec.learned if names is None or name in names]
    if plan.selection is None:
        masked = mask_of(plan.payload[MODEL]).bits
        return {name: masked.get(name, np.ones(spec.params[name].shape, np.bool_)) for name in learned}
    blocks, found = plan.selection.blocks(spec, ("learn",)), {}
    for name in learned:
        (rows, cols), shape = blocks[name], spec.params[name].shape
        found[name] = np.zeros(shape, np.bool_)
        at = [slice(None) if ids is None else ids for ids in (rows, cols)][: len(shape)]
        found[name][np.ix_(*(np.arange(shape[i])[each] for i, each in enumerate(at)))] = True
    return found


def chance(neurons: NeuronSet, param: ParamSpec) -> NDArray[np.float64]:
    """Return the probability with which each coordinate of a parameter is active, where as many neurons are drawn."""
    rows = _along(neurons, param.rows, param.shape[0])
    if len(param.shape) < 2:
        return rows.chances
    cols = _along(neurons, param.cols, param.shape[1])
    both = np.outer(rows.chances, cols.chances)
    for number, (group, size) in enumerate(neurons.sizes.items()):
        first, second = (np.flatnonzero(each.groups == number) for each in (rows, cols))
        if len(first) and len(second):  # one draw decides along both axes
            active = len(neurons.active[group])
            is_one = rows.neurons[first][:, None] == cols.neurons[second]
            two = active / size * (active - 1) / max(1, size - 1)
            both[np.ix_(first, second)] = np.where(is_one, active / size, two)
    return both.reshape(*both.shape, *(1,) * (len(param.shape) - 2))


class _Along(NamedTuple):
    """The draw along an axis. Each index has the number of its group, or -1, its neuron, and its probability."""

    groups: NDArray[np.int64]
    neurons: NDArray[np.int64]
    chances: NDArray[np.float64]


def _along(neurons: NeuronSet, axis: Axis | None, size: int) -> _Along:
    numbers = {group: number for number, group in enumerate(neurons.sizes)}
    parts = []
    for part, length in parts_of(axis, size):
        if part is None:
            parts.append((np.full(length, -1), np.zeros(length, np.int64), np.ones(length)))
            continue
        share = len(neurons.active[part.group]) / neurons.sizes[part.group]
        own = np.full(length, numbers[part.group])
        parts.append((own, np.arange(length) // part.repeat, np.full(length, share)))
    groups, ids, chances = (np.concatenate(each) for each in zip(*parts, strict=True))
    return _Along(groups, ids, chances)


def jaccard(first: Mapping[str, Bits], second: Mapping[str, Bits]) -> float:
    """Return the number of coordinates that both clients train over the number that at least one of them trains."""
    names = first.keys() | second.keys()
    both = sum(int(np.count_nonzero(first[n] & second[n])) for n in names if n in first and n in second)
    all_of = sum(int(np.count_nonzero(each)) for found in (first, second) for each in found.values())
    return both / (all_of - both) if all_of else 1.0


def drift(before: Mask, after: Mask) -> float:
    """Return the share of a mask's coordinates that leave it. Parameters that both masks leave whole do not count."""
    had = left = 0
    for name, bits in {**after.bits, **before.bits}.items():
        old = before.bits.get(name, np.ones(bits.shape, np.bool_))
        had += int(np.count_nonzero(old))
        left += int(np.count_nonzero(old & ~after.bits[name])) if name in after.bits else 0
    return left / had if had else 0.0


def diagnosis(
    replies: Iterable[tuple[Plan, Reply]], squares: Mapping[int, GradientSquares | None], spec: ModelSpec
) -> dict[str, Any]:
    """Return the entry of a log record for the clients whose replies were accepted, or {} without such clients.

    overlap  mean Jaccard similarity of the trained coordinates of two clients, over all pairs
    """
    accepted = sorted(replies, key=lambda pair: pair[0].client)
    clients = [_of_client(plan, reply, squares.get(plan.client)) for plan, reply in accepted]
    if not clients:
        return {}
    parts = [trained_bits(plan, spec) for plan, _ in accepted]
    pairs = [jaccard(first, second) for first, second in combinations(parts, 2)]
    found: dict[str, Any] = {"clients": clients, "overlap": math.fsum(pairs) / len(pairs) if pairs else None}
    for name in MEANS:
        values = [each[name] for each in clients if each.get(name) is not None]
        found[name] = math.fsum(values) / len(values) if values else None
    return {DIAGNOSIS: found}


def _of_client(plan: Plan, reply: Reply, squares: GradientSquares | None) -> dict[str, Any]:
    found: dict[str, Any] = {"client": plan.client}
    if squares is not None:
        found |= {"gradient_norm": math.sqrt(squares.full), "trained_gradient_norm": math.sqrt(squares.trained)}
        if squares.full > 0:
            found["ratio"] = squares.trained / squares.full
        if squares.full > 0 and squares.expected is not None:
            found["expected_ratio"] = squares.expected / squares.full
        if squares.expected is not None and "keep" in plan.settings:
            found["p_squared"] = float(plan.settings["keep"]) ** 2
    if plan.held is not None or MASK in plan.due:  # the client has a mask of its own
        before = mask_of(plan.payload[MODEL])
        found["mask_drift"] = drift(before, reply.masks.get(MASK, before))
    return found
