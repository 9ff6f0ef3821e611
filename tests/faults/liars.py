"""Clients that train as they should and answer something else: what a poisonous reply may say, and who says it.

`python -m tests.faults.liar ATTACK client ...` is `edgefl client ...` of such a device, over real sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.weighted_mean import values_at
from edgefl.models.neurons.block_index import Axes, Flat
from edgefl.models.neurons.update import Array, Block, Update

MOST = 2**53 - 1  # the largest number of samples that a message can say
HUGE = 3e38  # nearly the largest float32
TIMES = 100.0

Attack = Callable[[Algorithm, Plan, Reply], Reply]


def huge(method: Algorithm, plan: Plan, reply: Reply) -> Reply:
    """Set every value to 3e38."""
    return _filled(reply, HUGE)


def zeros(method: Algorithm, plan: Plan, reply: Reply) -> Reply:
    """Set every value of the model to 0, which is not a change of 0."""
    return _filled(reply, 0.0)


def nan(method: Algorithm, plan: Plan, reply: Reply) -> Reply:
    """Set every value to NaN."""
    return _filled(reply, np.nan)


def claim(method: Algorithm, plan: Plan, reply: Reply) -> Reply:
    """Reply what was trained, with a claim of 2^53 - 1 samples, and of the steps that such a number would take."""
    return replace(reply, examples=MOST, steps=method.effort(MOST)[0] or reply.steps)


def flipped(method: Algorithm, plan: Plan, reply: Reply) -> Reply:
    """Turn the change of every value round, times 100."""
    payload = {name: _turned(update, plan.payload[name]) for name, update in reply.payload.items()}
    return replace(reply, payload=payload)


ATTACKS: dict[str, Attack] = {"huge": huge, "flipped": flipped, "claim": claim, "zeros": zeros, "nan": nan}


def lying(method: Algorithm, attack: Attack, client: int | None = None) -> Algorithm:
    """Return the method with a lying client, or with only lying clients if `client` is None."""
    kind: Any = type(method)

    class Liar(kind):  # type: ignore[misc]
        def train(self, client_state: ClientState, plan: Plan) -> Reply:
            reply: Reply = super().train(client_state, plan)
            return attack(self, plan, reply) if client in (None, plan.client) and reply.payload else reply

    liar: Algorithm = Liar(**{each.name: getattr(method, each.name) for each in fields(kind)})
    return liar


def _filled(reply: Reply, value: float) -> Reply:
    def blocks(update: Update) -> Update:
        filled = {name: np.full_like(block.values, value) for name, block in update.blocks.items()}
        return Update({name: replace(block, values=filled[name]) for name, block in update.blocks.items()})

    return replace(reply, payload={name: blocks(update) for name, update in reply.payload.items()})


def _turned(update: Update, sent: Update) -> Update:
    return Update({name: _turned_block(block, sent.blocks[name]) for name, block in update.blocks.items()})


def _turned_block(block: Block, sent: Block) -> Block:
    before = _like(sent, block.index)
    with np.errstate(over="ignore"):  # in a model that is useless already
        values = before - TIMES * (block.values - before)
    return replace(block, values=np.ascontiguousarray(values, block.values.dtype))


def _like(sent: Block, index: Axes | Flat | None) -> Array:
    """Return what was sent, where the reply has values. The whole of a parameter may have been sent."""
    return sent.values if sent.index is not None else values_at(sent.values, index)
