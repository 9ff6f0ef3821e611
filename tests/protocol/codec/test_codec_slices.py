"""Payloads of parameters that the graph trains in part: the values of the slice, without ids, and one form alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgefl.errors import CodecError
from edgefl.models.graph.parameter_slices import SlicedParameter
from edgefl.models.neurons.block_index import slice_index
from edgefl.models.neurons.update import Block, Update
from edgefl.protocol.codec import decode, encode
from tests.protocol.codec.codec_examples import LIMIT, SPEC, flat
from tests.protocol.codec.test_codec_malformed import B_WEIGHT, DENSE, payload

NAME = "b.weight"  # of the shape (3, 12)
SLICED = replace(SPEC, slices={NAME: SlicedParameter(NAME, (1, 3), (10, 12))})
POSITIONS = [22, 23, 34, 35]


def values_of(*values: float) -> Update:
    return Update({NAME: Block((3, 12), slice_index(SLICED, NAME), np.array(values, np.float32))})


def test_a_slice_has_four_bytes_a_value_and_no_ids() -> None:
    update = values_of(1, 2, 3, 4)
    assert update.blocks[NAME].index.ids.tolist() == POSITIONS  # type: ignore[union-attr]
    data = encode(update, SLICED)
    assert data == payload(blocks=[(B_WEIGHT, DENSE, 4)]) + np.array([1, 2, 3, 4], "<f4").tobytes()
    assert len(data) == 28 + 8 + 4 * 4
    assert decode(data, SLICED, limit=LIMIT) == update


@pytest.mark.parametrize("values", ["float16", "bfloat16", "int8"])
def test_narrow_values_of_a_slice_come_back(values: str) -> None:
    update = values_of(127, 127, -127, 0)
    assert decode(encode(update, SLICED, values=values), SLICED, limit=LIMIT) == update


def test_whole_values_of_a_sliced_parameter_are_refused() -> None:
    whole = Update({NAME: Block((3, 12), None, np.zeros((3, 12), np.float32))})
    with pytest.raises(CodecError, match=r"'b\.weight' is whole; expected the slice b\.weight\[1:3, 10:12\]"):
        encode(whole, SLICED)
    with pytest.raises(CodecError, match=r"block 'b\.weight' of 36 values; expected 4"):
        decode(payload(blocks=[(B_WEIGHT, DENSE, 36)], values=36), SLICED, limit=LIMIT)


def test_a_slice_with_ids_is_refused() -> None:
    with_ids = encode(flat(NAME, *POSITIONS), SPEC)
    with pytest.raises(CodecError, match=r"in coding [0-9]; expected coding dense, as it is the trained slice"):
        decode(with_ids, SLICED, limit=LIMIT)


def test_other_coordinates_keep_their_ids() -> None:
    other = flat(NAME, 0, 35)
    assert decode(encode(other, SLICED), SLICED, limit=LIMIT) == other
