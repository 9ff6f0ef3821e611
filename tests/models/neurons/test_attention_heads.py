"""Heads of an Attention by hand: what they multiply, which heads are kept together, and which rows belong to them."""

from __future__ import annotations

from edgefl.models.graph.operations import Attention
from edgefl.models.graph.planar import planar
from edgefl.models.neurons.attention_heads import HeadRows, layers_of_heads
from tests.learning.graphs import GRAPHS


def test_a_causal_query_meets_the_keys_up_to_itself() -> None:
    """4 positions have 1 + 2 + 3 + 4 = 10 pairs, or 16. A pair multiplies the 6 features of 2 heads twice."""
    assert Attention(2, 1, 3, 0.5, causal=True).macs_by_weight((6, 4)) == {"": 120}
    assert Attention(2, 1, 3, 0.5).macs_by_weight((6, 4)) == {"": 192}


def test_a_head_of_keys_keeps_its_heads_of_queries() -> None:
    op = Attention(4, 2, 6, 0.5)
    assert op.rows == 48
    assert op.of_rows(24) == Attention(2, 1, 6, 0.5)


def test_the_rows_of_heads_are_found_behind_norms_and_rotary_positions() -> None:
    """4 heads of 6 queries share 2 heads of keys, so a neuron has 12 rows of queries, 6 of keys and 6 of values."""
    found = layers_of_heads(planar(GRAPHS["transformer"]))
    assert found == {
        "q": HeadRows("q", 2, (12,)),
        "k": HeadRows("q", 2, (6,)),
        "v": HeadRows("q", 2, (6,)),
        "three": HeadRows("three", 3, (2, 2, 2)),
    }
