"""The trackers: TensorBoard by its own reader, MLflow by the package where it is, wandb by one that notes its calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgefl
from edgefl.integrations.trackers import MLflow, TensorBoard, Tracker, WandB, numbers

METHODS, SEEDS = ("fedspu:keep=0.5", "local"), (1, 2)


def tracked(tracker: Tracker, path: Path) -> edgefl.Run:
    """A run of two methods and seeds, three rounds each, that the tracker looked on at."""
    random_stream = np.random.default_rng(1)
    data = random_stream.random((60, 4)), random_stream.integers(0, 2, 60), random_stream.integers(0, 3, 60)
    return edgefl.simulate(
        METHODS, model=model(), data=data, directory=path / "run", on_round=tracker, progress=False, rounds=3, epochs=1,
        eval_every=2, seeds=2,
    )  # fmt: skip


def model() -> Any:
    from edgefl.models.graph import INPUT, Graph, Model, Node
    from edgefl.models.graph.operations import Linear, ReLU

    graph = Graph((4,), (Node("a", Linear(4, 6), (INPUT,)), Node("r", ReLU(), ("a",)), Node("b", Linear(6, 2), ("r",))))
    random_stream = np.random.default_rng(2)
    return Model(
        graph, {n: random_stream.normal(size=p.shape).astype(np.float32) for n, p in graph.parameters().items()}
    )


def expected(run: edgefl.Run, method: str, seed: int) -> dict[str, list[tuple[int, float]]]:
    """Return what a tracker should have of a method and seed: by name, rounds and values."""
    found: dict[str, list[tuple[int, float]]] = {}
    for record in run.metrics:
        if (record["method"], record["seed"]) == (method, seed):
            for name, value in numbers(record).items():
                found.setdefault(name, []).append((record["round"], value))
    assert {"accuracy", "train_loss", "payload_bytes"} <= found.keys()
    assert [round for round, _ in found["accuracy"]] == [2, 3] and len(found["train_loss"]) == 3
    return found


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is an optional extra")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = tracked(TensorBoard(tmp_path / "logs"), tmp_path)
    for method, name in zip(METHODS, ("fedspu+keep=0.5", "local"), strict=True):
        for seed in SEEDS:
            read = EventAccumulator(str(tmp_path / "logs" / name / f"seed-{seed}"))
            read.Reload()
            wanted = expected(run, method, seed)
            tags = read.Tags()["scalars"] + read.Tags()["tensors"]
            assert set(tags) == wanted.keys()
            for tag in tags:
                found = [(event.step, float(value_of(event))) for event in read.Tensors(tag)]
                assert found == [(round, pytest.approx(value, rel=1e-6)) for round, value in wanted[tag]]


def value_of(event: Any) -> float:
    from tensorboard.util.tensor_util import make_ndarray

    return make_ndarray(event.tensor_proto).item()


def test_mlflow_has_the_same_numbers_and_the_settings(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="MLflow is an optional extra")
    pytest.importorskip("sqlalchemy", reason="mlflow-skinny keeps runs in SQLite by it")
    from mlflow.tracking import MlflowClient

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    run = tracked(MLflow("mine", uri), tmp_path)
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("mine")
    runs = {each.info.run_name: each for each in client.search_runs([experiment.experiment_id])}
    assert runs.keys() == {f"{method} seed {seed}" for method in METHODS for seed in SEEDS}
    for method in METHODS:
        for seed in SEEDS:
            found = runs[f"{method} seed {seed}"]
            assert (found.info.status, found.data.params["method"], found.data.params["seed"]) == (
                "FINISHED",
                method,
                str(seed),
            )
            for name, wanted in expected(run, method, seed).items():
                history = client.get_metric_history(found.info.run_id, name)
                assert [(each.step, each.value) for each in history] == wanted
    MLflow("mine", uri)


class Recording:
    """A module with wandb's API, that keeps what it is told."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []

    def init(self, **options: Any) -> Recording:
        assert all(run["finished"] for run in self.runs), "one run after the other"
        self.runs.append({**options, "logged": [], "finished": False})
        return self

    def log(self, values: dict[str, float], step: int) -> None:
        self.runs[-1]["logged"].append((step, values))

    def finish(self) -> None:
        self.runs[-1]["finished"] = True


def test_what_has_wandbs_api_has_the_same_numbers_and_is_finished(tmp_path: Path) -> None:
    module = Recording()
    run = tracked(WandB(module, project="mine"), tmp_path)
    names = [f"{method} seed {seed}" for seed in SEEDS for method in METHODS]
    assert [each["name"] for each in module.runs] == names
    for each in module.runs:
        method, _, seed = each["name"].rpartition(" seed ")
        wanted = [numbers(one) for one in run.metrics if (one["method"], one["seed"]) == (method, int(seed))]
        assert each["logged"] == list(enumerate(wanted, start=1)) and each["finished"]
        assert (each["project"], each["config"]["method"], each["config"]["rounds"]) == ("mine", method, 3)


def test_wandb_itself_takes_it_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="Weights & Biases is an optional extra")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    tracked(WandB(project="mine", mode="offline"), tmp_path)
    assert len(list((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))) == len(METHODS) * len(SEEDS)


def test_what_is_no_finite_number_is_left_out() -> None:
    record = {"method": "local", "seed": 1, "round": 2, "loss": None, "accuracy": 0.5, "train_loss": float("nan")}
    assert numbers(record) == {"accuracy": 0.5}
