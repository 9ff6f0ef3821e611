"""A hyper-parameter that has another name now: what a server of another version says, or said at enrolment."""

from __future__ import annotations

import msgspec
import pytest

from edgefl.deployment.device.device_model import method_of, same_run
from edgefl.errors import RunError
from edgefl.experiment.assembly import assemble
from edgefl.experiment.settings import Experiment
from edgefl.methods import FedUmf
from edgefl.protocol.wire.messages import Welcome
from edgefl.server.server_setup import welcome


def told() -> Welcome:
    experiment = Experiment(methods=("fedumf",), options=(("fusion", 0.5),), clients=4, per_round=2)
    federation = assemble(experiment)
    return welcome(0, experiment, "fedumf", experiment.algorithms()["fedumf"], b"", federation.data.loss)


def before(now: Welcome, fusion: float) -> Welcome:
    """Return the Welcome as a server sent it that called fusion alpha, and that did not know `saved`."""
    options = {name: value for name, value in now.options.items() if name not in ("fusion", "saved")}
    return msgspec.structs.replace(now, options={**options, "alpha": fusion})


def test_a_device_reads_the_former_name() -> None:
    found = method_of(before(told(), 0.25))
    assert isinstance(found, FedUmf) and found.fusion == 0.25


def test_a_run_is_the_same_where_its_method_is() -> None:
    now = told()
    assert same_run(now, now) and same_run(before(now, 0.5), now) and same_run(now, before(now, 0.5))
    assert not same_run(before(now, 0.25), now)
    assert not same_run(before(now, 0.5), msgspec.structs.replace(now, seed=now.seed + 1))


def test_a_name_that_is_none_is_refused() -> None:
    options = {**told().options, "beta": 1.0}
    with pytest.raises(RunError, match="beta; expected one of"):
        method_of(msgspec.structs.replace(told(), options=options))
