"""A simulation leaves out work that takes time and from which no promise of a federation follows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from io import BytesIO
from unittest import mock

from edgefl.deployment.agent import machine_status, sample_file, service
from edgefl.learning.running import graph_learner
from edgefl.learning.running.growth_search import GrowthSearch
from edgefl.learning.running.training_steps import TrainingSteps
from edgefl.models.graph import Model
from edgefl.models.graph.json import Limits
from edgefl.protocol.wire import model_message
from edgefl.server import live_report
from tests.vopr.agent import remembered_power
from tests.vopr.stub_growth import StubGrowth
from tests.vopr.stub_steps import StubSteps

REPORT_S = 60.0  # virtual seconds between two reports for observers, which are 1 s in a served run
LOOK_S = 5.0  # virtual seconds between two looks of an agent that waits, which are 0.5 s in a service
READ = model_message.read
STEPS = {"stub": (StubSteps, StubGrowth), "real": (TrainingSteps, GrowthSearch)}  # what learners run


@contextmanager
def made(training: str) -> Iterator[None]:
    """Save time for the length of the with block. `training` is a name in STEPS.

    The server reports to observers once a minute, and the model that all devices begin with is made of its bytes once.
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
        mock.patch.object(model_message, "read", _read),
        mock.patch.object(graph_learner, "TrainingSteps", steps),
        mock.patch.object(graph_learner, "GrowthSearch", growth),
    ):
        yield


def _read(
    source: model_message.Source,
    size: int,
    limits: Limits | None = None,
    wanted: model_message.Wanted = model_message.everything,
) -> Model:
    """Read a model, as model_message.read does. Equal bytes are made a model once."""
    return _model(source.read(size), limits, wanted)


@lru_cache
def _model(data: bytes, limits: Limits | None, wanted: model_message.Wanted) -> Model:
    return READ(BytesIO(data), len(data), limits, wanted)
