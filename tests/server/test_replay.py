"""`edgefl simulate --replay RUN`, on a store filled with what simulate itself says of a small run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.cli.cli import main
from edgefl.experiment.assembly import assemble
from edgefl.experiment.run_json import open_run
from edgefl.experiment.settings import Experiment
from edgefl.methods.rounds.provenance import provenance
from edgefl.methods.task import MODEL, State
from edgefl.protocol.wire.messages import Trained
from edgefl.server.events import ProvenanceRecorded, Record, ReplyJudged, RoundClosed, RoundOpened
from edgefl.server.store import Store
from edgefl.study.simulation.journal import Journal, read_metrics
from edgefl.study.simulation.round_loop import simulate

SMALL = Experiment(methods=("fedavg",), clients=4, rounds=2, per_round=2, epochs=1, eval_every=2)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """Return what a server of this experiment would have stored."""
    journal = Journal(tmp_path_factory.mktemp("simulated"))
    state = simulate(SMALL.algorithms()["fedavg"], assemble(SMALL), SMALL.settings(1), journal)
    journal.close()
    found: list[Record] = []
    for log_record in read_metrics(journal.path):
        clients = tuple(record["client"] for record in log_record["clients"])
        found.append(RoundOpened(log_record["round"], clients))
        reply = Trained(log_record["round"], {}, b"", 1, 1, "on", {}, 0.0)
        found += [ReplyJudged(log_record["round"], client, "accepted", "", reply) for client in clients]
        found.append(RoundClosed(log_record["round"], state, log_record, log_record["round"] == SMALL.rounds))
    return found


def served(path: Path, records: list[Record]) -> Path:
    open_run(path, SMALL.to_json())
    store = Store(path)
    for record in records:
        store.save([record])
    store.close()
    return path


def test_an_equal_run_is_identical(records: list[Record], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = served(tmp_path / "run", records)
    before = sorted(path.rglob("*"))
    assert main(["simulate", "--replay", str(path)]) == 0
    assert capsys.readouterr().out == "identical after round 2: the replay has the same server state, bit for bit\n"
    assert [file for file in sorted(path.rglob("*")) if file.suffix not in (".db-wal", ".db-shm")] == before


def test_a_run_of_devices_with_other_instruction_sets_is_replayed_and_said_to_be(
    records: list[Record], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = served(
        tmp_path / "run",
        [ProvenanceRecorded(0, provenance()), ProvenanceRecorded(1, "edgefl 0.1.0 native-sse9"), *records],
    )
    assert main(["simulate", "--replay", str(path)]) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"{path} was made by edgefl 0.1.0 native-sse9; this is {provenance()}: results differ")
    assert said.endswith("EDGEFL_ISA=sse9 with edgefl 0.1.0 gives equal results\n")


def one_bit_off(closed: RoundClosed) -> RoundClosed:
    model = {name: value.copy() for name, value in closed.state.arrays[MODEL].items()}
    bias = model["conv1.bias"]
    bias[3] = np.nextafter(bias[3], np.float32(np.inf))
    return RoundClosed(closed.round, State({MODEL: model}), closed.log_record, closed.done)


def test_one_bit_makes_a_run_different(
    records: list[Record], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(records[-1], RoundClosed)
    path = served(tmp_path / "run", [*records[:-1], one_bit_off(records[-1])])
    assert main(["simulate", "--replay", str(path)]) == 1
    assert capsys.readouterr().out.startswith("different after round 2: model/conv1.bias[3] is ")


@pytest.mark.parametrize(
    ("arguments", "change", "code", "message"),
    [
        ([], lambda records: records[:1], 1, "has no closed round; expected at least one"),
        ([], lambda records: [RoundOpened(1, (0,)), *records[1:]], 1, "round 1 is planned with clients"),
        (
            ["--rounds", "3"],
            lambda records: records,
            2,
            "with rounds=3; expected only --data-dir, --workers and --json",
        ),
    ],
    ids=["no closed round", "other clients", "another option"],
)
def test_what_cannot_be_replayed_is_said(
    arguments: list[str],
    change: Callable[[list[Any]], list[Record]],
    code: int,
    message: str,
    records: list[Record],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = served(tmp_path / "run", change(records))
    assert main(["simulate", "--replay", str(path), *arguments]) == code
    assert message in capsys.readouterr().err


def test_a_simulated_run_is_no_served_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_run(tmp_path, SMALL.to_json())
    assert main(["simulate", "--replay", str(tmp_path)]) == 2
    assert "holds no served run; expected a run directory of `edgefl serve`" in capsys.readouterr().err
