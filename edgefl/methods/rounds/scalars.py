"""The bytes of the numbers that a message has beside its payload: the settings of a plan, and the metrics of a reply.

A number counts 8 bytes. The name of a number and the framing around it are not counted, as for a payload. A message
without a payload counts its numbers as its values, so that a method whose clients send numbers alone, such as a
zeroth-order method, has bytes, transfers and messages. A message with a payload keeps the bytes of its payload, and its
numbers stand apart as `scalar_bytes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgefl.methods.rounds.client_round import EXECUTED, JOULES, NOMINAL, SEARCH
from edgefl.protocol.codec import Sizes

NUMBER_BYTES, NUMBERS = 8, (int, float)
TRAINING, TEST = ("loss", "validation_loss", "L"), ("correct", "tested", "tested_loss")
REPORTS = frozenset({*TRAINING, *TEST, NOMINAL, EXECUTED, SEARCH})  # metrics that no server reads


def scalar_bytes(numbers: Mapping[str, Any]) -> int:
    """Return the bytes of the numbers among these values. Texts, and metrics that no server reads, do not count."""
    sent = [value for name, value in numbers.items() if name not in REPORTS and not name.startswith(JOULES)]
    return NUMBER_BYTES * len([value for value in sent if isinstance(value, NUMBERS)])


def with_numbers(payload: Sizes, numbers: Mapping[str, Any]) -> Sizes:
    """Return the sizes of a message: the sizes of its payload, or without a payload the bytes of its numbers."""
    return payload if payload.total else Sizes(scalar_bytes(numbers), 0, 0)
