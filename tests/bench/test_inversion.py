"""The gradient inversion of bench/secure: what the two attacks rebuild from one update, and from a sum."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.secure import command, inversion
from bench.secure.inversion import Case, Victims, attacked
from bench.secure.inversion_attacks import GradientAttack, gradients_of, neurons_pictures
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.dataset import DataSet

ROOT = Path(__file__).resolve().parents[2]
ONE = Case("feddyn_mlp", 2, 1, 1)
SHORT = GradientAttack(60)


@pytest.fixture(scope="module")
def digits() -> DataSet:
    return load("digits")


@pytest.fixture(autouse=True)
def few_victims_and_one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(inversion, "VICTIMS", 5)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are so small that threads cost more than they save
    yield
    torch.set_num_threads(threads)


def test_pictures_are_rebuilt_from_one_update_and_worse_from_a_sum(digits: DataSet) -> None:
    alone = attacked(Victims(digits, ONE, 0), SHORT)
    summed = attacked(Victims(digits, replace(ONE, clients=5), 0), SHORT)
    assert torch.equal(alone["gradient"].originals, summed["gradient"].originals)
    assert alone["gradient"].scores()["psnr"] > 19
    assert alone["gradient"].psnr.mean() > summed["gradient"].psnr.mean() + 4
    assert alone["gradient"].psnr.mean() > alone["guess"].psnr.mean() + 6
    assert alone["gradient"].scores()["matched"] >= 0.8 > summed["gradient"].scores()["matched"]


def test_an_update_that_says_nothing_rebuilds_nothing(digits: DataSet, monkeypatch: pytest.MonkeyPatch) -> None:
    sums, draw = Victims.sums, torch.Generator().manual_seed(1)
    monkeypatch.setattr(Victims, "sums", lambda self: [torch.randn(each.shape, generator=draw) for each in sums(self)])
    scores = attacked(Victims(digits, ONE, 0), SHORT)
    assert scores["gradient"].scores()["psnr"] < scores["guess"].scores()["psnr"]
    assert scores["neuron"].scores()["recognised"] == 0


def test_a_neuron_that_was_active_for_one_picture_shows_it() -> None:
    picture, other = torch.tensor([0.25, 0.5]), torch.tensor([1.0, 0.0])
    weight = torch.stack([-3 * picture, picture + other, torch.zeros(2)])
    shown = neurons_pictures(weight, torch.tensor([-3.0, 2.0, 0.0]), torch.Size([1, 1, 2]))
    assert shown.flatten(1).tolist() == [[0.25, 0.5], [0.625, 0.25]]


def test_a_sum_is_the_gradient_of_all_pictures_of_the_group(digits: DataSet) -> None:
    victims = Victims(digits, replace(ONE, clients=5), 0)
    together = gradients_of(victims.model, victims.pictures.flatten(1, 2), victims.labels.flatten(1))
    for summed, each in zip(victims.sums(), together, strict=True):
        torch.testing.assert_close(summed / 5, each, rtol=1e-4, atol=1e-6)


def test_several_local_steps_give_the_change_of_the_parameters(digits: DataSet) -> None:
    one, two = (Victims(digits, replace(ONE, steps=steps), 0).sums()[-1] for steps in (1, 2))
    assert not torch.equal(one, two)
    torch.testing.assert_close(2 * one, two, rtol=0.1, atol=0.02)  # two steps of half the pictures each


def test_the_command_prints_rows_and_draws_a_small_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(inversion, "CASES", [ONE])
    words = ["inversion", "--data", "digits", "--steps", "2", "--picture", str(tmp_path / "rebuilt.png")]
    assert command.main(words) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["seeds"] == [0, 1]
    assert [(each["attack"], each["seed"]) for each in row["rows"]] == [
        (attack, seed) for seed in (0, 1) for attack in ("gradient", "guess", "neuron")
    ]
    assert {each["pictures"] for each in row["rows"]} == {10}
    assert 10_000 < (tmp_path / "rebuilt.png").stat().st_size < 200_000
    assert np.isfinite([each["psnr"] for each in row["rows"]]).all()


def test_the_pages_table_is_that_of_the_record() -> None:
    lines = (ROOT / "bench/secure/record.jsonl").read_text().splitlines()
    recorded = [row for row in map(json.loads, lines) if row["what"] == "inversion"][-1]
    page = (ROOT / "docs/secure-aggregation.md").read_text()
    assert "\n".join(inversion.table(recorded["rows"])) in page
    assert {row["victims"] for row in recorded["rows"]} == {20, 21}
    assert (ROOT / "docs/inversion.png").stat().st_size < 200_000


def test_the_table_has_the_means_over_the_seeds() -> None:
    row = {"model": "feddyn_mlp", "samples": 4, "steps": 1, "attack": "neuron"}
    rows = [
        {**row, "clients": clients, "seed": seed, "psnr": 20.0 + clients + seed, "matched": 0.5 * seed}
        for clients in inversion.SIZES
        for seed in (0, 1)
    ]
    assert inversion.table(rows)[-1] == (
        "| `feddyn_mlp` | 4 | 1 | neuron | 21.5 dB, 25 % | 23.5 dB, 25 % | 25.5 dB, 25 % | 30.5 dB, 25 % |"
    )
