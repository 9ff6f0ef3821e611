"""The scores of tokens and pixels in words: the perplexity as a number, and the mean IoU in percent.

learning/scores.py computes the scores. rounds/round_metrics.py has their names in a log record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgefl.learning.scores import MEAN_IOU, PERPLEXITY
from edgefl.study.result_text import number, percent

HEADINGS = {PERPLEXITY: "perplexity", MEAN_IOU: "mean IoU"}


def place_words(found: Mapping[str, Any]) -> list[str]:
    """Return the scores of tokens or pixels of one kind of models, each in words."""
    return [f"{heading} {place_number(name, found[name])}" for name, heading in HEADINGS.items() if name in found]


def place_number(name: str, mean: float | None, spread: float | None = None) -> str:
    """Write a score of tokens or pixels, with its spread over the seeds."""
    return percent(mean, spread) if name == MEAN_IOU else number(mean, spread)
