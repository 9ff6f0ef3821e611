"""Federations with a part of their samples, for tests that compare bits: bits do not ask how many samples there are."""

from __future__ import annotations

from dataclasses import replace

from edgefl.experiment.data.split import Split
from edgefl.experiment.federation import Federation


def with_few_samples(federation: Federation, every: int) -> Federation:
    """Return the federation where each client owns one of `every` of its samples."""
    return replace(federation, clients=tuple(_few(split, every) for split in federation.clients))


def _few(split: Split, every: int) -> Split:
    return Split(*(part[::every] for part in (split.train, split.validation, split.test)))
