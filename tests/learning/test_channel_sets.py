"""Sets of channels as kernels take them: None stays the word for all channels."""

from __future__ import annotations

import numpy as np

from edgefl.learning.lowering.channel_sets import beside


def test_whole_results_beside_each_other_are_whole() -> None:
    assert beside([None, None], [2, 3]) is None


def test_channels_of_a_later_result_are_counted_behind_those_of_the_first() -> None:
    found = beside([np.array([1], np.int32), None], [2, 3])
    assert found is not None
    assert found.tolist() == [1, 2, 3, 4]
    both = beside([np.array([1], np.int32), np.array([0, 2], np.int32)], [2, 3])
    assert both is not None
    assert both.tolist() == [1, 2, 4]
