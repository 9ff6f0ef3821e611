"""PFLlib beside edgefl: its words, its files as a federation, errors of differences. PFLlib itself is not here."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.papers import command, pfllib, pfllib_files, pfllib_peer
from bench.papers.pfllib import Side, difference
from bench.papers.pieces import known, piece
from edgefl import rng
from edgefl.errors import DataError
from edgefl.models.graph import Model, architectures
from edgefl.models.graph.model_files import save

WORDS = """
-------------Round number: 0-------------

Evaluate global models
Averaged Train Loss: 2.3
Averaged Test Accuracy: 0.0557
Std Test Accuracy: 0.0780

Evaluate personalized models
Averaged Test Accuracy: 0.1
------------------------- time cost ------------------------- 90.5
------------------------- time cost ------------------------- 30.5
------------------------- time cost ------------------------- 31.5

-------------Round number: 3-------------

Evaluate global models
Averaged Test Accuracy: 0.25

Evaluate personalized models
Averaged Test Accuracy: 0.9
------------------------- time cost ------------------------- 91.0
"""


def test_its_words_are_read_by_kind_and_round() -> None:
    found = pfllib_peer.read(WORDS)
    assert found["accuracy"] == {"global": [(0, 0.0557), (3, 0.25)], "personal": [(0, 0.1), (3, 0.9)]}
    assert found["round_s"] == 31.0  # of the rounds without an evaluation


def test_what_a_process_took_and_a_failed_one_is_said(tmp_path: Path) -> None:
    work = "held = bytearray(80_000_000); print('done'); import time; time.sleep(1.2)"
    done = pfllib_peer.carry_out([sys.executable, "-c", work], tmp_path, tmp_path / "log")
    assert (done.words, done.peak > 80e6, done.wall_s > 1.2) == ("done\n", True, True)
    with pytest.raises(RuntimeError, match="exit code 3: last words"):
        pfllib_peer.carry_out(
            [sys.executable, "-c", "print('last words'); raise SystemExit(3)"], tmp_path, tmp_path / "l"
        )


def test_a_difference_has_the_errors_of_both_means() -> None:
    off, error = difference(Side((80.0, 81.0, 82.0)), Side((81.0, 83.0, 85.0)))
    assert (off, error) == (2.0, pytest.approx((1 / 3 + 4 / 3) ** 0.5))
    assert difference(Side((80.0,)), Side((81.0,))) == (1.0, None)


def test_a_piece_is_made_once(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> dict[str, int]:
        made.append(1)
        return {"value": len(made)}

    assert [piece(tmp_path, "one", make)["value"] for _ in range(2)] == [1, 1]
    found = known(tmp_path, "one")
    assert found is not None
    assert (found["piece"], found["value"], found["machine"]["cores"] > 0) == ("one", 1, True)
    assert known(tmp_path, "two") is None


def test_the_table_has_what_both_sides_have_made(tmp_path: Path) -> None:
    for seed, (theirs, ours) in enumerate([(0.80, 0.81), (0.82, 0.83), (0.84, 0.85)], 1):
        for side, value in zip(pfllib.SIDES, (theirs, ours), strict=True):
            record = {"accuracy": {"global": [[0, 0.1], [15, value]]}, "round_s": 30.0, "cpu_s": 9.0, "peak": 5e6}
            (tmp_path / f"pat-fedavg-{seed}-{side}.json").write_text(json.dumps(record))
    (tmp_path / "dir-fedavg-1-pfllib.json").write_text("{}")  # the other side is missing
    (row,) = pfllib.rows(tmp_path)
    assert row == [
        "pat, FedAvg, global",
        "3",
        "82.00",
        "83.00",
        "+1.00",
        "3.27: yes",
        "30 / 30",
        "9 / 9",
        "5 / 5",
        "80.41",
    ]


def test_a_run_s_last_and_best_evaluation_are_told_for_each_side(tmp_path: Path) -> None:
    scores = [[0, 0.05], [50, 0.9956], [100, 0.99], [120, 1.0]]  # the last one is of a round after the table's
    record = {"accuracy": {"personal": scores}}
    (tmp_path / "pat-fedrep-1-T100-edgefl.json").write_text(json.dumps(record))
    assert list(pfllib.best(tmp_path, pfllib.TABLES[100])) == [
        ["pat, FedRep, personal, edgefl, seed 1", "99.00", "99.56", "50"]
    ]


@pytest.mark.parametrize(
    ("rounds", "count", "first", "last"),
    [
        (15, 12, "pat-fedavg-1-edgefl", "pat-ditto-3-edgefl"),
        (100, 3, "pat-fedavg-1-T100-edgefl", "pat-ditto-1-T100-edgefl"),
        (2000, 24, "pat-fedavg-1-T2000-edgefl", "dir-ditto-3-T2000-edgefl"),
    ],
)
def test_a_table_declares_its_runs(rounds: int, count: int, first: str, last: str) -> None:
    names = [case.name("edgefl") for case in pfllib.cases(pfllib.TABLES[rounds])]
    assert (len(names), names[0], names[-1]) == (count, first, last)


def test_a_table_of_a_tenth_of_the_samples_has_files_and_records_of_its_own() -> None:
    (case, *_) = pfllib.cases(pfllib.TENTH)
    assert case.data == "FashionMNIST_pat_tenth"
    assert case.name("edgefl") == "pat-fedavg-1-T100-tenth-edgefl"


def write_files(folder: Path, off: float = 0.0) -> None:
    """Write files as the generator does: 20 clients with 13 to 32 training and 3 test samples of two classes."""
    values = np.random.RandomState(1)
    for client in range(pfllib_files.CLIENTS):
        for part, count in (("train", 13 + client), ("test", 3)):
            pixels = values.randint(0, 256, (count, 1, 28, 28))
            x = ((pixels / 255 - 0.5) / 0.5 + off).astype(np.float32)
            (folder / part).mkdir(parents=True, exist_ok=True)
            np.savez_compressed(folder / part / f"{client}.npz", data={"x": x, "y": values.randint(0, 2, count)})


def test_its_files_are_a_federation_of_whole_batches_of_bytes(tmp_path: Path) -> None:
    write_files(tmp_path / "data")
    graph = architectures.build("feddyn_mlp", (1, 28, 28), 10)
    save(tmp_path / "model", Model(graph, graph.init(rng.stream(1, rng.INIT))))
    found = pfllib_files.federation(tmp_path / "data", tmp_path / "model", 7)
    assert [len(split.train) for split in found.clients] == [10] * 7 + [20] * 10 + [30] * 3
    assert all(len(split.test) == 3 for split in found.clients)
    with np.load(tmp_path / "data" / "train" / "2.npz", allow_pickle=True) as archive:
        content = archive["data"].item()
    rows = found.clients[2].train
    assert found.data.x.dtype == np.uint8
    assert np.allclose(found.data.x[rows] * found.data.scale + found.data.shift, content["x"][:10], atol=1e-6)
    assert found.data.y[rows].tolist() == content["y"][:10].tolist()


def test_a_tenth_has_the_first_training_samples_and_all_test_samples(tmp_path: Path) -> None:
    write_files(tmp_path / "data")
    for _ in range(2):  # the second time all files are there
        pfllib_files.write_tenth(tmp_path / "data", tmp_path / "tenth")
    for part, client, count in (("train", 0, 1), ("train", 18, 3), ("test", 18, 3)):
        whole, found = (
            np.load(tmp_path / name / part / f"{client}.npz", allow_pickle=True)["data"].item()
            for name in ("data", "tenth")
        )
        assert len(found["y"]) == len(found["x"]) == count
        assert np.array_equal(found["x"], whole["x"][:count])
        assert np.array_equal(found["y"], whole["y"][:count])


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no .*0\.npz"):
        pfllib_files.federation(tmp_path, tmp_path, 1)
    write_files(tmp_path, off=0.001)
    with pytest.raises(DataError, match="other values"):
        pfllib_files.federation(tmp_path, tmp_path, 1)


def test_both_folders_or_show_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["pfllib"])
    assert "--pfllib FOLDER and --python PY" in capsys.readouterr().err
