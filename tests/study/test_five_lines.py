"""`edgefl.simulate` and its result: own models, data and methods, by name or as objects. Runs are read back."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgefl
from edgefl.cli import cli
from edgefl.errors import DataError, RunError
from edgefl.experiment.array_data import KEPT, own_data
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.settings import Experiment
from edgefl.experiment.simulate_settings import SimulateSettings
from edgefl.methods import FedAvg, FedSPU, LocalOnly
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.operations import Linear, ReLU
from edgefl.study.run_request import ELSEWHERE, asked, labels_of

Array = np.ndarray
SHORT: dict[str, Any] = {"rounds": 2, "epochs": 1, "eval_every": 1}


def people() -> tuple[Array, Array, Array]:
    """Three people of 40 samples each, whose classes lie apart."""
    random_stream = np.random.default_rng(3)
    y, who = np.tile(np.arange(3), 40), np.repeat([7, 2, 5], 40)
    return random_stream.normal(size=(120, 4)) + 3 * np.eye(4)[y] + 0.1 * who[:, None], y, who


def small() -> Model:
    nodes = (Node("a", Linear(4, 8), (INPUT,)), Node("r", ReLU(), ("a",)), Node("b", Linear(8, 3), ("r",)))
    graph, random_stream = Graph((4,), nodes), np.random.default_rng(1)
    return Model(
        graph, {n: random_stream.normal(size=p.shape).astype(np.float32) / 2 for n, p in graph.parameters().items()}
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> edgefl.Run:
    path = tmp_path_factory.mktemp("five") / "run"
    return edgefl.simulate(
        ["fedspu", "fedavg"], model=small(), data=people(), directory=path, seeds=2, progress=False, **SHORT
    )


def test_the_five_lines_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="the model is torch's")
    pytest.importorskip("matplotlib", reason="the picture is an optional extra")
    monkeypatch.chdir(tmp_path)
    x, y, groups = people()
    torch.manual_seed(1)
    my_model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    data = (torch.tensor(x), torch.tensor(y), [f"person {who}" for who in groups])
    run = edgefl.simulate("fedspu", model=my_model, data=data, rounds=2, seeds=2)
    assert "fedspu" in run.table() and "person" not in run.table()
    run.plot("curves.png")
    assert Path("curves.png").read_bytes().startswith(b"\x89PNG")
    run.clients[2].model.save("mine.safetensors")
    mine = edgefl.load("mine.safetensors")
    np.testing.assert_array_equal(mine.predict(x.astype(np.float32)), run.clients[2].model.predict(data[0]))
    assert run.directory == Path("edgefl-runs/001-own")


def test_every_group_is_a_client_and_the_model_is_the_one_that_was_given(run: edgefl.Run) -> None:
    assert (run.experiment.partition, run.experiment.clients, run.experiment.per_round) == ("group", 3, 3)
    given = small()
    assert run.federation.initial().keys() == given.params.keys()
    assert all((value == given.params[name]).all() for name, value in run.federation.initial().items())
    who = people()[2]
    for split, person in zip(run.federation.clients, (2, 5, 7), strict=True):
        assert {int(who[row]) for part in vars(split).values() for row in part} == {person}


def test_its_figures_agree_with_each_other_and_with_the_log(run: edgefl.Run) -> None:
    assert list(run.methods) == ["fedspu", "fedavg"] and list(run.method.seeds) == [1, 2]
    for method in run.methods.values():
        for seed, one in method.seeds.items():
            log = run.directory / f"seed-{seed}" / method.name / "metrics.jsonl"
            evaluation = json.loads(log.read_text().splitlines()[1])["evaluation"]
            found = evaluation["personal" if method.name == "fedspu" else "global_local"]
            assert one.accuracy == one.summary.accuracy == one.metrics[-1]["accuracy"] == found["accuracy"]
            assert [client.test_samples for client in one.clients] == found["examples"]
            scores = [client.accuracy for client in one.clients]
            assert sum(scores) / 3 == pytest.approx(one.accuracy)
            assert sum(client.loss for client in one.clients) / 3 == pytest.approx(one.loss)
            assert one.metrics[-1]["payload_bytes"] == one.payload_bytes == one.summary.payload_bytes
            assert [client.rounds for client in one.clients] == [[1, 2]] * 3
        assert method.accuracy == pytest.approx(sum(one.accuracy for one in method.seeds.values()) / 2)
        assert method.loss == pytest.approx(sum(one.loss for one in method.seeds.values()) / 2)
    assert [client.keep for client in run.clients] == [0.2, 0.4, 0.8]
    assert len(run.metrics) == 8 and {type(value) for each in run.metrics for value in each.values()} <= {
        int,
        float,
        str,
    }


def test_a_clients_model_is_that_which_was_evaluated(run: edgefl.Run) -> None:
    x, y, _ = people()
    for client in (*run.clients, *run.methods["fedspu"].seeds[2].clients):
        test = run.federation.clients[client.id].test
        if client in run.clients:
            assert (client.model.labels(x[test]) == y[test]).mean() == client.accuracy
    assert "client 1's model of fedspu" in repr(run.clients[1].model)
    assert run.methods["fedavg"].model.params.keys() == small().params.keys()
    with pytest.raises(RunError, match="fedavg has one model for all clients"):
        run.methods["fedavg"].clients[0].model  # noqa: B018


def test_a_run_reads_back_from_its_directory_alone(run: edgefl.Run) -> None:
    again = edgefl.open_run(run.directory)
    assert (again.experiment, again.metrics, again.table()) == (run.experiment, run.metrics, run.table())
    assert again.to_json() == run.to_json()
    with pytest.raises(RunError, match=r"run\.json is missing"):
        edgefl.open_run(run.directory / "seed-1")


def test_the_same_call_again_goes_on_and_the_command_goes_on_with_it_too(tmp_path: Path, capsys: Any) -> None:
    seen: list[dict[str, Any]] = []
    call = {"data": people(), "directory": tmp_path / "run", "on_round": seen.append, "progress": False, **SHORT}
    first = edgefl.simulate("fedspu", model=small(), **call)
    assert seen == first.metrics and len(seen) == 2
    again = edgefl.simulate("fedspu", model=small(), **call)
    assert again.metrics == first.metrics and len(seen) == 2
    more = edgefl.simulate("fedspu", model=small(), **{**call, "rounds": 3})
    assert more.metrics == seen and len(seen) == 3
    assert cli.main(["simulate", "--resume", str(tmp_path / "run"), "--rounds", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["methods"]["fedspu"]["rounds"] == 4
    with pytest.raises(RunError, match=r"run was run with lr=0.05; expected 0.1"):
        edgefl.simulate("fedspu", model=small(), **{**call, "rounds": 4, "lr": 0.1})
    with pytest.raises(RunError, match=r"run was run with data="):
        edgefl.simulate("fedspu", model=small(), **{**call, "rounds": 4, "data": people()[:2], "clients": 3})


def test_data_that_have_changed_on_the_disk_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    found = edgefl.simulate("local", data=people(), model=small(), directory=path, progress=False, **SHORT)
    x, y, groups = people()
    np.savez(path / found.experiment.data, x=x + 1, y=y, group=groups)
    with pytest.raises(RunError, match=r"has the content of own-.*; expected the data that the run began with"):
        edgefl.open_run(path).table()
    (path / found.experiment.data).unlink()
    assert cli.main(["simulate", "--resume", str(path)]) == 2


def test_a_callback_may_have_a_beginning_and_always_gets_its_end(tmp_path: Path) -> None:
    said: list[Any] = []

    class Tracker:
        def begin(self, settings: dict[str, Any]) -> None:
            said.append(settings["methods"])

        def __call__(self, record: dict[str, Any]) -> None:
            said.append((record["method"], record["round"]))
            if record["method"] == "local":
                raise KeyboardInterrupt

        def end(self) -> None:
            said.append("end")

    call = {"data": people(), "model": small(), "directory": tmp_path / "run", "progress": False, **SHORT}
    with pytest.raises(KeyboardInterrupt):
        edgefl.simulate("fedavg,local", on_round=[Tracker()], **call)
    assert said == [["fedavg", "local"], ("fedavg", 1), ("fedavg", 2), ("local", 1), "end"]
    assert len(edgefl.simulate("fedavg,local", **call).metrics) == 4


@pytest.mark.parametrize(
    ("method", "labels"),
    [
        ("fedspu:keep=.5,1,fedavg", ["fedspu:keep=0.5,1", "fedavg"]),
        (FedSPU(lr=0.1), ["fedspu:lr=0.1"]),
        (FedSPU(es=True), ["fedspu-es"]),
        (FedSPU, ["fedspu"]),
        ([LocalOnly(momentum=0.5, rounds=9), "fedspu"], ["local:momentum=0.5", "fedspu"]),
    ],
)
def test_methods_are_names_objects_or_classes(method: Any, labels: list[str]) -> None:
    assert labels_of(method) == labels


@dataclass(frozen=True)
class Halved(FedAvg):
    """FedAvg of half the learning rate, or another part of it."""

    part: float = 0.5

    def train(self, client_state: Any, plan: Any) -> Any:
        if self.part != 1:
            return replace(self, lr=self.lr * self.part, part=1.0).train(client_state, plan)
        return super().train(client_state, plan)


def test_a_method_of_the_program_itself_is_taken_as_an_object_or_by_its_name(tmp_path: Path) -> None:
    call = {"model": small(), "data": people(), "progress": False, **SHORT}
    name = f"{__name__}:Halved"
    methods = [Halved(part=0.25), f"{name}:part=0.25:lr=0.05", Halved, "fedavg:lr=0.0125"]
    run = edgefl.simulate(methods, directory=tmp_path / "run", lr=0.05, **call)
    assert list(run.methods) == [f"{name}:part=0.25", f"{name}:lr=0.05:part=0.25", name, "fedavg:lr=0.0125"]
    values = [method.model.params["a.weight"].tobytes() for method in run.methods.values()]
    assert values[0] == values[1] == values[3] != values[2]


def test_settings_and_hyper_parameters_are_keywords() -> None:
    given = {"lr": np.float32(0.5), "keep": 0.5, "momentum": 0.25, "options": {"clip": 1}, "loss": "cross-entropy"}
    experiment = asked("fedspu", data=people(), settings=given).experiment
    assert (experiment.lr, experiment.keep, experiment.loss) == (0.5, (0.5,), "cross-entropy")
    assert experiment.options == (("clip", 1.0), ("momentum", 0.25))
    assert asked("fedavg", preset="paper", data="emnist").experiment.rounds == 500
    assert asked().experiment == Experiment()
    without = asked(data=people()[:2]).experiment
    assert (without.clients, without.partition) == (2, "dirichlet:0.1")
    x, y, groups = people()
    assert asked(data=(x, y, groups.astype(float)), settings={"clients": "all"}).experiment.clients == 3
    assert asked("fedavg", data=(x, y), settings={"tune": {"lr": 0.1}}).experiment.tune == (("lr", (0.1,)),)
    values = (people()[0], people()[0].astype(np.float32))
    assert asked(data=values).experiment.partition == "iid"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"round": 3}, "round=3 is not a setting; the nearest are rounds"),
        ({"banana": 3}, "banana=3 is not a setting; expected one of aggregation, axes, b"),
        ({"method": "local", "keep": "half"}, "keep=['half']; expected a list, as (0.2, 0.4"),
        ({"rounds": 2.5}, "rounds=2.5; expected a whole number, as 30"),
        ({"momentum": "fast"}, "momentum='fast'; expected float, as 0.0"),
        ({"method": 3}, "method=3; expected a name, an Algorithm, or several of them"),
        ({"method": "fedfoo"}, "method=fedfoo; expected one of fedspu"),
        ({"data": np.zeros(3)}, "data is ndarray; expected a name, a file, (x, y), (x, y, groups), a list of (x, y)"),
        ({"data": (1, 2, 3, 4)}, "data is tuple of 4; expected a name"),
        ({"data": (np.zeros((3, 2)), np.zeros(4, int))}, "expected int32 (3,)"),
        ({"data": (np.full((3, 2), np.nan), np.zeros(3, int))}, "data: x[0, 0] is nan; expected finite"),
        ({"data": people(), "model": 3}, "model is int; expected a torch.nn.Module"),
        ({"data": people(), "model": "vgg99"}, "model=vgg99; expected one of"),
        (
            {"data": ([[1, 2], [3]], [0, 1])},
            "data: x is no array: x[0] has shape (2,), and x[1] (1,); expected",
        ),
        ({"data": people()[:2], "clients": "all"}, "clients=all with data without groups; expected (x, y, groups)"),
        ({"data": people(), "on_round": 3}, "on_round has 3; expected a function, or a list of functions"),
        ({"data": people(), "tune": {"rate": 0.1}}, "tune rate; expected one of"),
        (
            {"method": "fedavg,local", "keep": 0.5},
            "keep=0.5 is not a hyper-parameter of fedavg, local; expected one of",
        ),
        ({"method": "fedspu,local", "lam": 0.5}, "lam=0.5: fedspu has it, local has not; expected methods that all"),
        ({"preset": "paper"}, "preset=paper with data=digits; expected data among"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_written(
    call: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises((ValueError, DataError)) as refused:
        edgefl.simulate(call.pop("method", None), directory=tmp_path / "run", progress=False, **call)
    assert message in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_data_set_as_a_value_gives_the_run_of_its_name(tmp_path: Path) -> None:
    """Digits by their name, by their DataSet and as a dict: the same models, bit for bit."""
    digits = load("digits")
    of_clients = {"clients": 4, "per_round": 2, "partition": "iid", "lr": 0.05, "progress": False, **SHORT}
    arrays = {"x": digits.x, "y": digits.y, "scale": digits.scale, "shift": digits.shift}
    runs = [
        edgefl.simulate("fedavg", data=data, directory=tmp_path / str(i), **of_clients)
        for i, data in enumerate(("digits", digits, arrays))
    ]
    values = [found.methods["fedavg"].model.params for found in runs]
    for name, value in values[0].items():
        assert value.tobytes() == values[1][name].tobytes() == values[2][name].tobytes()


def test_arrays_are_named_by_their_content() -> None:
    x, y, groups = people()
    found = own_data({"x": x, "y": y, "group": groups})
    assert KEPT.fullmatch(found.name) and isinstance(found.data, DataSet) and found.data.x.dtype == np.float32
    others = [{"x": x, "y": y}, {"x": x + 1, "y": y}, {"x": x, "y": y[::-1]}, {"x": x.reshape(120, 2, 2), "y": y}]
    assert len({found.name, *(own_data(each).name for each in others)}) == 5
    text = own_data({"x": x, "y": np.array(["b", "a", "c"])[y], "group": [f"p{who}" for who in groups]})
    assert text.data.y[:3].tolist() == [1, 0, 2] and text.data.groups[0] == 2 and text.data.classes == 3


def test_importing_the_package_brings_nothing_and_knows_its_names_and_settings() -> None:
    code = "import sys, edgefl; print(sorted(n for n in sys.modules if n.startswith(('edgefl', 'numpy', 'torch'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['edgefl', 'edgefl._finder']\n"
    assert set(edgefl.EXPORTS) <= set(dir(edgefl)) and all(getattr(edgefl, name) for name in edgefl.EXPORTS)
    assert {each.name for each in fields(Experiment)} - set(ELSEWHERE) <= set(SimulateSettings.__annotations__)
    with pytest.raises(AttributeError, match="module 'edgefl' has no attribute 'nothing'"):
        edgefl.nothing  # noqa: B018
