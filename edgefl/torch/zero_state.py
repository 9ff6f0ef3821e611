"""Zeros that a forward gives to a recurrent layer as its initial state. The initial state is zero by default.

An initial state that is learned, or kept from an earlier batch, is not zero. sequence_table.py refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

MAKING = (torch.zeros, torch.zeros_like, "new_zeros")
KEEPING = ("to", "cpu", "cuda", "float", "type_as", "detach", "contiguous", "clone", "requires_grad_")


class _Zeros:
    """A placeholder for zeros of any shape."""

    def __repr__(self) -> str:
        return "torch.zeros"


ZEROS = _Zeros()


def are_zeros(node: fx.Node, known: Mapping[fx.Node, Any]) -> bool:
    """Return whether a traced call makes zeros, or passes zeros on.

    known  values of earlier calls that are known
    """
    if node.target in MAKING:
        return True
    return node.op == "call_method" and node.target in KEEPING and known.get(node.args[0]) is ZEROS  # type: ignore[arg-type]


def is_zero_state(state: Any) -> bool:
    """Return whether an initial state, or each of its parts, is None or zeros that forward makes."""
    if isinstance(state, tuple | list):
        return all(map(is_zero_state, state))
    return state is None or state is ZEROS
