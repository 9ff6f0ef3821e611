"""The tables of docs/cuda.md are those of bench/cuda_record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bench

ROOT = Path(bench.__file__).parent.parent
NAMES = {
    "VGG11": "vgg11",
    "ResNet18": "resnet18",
    "MobileNetV2": "mobilenet_v2",
    "vision transformer": "vision_transformer",
}
Medians = dict[str, float]


@pytest.fixture(scope="module")
def record() -> dict[tuple[str, int], Medians]:
    """Return the median of each step in microseconds, by model and batch size."""
    found: dict[tuple[str, int], Medians] = {}
    for line in (ROOT / "bench" / "cuda_record" / "steps.jsonl").read_text().splitlines()[1:]:
        row = json.loads(line)
        found.setdefault((row["model"], row["batch"]), {})[row["what"]] = row["us"][0]
    return found


def table(head: str) -> list[list[str]]:
    """Return the cells of the table of docs/cuda.md that begins with this line."""
    lines = (ROOT / "docs" / "cuda.md").read_text().splitlines()
    first = lines.index(head) + 2
    end = next(i for i in range(first, len(lines)) if not lines[i].startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[first:end]]


def fastest(medians: Medians, is_tf32: bool) -> float:
    return min(us for what, us in medians.items() if what.startswith("torch") and what.endswith("TF32") == is_tf32)


def of_row(record: dict[tuple[str, int], Medians], row: list[str]) -> Medians:
    return record[NAMES.get(row[0], row[0].strip("`")), int(row[1])]


def test_steps_are_those_of_the_record(record: dict[tuple[str, int], Medians]) -> None:
    head = "| model | B | PyTorch eager | PyTorch's fastest | edgefl p = 1 | p = .6 | p = .2 | fastest / p = 1 | TF32 |"
    rows = table(head)
    assert len(rows) == len(record)
    for row in rows:
        medians = of_row(record, row)
        best, tf32 = fastest(medians, False), fastest(medians, True)
        times = medians["torch eager"], best, *(medians[f"edgefl p={p}"] for p in ("1", "0.6", "0.2"))
        ratios = best / medians["edgefl p=1"], tf32 / medians["edgefl p=1, TF32"]
        assert row[2:] == [*(f"{us:,.0f}" for us in times), *(f"{ratio:.2f}" for ratio in ratios)]


def test_masks_are_those_of_the_record(record: dict[tuple[str, int], Medians]) -> None:
    rows = table("| model | B | dense | .2 | .1 | .05 | .02 |")
    assert len(rows) == sum("edgefl density=0.2, masked kernels" in medians for medians in record.values())
    for row in rows:
        medians = of_row(record, row)
        masked = (medians[f"edgefl density={density}, masked kernels"] for density in ("0.2", "0.1", "0.05", "0.02"))
        assert row[2:] == [f"{us:,.0f}" for us in (medians["edgefl density=0.2, dense kernels"], *masked)]
