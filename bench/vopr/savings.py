"""A simulation leaves out work that takes time and from which no promise of a federation follows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from unittest import mock

from bench.vopr.agent import remembered_power
from bench.vopr.stub_growth import StubGrowth
from bench.vopr.stub_steps import StubSteps
from edgefl.deployment.agent import machine_status, sample_file, service
from edgefl.deployment.device import device_model
from edgefl.learning.running import graph_learner
from edgefl.learning.running.growth_search import GrowthSearch
from edgefl.learning.running.training_steps import TrainingSteps
from edgefl.server import live_report

REPORT_S = 60.0  # virtual seconds between two reports for observers, which are 1 s in a served run
LOOK_S = 5.0  # virtual seconds between two looks of an agent that waits, which are 0.5 s in a service
STEPS = {"stub": (StubSteps, StubGrowth), "real": (TrainingSteps, GrowthSearch)}  # what learners run


@contextmanager
def made(training: str) -> Iterator[None]:
    """Save time for the length of the with block. `training` is a name in STEPS.

    The server reports to observers once a minute, and all devices read the one model that they begin with from memory.
    An agent that waits looks at its turns as often as at its machine, whose power it reads again once it has changed.
    It reads its file of samples once, because nothing writes that file again.
    """
    steps, growth = STEPS[training]
    with (
        mock.patch.object(service, "LOOK_EVERY_S", LOOK_S),
        mock.patch.object(machine_status, "power", remembered_power),
        mock.patch.object(sample_file, "read_partition", lru_cache(sample_file.read_partition)),
        mock.patch.object(live_report, "EVERY_S", REPORT_S),
        mock.patch.object(live_report, "BEAT_S", REPORT_S),
        mock.patch.object(device_model, "unpack", lru_cache(device_model.unpack)),
        mock.patch.object(graph_learner, "TrainingSteps", steps),
        mock.patch.object(graph_learner, "GrowthSearch", growth),
    ):
        yield
