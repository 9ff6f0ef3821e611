"""Clients that train as they should and answer something else: what a poisonous reply may say, and who says it.

`python -m bench.faults.liar ATTACK client ...` is `edgefl client ...` of such a device, over real sockets.
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
    """Every value is 3e38."""
    return _filled(reply, HUGE)


def zeros(method: Algorithm, plan: Plan, reply: Reply) -> Reply:
    """Every value is 0: of the model, not of its change."""
    return _filled(reply, 0.0)


def nan(method: Algorithm, plan: Plan, reply: Reply) -> Reply:
    """Every value is NaN."""
    return _filled(reply, np.nan)


def claim(method: Algorithm, plan: Plan, reply: Reply) -> Reply:
    """What was trained, with a claim of 2^53 - 1 samples, and of the steps that those would take."""
    return replace(reply, examples=MOST, steps=method.steps(MOST) or reply.steps)


def flipped(method: Algorithm, plan: Plan, reply: Reply) -> Reply:
    """The change of every value is turned round, times 100."""
    payload = {name: _turned(update, plan.payload[name]) for name, update in reply.payload.items()}
    return replace(reply, payload=payload)


ATTACKS: dict[str, Attack] = {"huge": huge, "flipped": flipped, "claim": claim, "zeros": zeros, "nan": nan}


def lying(method: Algorithm, attack: Attack, client: int | None = None) -> Algorithm:
    """The method with a client whose replies say something else; None: every client that trains with it."""
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
    with np.errstate(over="ignore"):  # of a model that is beyond help already
        values = before - TIMES * (block.values - before)
    return replace(block, values=np.ascontiguousarray(values, block.values.dtype))


def _like(sent: Block, index: Axes | Flat | None) -> Array:
    """What was sent, where the reply has values: the whole of a parameter may have been sent."""
    return sent.values if sent.index is not None else values_at(sent.values, index)
