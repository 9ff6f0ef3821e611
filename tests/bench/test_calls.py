"""The calls of a step, timed one by one: all of them are there, with the multiply-adds of their layers."""

from __future__ import annotations

from bench.calls import call_times
from edgefl.learning.lowering.mac_counts import layer_macs
from edgefl.models.graph.architectures import build


def test_the_calls_of_a_step_have_all_multiply_adds_of_its_layers() -> None:
    graph = build("fedspu_speech", (1, 32, 32), 35)
    calls = call_times(graph, 2, 1)
    assert sum(call.macs for call in calls) == 2 * sum(macs.step for macs in layer_macs(graph).values())


def test_each_call_takes_time_and_is_given_arrays() -> None:
    calls = call_times(build("digits_cnn", (1, 8, 8), 10), 2, 1)
    assert {"input", "conv1", "fc", "loss"} <= {call.node for call in calls}
    assert all(call.us > 0 and call.size > 0 for call in calls)
