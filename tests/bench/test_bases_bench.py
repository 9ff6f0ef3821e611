"""Bases in fewer bits: the comparison in small, its arithmetic, and its tables in docs/adapters.md."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from bench.adapters import bases, bases_table
from bench.adapters.base_task import BaseTask, Parts, adapted
from bench.adapters.rounding import rounded
from bench.language.network import CHARACTERS, transformer
from edgefl.learning import Samples
from edgefl.models.graph import Graph, Model, Params

LENGTH = 4
GRAPH: Graph = transformer(width=16, blocks=1, heads=2, length=LENGTH)
SMALL = BaseTask(
    "shakespeare",
    lambda: GRAPH,
    lambda seed: parts(seed),
    targets="up,down",
    batch=4,
    rates=(1e-3,),
    settings={"clients": 2, "per_round": 2, "rounds": 1, "batch": 4, "epochs": 1, "lr": 0.1, "partition": "group"},
)


def parts(seed: int) -> Parts:
    draw = np.random.default_rng(seed)
    x, y = draw.integers(0, CHARACTERS, (2, 20, LENGTH))
    group = np.repeat([0, 1], 10)
    own = {"x": x, "y": y, "group": group, "targets": "labels", "vocabulary": CHARACTERS, "classes": CHARACTERS}
    samples = Samples(x.astype(np.float32), y.astype(np.int32))
    return Parts(samples, own, samples)


def test_equal_logits_have_the_perplexity_of_all_characters() -> None:
    zeros: Params = {name: np.zeros(info.shape, np.float32) for name, info in GRAPH.parameters().items()}
    found = bases.score(Model(GRAPH, zeros), parts(1).test)
    assert bases_table.MEASURES["shakespeare"].value(found) == pytest.approx(CHARACTERS, rel=1e-5)


def test_rows_are_rounded_to_levels_of_their_largest_magnitude(tmp_path: Path) -> None:
    model = adapted(SMALL, 1, parts(1).others, tmp_path)
    weight, before = "block0.up.weight", dict(model.params)
    model.params[weight] = np.tile(np.float32([7, -3.4, 0.4, 2.6]), (64, 4))
    assert rounded(model, 4).params[weight][0, :4].tolist() == [7, -3, 0, 3]
    assert rounded(model, 2).params[weight][0, :4].tolist() == [7, 0, 0, 0]
    assert rounded(model, 4).params["block0.up.bias"] is before["block0.up.bias"]


def test_bases_of_a_seed_differ_in_the_base_alone(tmp_path: Path) -> None:
    found = list(bases.compared(SMALL, 1, ["float32", "int8", "2 bits"], parts(1), tmp_path))
    plain, packed, coarse = found
    for row in found:
        assert row["before"] != row["after"]
        assert row["adapters"] == plain["adapters"]
    assert packed["held"] < plain["held"] == coarse["held"]
    off = [abs(row["before"]["loss"] - plain["before"]["loss"]) for row in (packed, coarse)]
    assert 0 < off[0] < off[1]


def test_rows_of_the_record_are_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bases, "TASKS", (SMALL,))
    monkeypatch.setattr(bases, "SEEDS", (1,))
    monkeypatch.setattr(bases, "BASES", {"float32": lambda model: model})
    monkeypatch.setattr(bases, "TIMED", ("float32",))
    rows = {row["name"]: row for row in bases.measured(tmp_path, 1, {})}
    assert list(rows) == ["shakespeare, float32, seed 1", "shakespeare, seconds"]
    assert list(bases.measured(tmp_path, 1, rows)) == []
    other = {**rows, "shakespeare, seconds": {"settings": {}}}
    assert [row["name"] for row in bases.measured(tmp_path, 1, other)] == ["shakespeare, seconds"]


def row(base: str, seed: int, loss: float) -> dict[str, object]:
    score = {"loss": math.log(loss), "accuracy": 0.5}
    figures = {"before": score, "after": score, "held": 3_000_000, "adapters": 1_000_000}
    return {"part": "bases", "task": "shakespeare", "base": base, "seed": seed, **figures}


def test_differences_are_between_rows_of_one_seed() -> None:
    """Differences 1, 2 and 3 have the mean 2 and the interval 2 - 4.303 / sqrt(3) to 2 + 4.303 / sqrt(3)."""
    rows = [row("float32", seed, 10 * seed) for seed in (1, 2, 3)] + [
        row("int8", seed, 11 * seed) for seed in (3, 1, 2)
    ]
    assert bases_table.differences(rows, "int8", "after") == pytest.approx([1, 2, 3])
    (table,) = bases_table.tables(rows).values()
    cells = "| +1.0000 | +2.0000 | +3.0000 | +2.0000 | -0.4841 to +4.4841 |"
    assert table.splitlines()[-1] == f"| int8, after | 2.00 MB |  | 22.000 {cells}"
    with pytest.raises(ValueError, match=r"int8 has the seeds \[1, 3\]; expected those of float32, \[1, 2, 3\]"):
        bases_table.differences(rows[:-1], "int8", "after")
