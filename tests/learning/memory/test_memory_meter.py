"""The meter, in real processes: it agrees with the account `exact`, and the project's bars on memory are kept."""

from __future__ import annotations

import sys

import pytest

from edgefl.errors import TrainingError
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.study.memory_meter import measure, resident_bytes

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")


def training(
    name: str, batch: int, method: str = "fedspu", keep: float = 1.0, examples: int | None = None
) -> TrainingConfiguration:
    return TrainingConfiguration(name, build(name, *EXAMPLES[name]), batch, method, keep, examples)  # type: ignore[arg-type]


@linux
@pytest.mark.parametrize(
    ("name", "keep", "bar"), [("fedspu_emnist", 0.2, 60e6), ("fedspu_cifar", 1.0, 70e6)], ids=["emnist", "cifar"]
)
def test_training_stays_under_the_bar_and_holds_what_exact_says(name: str, keep: float, bar: float) -> None:
    way = training(name, 16, keep=keep)
    learner, resident, peak = measure(way)
    assert learner.parts == estimate("exact", way).parts
    assert learner.total < resident.parts["training"]
    assert resident.total <= peak.total < bar


@linux
def test_pflego_holds_what_exact_says() -> None:
    way = training("pflego_mlp", 50, "pflego", examples=120)
    measured, exact = dict(measure(way, ("learner",))[0].parts), dict(estimate("exact", way).parts)
    assert measured.pop("scratch") >= exact.pop("scratch")  # that of the features' larger batches remains
    assert measured == exact


@pytest.mark.parametrize(("name", "batch"), [("fedspu_emnist", 16), ("fedspu_cifar", 128)])
def test_saved_for_backward_is_45_percent_below_torch_and_falls_with_p(name: str, batch: int) -> None:
    pytest.importorskip("torch", reason="torch is an optional extra")
    torch = measure(training(name, batch, "full"), ("torch",))[0].total
    saved = [estimate("exact", training(name, batch, keep=keep)).saved or 0 for keep in (1.0, 0.8, 0.6, 0.4, 0.2)]
    assert saved[0] <= 0.55 * torch
    assert saved == sorted(saved, reverse=True)
    assert saved[-1] < saved[0]


@linux
def test_a_refusal_in_the_process_is_reported() -> None:
    with pytest.raises(TrainingError, match="measuring fedspu_emnist: a learner needs 259776 bytes; limit_bytes=1000"):
        measure(training("fedspu_emnist", 16), ("learner",), limit_bytes=1000)


def test_only_plain_sgd_is_measured() -> None:
    momentum = TrainingConfiguration("m", build("digits_cnn", (1, 8, 8), 10), 4, terms=Terms(momentum=True))
    with pytest.raises(ValueError, match="expected plain SGD"):
        measure(momentum)


@linux
def test_an_unknown_field_is_named() -> None:
    with pytest.raises(OSError, match="VmNothing"):
        resident_bytes("VmNothing")
