"""python -m bench int8, on the digits for a moment."""

from __future__ import annotations

from bench.int8 import QUICK, measure


def test_a_quantised_model_is_smaller_and_says_nearly_the_same() -> None:
    (case,) = QUICK
    found = measure(case)
    assert found.images == 497
    assert found.ours == 1.0
    assert 0.9 < found.accuracy[0] < 1.0
    assert found.same > 0.97
    assert found.accuracy[1] > found.accuracy[0] - 0.03
    assert found.size[1] < found.size[0] / 2
    assert "497 test images" in str(found)
