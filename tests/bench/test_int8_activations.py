"""python -m bench int8-activations, on the digits and on counts that are given."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from bench.arm import counting as arm
from bench.arm.emulator import CannotCountError
from bench.int8 import QUICK
from bench.int8_activations import accuracy, counting, timing
from bench.int8_activations.learners import ACTIVATIONS, FLOAT32, WEIGHTS
from bench.runner import Effort
from edgefl.kernels import native


def test_three_ways_label_the_digits_nearly_alike() -> None:
    (case,) = QUICK
    found = accuracy.measure(case)
    assert found.images == 497
    assert 0.9 < found.float32 < 1.0
    assert min(found.weights, found.activations) > found.float32 - 0.03
    assert min(found.weights_same, found.activations_same) > 0.97
    assert 0 < found.largest_change < 0.05


def test_every_way_takes_its_turns_on_every_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "IMAGES", {"fedspu_cifar": 2})
    isa, products, threads = native.isa(), native.code_products(), native.threads()
    found = list(timing.measure(("fedspu_cifar",), Effort(rounds=2, turn_s=1e-5)))
    native.set_threads(threads)
    assert (native.isa(), native.code_products()) == (isa, products)
    assert {each.way for each in found} == {FLOAT32, WEIGHTS, ACTIVATIONS}
    assert all(each.image_us > 0 for each in found)
    assert len({(each.way, each.isa, each.products) for each in found}) == len(found)


def test_counts_belong_to_the_evaluation_between_their_marks() -> None:
    ways = [[WEIGHTS, ""], [ACTIVATIONS, "dotprod"]]

    def execute(arguments: Sequence[str], environment: dict[str, str]) -> tuple[str, list[int]]:
        assert arguments[-1] == "plain,dotprod,i8mm"
        assert environment == {"EDGEFL_ISA": "neon"}
        marks = [0, 100, 100, 100 + 100 + 7_000_000 * arm.MORE]
        return json.dumps(ways), [*marks, *(2 * mark for mark in marks)]

    first, second = counting.counted(execute, "vgg11", 2)
    assert (first.way, first.millions) == (WEIGHTS, 7.0)
    assert (second.products, second.millions) == ("dotprod", 14.0)
    with pytest.raises(CannotCountError, match="1 counts of 2 evaluations; expected 4 for each"):
        list(counting.counted(lambda *given: (json.dumps(ways), [1]), "vgg11", 2))
