"""An experiment is resolved once: one load of its data, one partition and one draw of parameters for each seed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl.experiment import run_data
from edgefl.experiment.assembly import assemble, assemble_experiment
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment

SMALL = Experiment(methods=("fedspu-es", "fedavg"), clients=4, per_round=2, seed=3, seeds=2)


def is_equal(one: Federation, other: Federation) -> bool:
    """Return whether the clients and the initial parameters of both are equal, bit for bit."""
    drawn = one.initial(), other.initial()
    return drawn[0].keys() == drawn[1].keys() and (
        all((value == drawn[1][name]).all() for name, value in drawn[0].items())
        and all(
            np.array_equal(getattr(mine, part), getattr(theirs, part))
            for mine, theirs in zip(one.clients, other.clients, strict=True)
            for part in ("train", "validation", "test")
        )
    )


def test_every_seed_has_its_federation_and_the_data_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    load = run_data.load

    def counted(name: str, *args: Any, **settings: Any) -> Any:
        loaded.append(name)
        return load(name, *args, **settings)

    monkeypatch.setattr(run_data, "load", counted)
    assembled = assemble_experiment(SMALL)
    assert loaded == ["digits"]
    assert list(assembled.federations) == [3, 4] and assembled.federation is assembled.federations[3]
    for seed, federation in assembled.federations.items():
        assert is_equal(federation, assemble(replace(SMALL, seed=seed, seeds=1)))
    assert not is_equal(*assembled.federations.values())
    assert assembled.federations[3].data is assembled.federations[4].data


def test_who_writes_into_initial_parameters_writes_into_a_copy() -> None:
    federation = assemble_experiment(replace(SMALL, seeds=1)).federation
    for value in federation.initial().values():
        value[...] = 7
    assert is_equal(federation, assemble(SMALL))


def test_a_server_has_the_first_seed_and_takes_clients_without_validation_samples() -> None:
    bare = replace(SMALL, validation_share=0.0)
    with pytest.raises(ValueError, match="fedspu-es: client 0 has 0 validation samples and"):
        assemble_experiment(bare)
    assert list(assemble_experiment(bare, served=True).federations) == [3]


def test_tuning_changes_methods_and_no_federation() -> None:
    assembled = assemble_experiment(SMALL)
    tuned = assembled.tuned(replace(SMALL, tuned=(("fedavg", (("lr", 0.25),)),)))
    assert tuned.federations is assembled.federations
    assert [(each.algorithms["fedavg"].lr, each.algorithms["fedspu-es"].lr) for each in (assembled, tuned)] == [
        (0.05, 0.05),
        (0.25, 0.05),
    ]
