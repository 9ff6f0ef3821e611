"""Local optimizers and the learning rate over rounds, as hyper-parameters of methods."""

from __future__ import annotations

import math

import pytest

from edgefl.learning import SGD, Adam, AdamW
from edgefl.methods import FedAvg, FedAvgFT, FedDC, FedSPU, parse
from edgefl.methods.learning_rate import LearningRateSchedule


def rates(schedule: LearningRateSchedule, rounds: int) -> list[float]:
    return [schedule.rate(round) for round in range(1, rounds + 1)]


def test_rates_by_hand() -> None:
    cases = [
        (LearningRateSchedule(0.8), [0.8, 0.8, 0.8]),
        (LearningRateSchedule(0.8, decay=0.5), [0.8, 0.4, 0.2]),
        (LearningRateSchedule(0.8, "constant", decay=0.5), [0.8, 0.8, 0.8]),
        (LearningRateSchedule(0.8, "step", decay=0.5, every=2), [0.8, 0.8, 0.4, 0.4, 0.2]),
        (LearningRateSchedule(0.8, decay=0.5, warmup=3), [0.2, 0.4, 0.6, 0.8, 0.4]),
        (LearningRateSchedule(0.8, "step", decay=0.5, every=2, warmup=1), [0.4, 0.8, 0.8, 0.4]),
    ]
    for schedule, expected in cases:
        assert rates(schedule, len(expected)) == pytest.approx(expected), schedule


def test_a_cosine_falls_from_the_rate_to_its_floor_after_the_last_round() -> None:
    found = rates(LearningRateSchedule(1.0, "cosine", floor=0.2, rounds=4), 6)
    assert found == pytest.approx([1.0, 0.6 + 0.4 * math.sqrt(0.5), 0.6, 0.6 - 0.4 * math.sqrt(0.5), 0.2, 0.2])
    warmed = rates(LearningRateSchedule(1.0, "cosine", floor=0.2, warmup=2, rounds=6), 6)
    assert warmed == pytest.approx([1 / 3, 2 / 3, *found[:4]])


def test_a_method_makes_the_optimizer_of_a_round() -> None:
    common = {"lr": 0.4, "lr_decay": 0.5, "weight_decay": 0.1, "clip": 2.0}
    assert FedSPU().local_optimizer(7) == SGD(0.05)
    assert FedAvg(**common, momentum=0.9, nesterov=True).local_optimizer(2) == SGD(0.2, 0.9, 0.1, 2.0, True)
    adam = {"optimizer": "adam", "betas": (0.8, 0.9), "eps": 1e-4}
    assert FedSPU(**common, **adam).local_optimizer(1) == Adam(0.4, (0.8, 0.9), 1e-4, 0.1, 2.0)
    found = FedAvg(**{**common, **adam, "optimizer": "adamw"}).local_optimizer(3)
    assert found == AdamW(0.1, (0.8, 0.9), 1e-4, 0.1, 2.0)
    assert isinstance(found, AdamW)
    assert FedAvgFT(optimizer="adam", ft_lr=0.3).optimizer_at(0.3) == Adam(0.3)
    assert parse(["fedspu"], "betas", ".8,.9") == (0.8, 0.9)


def test_settings_that_contradict_each_other_are_refused() -> None:
    cases = [
        (FedAvg, {"optimizer": "adam", "momentum": 0.9}, "optimizer=adam; expected sgd with momentum"),
        (FedSPU, {"optimizer": "rmsprop"}, "optimizer=rmsprop; expected sgd or adam or adamw"),
        (FedSPU, {"nesterov": True}, "nesterov with momentum=0.0; expected 0 < momentum < 1"),
        (FedSPU, {"optimizer": "adam", "betas": (0.9,)}, r"betas=\(0.9,\); expected two numbers"),
        (FedSPU, {"optimizer": "adam", "betas": (0.9, 1.0)}, r"betas=\(0.9, 1.0\); expected two numbers"),
        (FedSPU, {"optimizer": "adam", "eps": 0.0}, "eps=0.0; expected a finite eps >= 1e-30"),
        (FedAvg, {"schedule": "cosine"}, "rounds=0; expected more than the 0 of the warm-up"),
        (FedAvg, {"schedule": "cosine", "rounds": 5, "warmup": 5}, "rounds=5; expected more than the 5"),
        (FedAvg, {"lr_floor": 0.5}, "lr_floor=0.5; expected 0 <= lr_floor <= lr=0.05"),
        (FedAvg, {"decay_every": 0}, "decay_every=0; expected decay_every >= 1"),
        (FedAvg, {"warmup": -1}, "warmup=-1; expected warmup >= 0"),
        (FedDC, {"optimizer": "adam"}, "optimizer=adam; expected sgd: a client's move"),
    ]
    for kind, settings, message in cases:
        with pytest.raises(ValueError, match=message):
            kind(**settings)
