"""The roles of Shakespeare's plays as a comparison of bases: a transformer of characters, trained on 40 roles, and a
federation of eight other roles. The file of roles is partial (shared/data/README.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.adapters.base_task import BaseTask, Parts
from bench.language.network import CHARACTERS, DATA, LENGTH, transformer, windows
from edgefl.learning import Samples

CLIENTS, OTHERS, WINDOWS = 8, 40, 160  # roles of the federation, roles of the base, samples of a client
ALL = 10**6  # windows that no role has


def parts(seed: int) -> Parts:
    """Return the samples of a seed, which draws the roles among those with enough text. Each role's last fifth of its
    text is for tests.
    """
    with np.load(DATA) as archive:
        text, ends = archive["train"], archive["train_offsets"]
        later, later_ends = archive["test"], archive["test_offsets"]
    able = np.flatnonzero(np.diff(ends) > WINDOWS * LENGTH)
    order = np.random.default_rng(seed).permutation(able)
    clients, others = order[:CLIENTS], order[CLIENTS : CLIENTS + OTHERS]
    x, y, group = _windows(text, ends, clients, WINDOWS)
    own = {"x": x, "y": y, "group": group, "targets": "labels", "vocabulary": CHARACTERS, "classes": CHARACTERS}
    base, test = _windows(text, ends, others, ALL), _windows(later, later_ends, clients, ALL)
    return Parts(_samples(*base[:2]), own, _samples(*test[:2]))


def _windows(text: NDArray[np.uint8], ends: NDArray[np.int64], roles: Sequence[int] | Any, count: int) -> list[Any]:
    """Return ids, next ids and the position of the role of each window."""
    found = [windows(text[ends[role] : ends[role + 1]], count) for role in roles]
    group = np.repeat(np.arange(len(found)), [len(x) for x, _ in found])
    return [np.concatenate([each[part] for each in found]) for part in (0, 1)] + [group]


def _samples(x: NDArray[np.int64], y: NDArray[np.int64]) -> Samples:
    return Samples(x.astype(np.float32), y.astype(np.int32))


TASK = BaseTask(
    "shakespeare",
    lambda: transformer(width=96, blocks=3, heads=4),
    parts,
    targets="out,up,down",
    batch=16,
    rates=(2e-3, 1e-3, 5e-4),
    settings={
        "clients": CLIENTS,
        "per_round": CLIENTS,
        "rounds": 6,
        "batch": 8,
        "epochs": 1,
        "optimizer": "adam",
        "lr": 3e-3,
        "partition": "group",
        "train_share": 0.9,
        "validation_share": 0.0,
        "eval_every": 6,
    },
)
