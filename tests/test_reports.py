"""Public reports of people who do this work, tried on edgefl: what each brought, in small, and what comes of it.

docs/reports.md has their addresses and outcomes, and names the tests of the reports that need sockets.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import edgefl
from edgefl.errors import EdgeflError
from edgefl.methods import FedAvg

torch = pytest.importorskip("torch", reason="the modules of these people are torch's")
nn, F = torch.nn, torch.nn.functional

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reports.md"
N, PEOPLE = 120, 4
CHANCE = np.random.default_rng(0)
Y = CHANCE.integers(0, 3, N)
X = (CHANCE.normal(size=(N, 8)) + 2 * np.eye(3, 8)[Y]).astype(np.float32)
WHO = np.arange(N) % PEOPLE
STEPS = CHANCE.normal(size=(N, 6, 8)).astype(np.float32) + 2 * np.eye(3, 8, dtype=np.float32)[Y][:, None]
Program = Callable[[Path], Any]


class Report(NamedTuple):
    """A report: what a person would write, and the place of the report. `expected` is the result or the refusal's
    start.
    """

    address: str
    program: Program
    expected: Any


def run(path: Path, data: Any = (X, Y, WHO), method: Any = "fedavg", **settings: Any) -> edgefl.Run:
    settings = {"rounds": 2, "epochs": 1, "progress": False, "directory": path / "run", **settings}
    return edgefl.simulate(method, data=data, **settings)


class Of(nn.Module):  # type: ignore[name-defined,misc]
    """A module of these parts whose forward is given."""

    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.given = forward

    def forward(self, x: Any) -> Any:
        return self.given(self, x)


def head(inputs: int = 8, outputs: int = 3) -> Any:
    torch.manual_seed(0)
    return nn.Linear(inputs, outputs)


# ---- What is taken, with the value that it comes to.


def column_of_labels(path: Path) -> Any:
    return run(path, (X, Y[:, None], WHO), model=head(), loss=nn.CrossEntropyLoss()).notes


def rows_of_targets(path: Path) -> Any:
    rows = np.stack([X[:, 0], X[:, 1] - X[:, 2], 2 * X[:, 3]], 1)
    found = run(path, (X, rows, WHO), model=head(), rounds=10, epochs=5, lr=0.1)
    return found.method.loss < 0.01 * rows.var(0).mean()


def word_vectors(path: Path) -> Any:
    """Frozen vectors of words below an LSTM: the last word says the class."""
    words = np.random.default_rng(1).integers(0, 12, (240, 4))
    torch.manual_seed(0)
    table = nn.Embedding.from_pretrained(torch.randn(12, 8))
    net = Of(
        lambda m, ids: m.fc(m.lstm(m.embed(ids))[1][0][-1]),
        embed=table, lstm=nn.LSTM(8, 8, batch_first=True), fc=nn.Linear(8, 2),
    )  # fmt: skip
    data = (words, (words[:, -1] >= 6).astype(int), np.arange(240) % 4)
    found = run(path, data, model=net, rounds=8, epochs=5, optimizer="adam", lr=0.03)
    return found.method.accuracy > 0.9, np.array_equal(found.method.model.params["embed.weight"], table.weight.numpy())


def few_samples_each(path: Path) -> Any:
    found = run(path, "digits", clients=200, partition="dirichlet:0.1", per_round=5, rounds=1, eval_every=1)
    return found.experiment.clients, {min(len(s.train), len(s.test)) >= 1 for s in found.federation.clients}


def partition_ends(path: Path) -> Any:
    found = run(path, (X, Y), clients=50, partition="dirichlet:0.01", rounds=1, model=head())
    return len(found.federation.clients), min(len(s.train) for s in found.federation.clients)


def nearly_iid(path: Path) -> Any:
    """Dirichlet 100 learns like iid."""
    settings = {"clients": 10, "per_round": 10, "rounds": 6}
    found = [
        run(path / how, "digits", partition=how, **settings).method.accuracy for how in ("iid", "dirichlet:100")
    ]  # of 360 test samples
    return min(found) > 0.85, abs(found[0] - found[1]) < 0.06


def two_classes_each(path: Path) -> Any:
    found = run(path, "digits", clients=20, partition="classes:2", per_round=2, rounds=1).federation
    return {len(set(found.data.y[np.concatenate([s.train, s.test])])) for s in found.clients}


def own_partition(path: Path) -> Any:
    """Clients 0 and 1 have class 0 alone, 2 and 3 class 1, 4 and 5 class 2."""
    half = np.zeros(N, int)
    for label in range(3):
        half[np.flatnonzero(label == Y)[::2]] = 1
    found = run(path, (X, Y, 2 * Y + half), rounds=1).federation
    return [sorted(set(found.data.y[s.train])) for s in found.clients]


def no_overlap(path: Path) -> Any:
    parts = [np.concatenate([s.train, s.validation, s.test]) for s in run(path, rounds=1).federation.clients]
    return Counter(Counter(np.concatenate(parts).tolist()).values())


def gru_of_windows(path: Path) -> Any:
    net = Of(lambda m, x: m.fc(m.gru(x)[1][-1]), gru=nn.GRU(8, 6, batch_first=True), fc=head(6))
    return run(path, (STEPS, Y, WHO), model=net, rounds=6, epochs=5, lr=0.1).method.accuracy > 0.9


def ten_series(path: Path) -> Any:
    x, y = CHANCE.normal(size=(10, 5, 1)), CHANCE.normal(size=(10, 3))
    net = Of(lambda m, x: m.lstm(x)[0][:, -1, :], lstm=nn.LSTM(1, 3, batch_first=True))
    return run(path, (x, y), model=net, clients=2, loss="mse").method.loss > 0


def zero_state(path: Path) -> Any:
    """An initial state of zeros, as tutorials write it, is the graph without one."""

    def begun(m: Any, x: Any) -> Any:
        zeros = torch.zeros(1, x.size(0), 6).to(x.device)
        return m.fc(m.lstm(x, (zeros, zeros))[0][:, -1, :])

    plain, given = (
        run(path / str(at), (STEPS, Y, WHO), model=Of(forward, lstm=nn.LSTM(8, 6, batch_first=True), fc=head(6)))
        for at, forward in enumerate((lambda m, x: m.fc(m.lstm(x)[0][:, -1, :]), begun))
    )
    return plain.federation.graph == given.federation.graph


def no_dropout_in_export(path: Path) -> Any:
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), head(16))
    model = run(path, model=net).method.model
    net.load_state_dict(torch.load(model.save(path / "one.pt")))
    with torch.no_grad():
        expected = net.eval()(torch.from_numpy(X)).numpy()
    return float(np.abs(model.predict(X) - expected).max()) < 1e-5


def weights_are_kept(path: Path) -> Any:
    """Require that weights and statistics of a module are the ones with which the run begins."""
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), head())
    net[1].running_mean.uniform_()
    run(path, model=net, rounds=1)
    params = edgefl.load(path / "run" / "model.safetensors").model.params
    return {np.array_equal(params[name], value) for name, value in net.state_dict().items() if name in params}


def shape_check(path: Path) -> Any:
    def forward(m: Any, x: Any) -> Any:
        _, features = x.shape
        assert features == 8, f"{features} features"
        if x.dim() == 3:
            x = x.flatten(1)
        return m.fc(x)

    return run(path, model=Of(forward, fc=head())).federation.graph.output_shape


def optional_arguments(path: Path) -> Any:
    class Masked(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.fc = head()

        def forward(self, x: Any, mask: Any = None, return_features: bool = False) -> Any:
            y = self.fc(x if mask is None else x * mask)
            return (y, x) if return_features else y

    return run(path, model=Masked()).federation.graph.output_shape


def one_output(path: Path) -> Any:
    net = Of(lambda m, x: m.fc(x).squeeze(-1), fc=head(8, 1))
    found = run(path, (X, X[:, 0] - X[:, 1], WHO), model=net, loss=nn.MSELoss(), rounds=10, epochs=5, lr=0.1)
    return found.method.loss < 0.01, found.method.model.predict(X[:2]).shape


def log_softmax(path: Path) -> Any:
    with pytest.warns(UserWarning, match="at the end is left to the loss"):
        found = run(path, model=nn.Sequential(head(), nn.LogSoftmax(1)), rounds=8, epochs=5, lr=0.1)
    return found.method.accuracy > 0.75


def class_weights(path: Path) -> Any:
    """One sample of 20 is of class 1. Return how many of these samples are found without and with weights."""
    stream = np.random.default_rng(3)
    y = (stream.random(400) < 0.05).astype(int)
    x = stream.normal(size=(400, 4)).astype(np.float32)
    x[:, 0] += 1.5 * y
    found = []
    for weight in (None, torch.tensor([1.0, 19.0])):
        loss = nn.CrossEntropyLoss(weight=weight)
        settings = {"model": head(4, 2), "loss": loss, "rounds": 8, "epochs": 4, "lr": 0.1}
        one = run(path / str(weight is None), (x, y, np.arange(400) % 4), **settings)
        found.append(float((one.method.model.labels(x)[y == 1] == 1).mean()))
    return found[0] < 0.3, found[1] > 0.5


def steps_of_the_rate(path: Path) -> Any:
    method = FedAvg(lr=0.1, schedule="step", lr_decay=0.1, decay_every=2)
    run(path, method=method, rounds=1)
    return [round(method.rate(t), 6) for t in range(1, 6)]


def stopped_early(path: Path) -> Any:
    seen: list[int] = []

    def on_round(record: dict[str, Any]) -> None:
        seen.append(record["round"])
        if record["round"] == 3:  # here the rule of the person would stand
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(path, rounds=9, eval_every=1, checkpoint_every=1, on_round=on_round)
    found = edgefl.open_run(path / "run").method
    return seen, found.model.what, len(found.seeds[1].metrics)


def best_of_all_rounds(path: Path) -> Any:
    best = {"accuracy": -1.0, "round": 0}

    def on_round(record: dict[str, Any]) -> None:
        if record["accuracy"] > best["accuracy"]:
            best.update(accuracy=record["accuracy"], round=record["round"])
            edgefl.open_run(path / "run").method.model.save(path / "best.safetensors")

    found = run(path, rounds=5, epochs=2, eval_every=1, checkpoint_every=1, on_round=on_round)
    clients = found.federation.clients
    model = edgefl.load(path / "best.safetensors")
    again = np.mean([(model.labels(X[s.test]) == Y[s.test]).mean() for s in clients])
    return bool(np.isclose(again, best["accuracy"])), best["accuracy"] == max(r["accuracy"] for r in found.metrics)


def scores_of_numbers(path: Path) -> Any:
    """The loss of each client is the mean square of its errors, and there is no accuracy."""
    y = (3 * X[:, 0] + 1).astype(np.float32)
    found = run(path, (X, y, WHO), rounds=4)
    model, parts = found.method.model, found.federation.clients
    errors = [float(((model.predict(X[s.test])[:, 0] - y[s.test]) ** 2).mean()) for s in parts]
    return found.method.accuracy, np.allclose([client.loss for client in found.clients], errors, rtol=1e-5)


def accuracies_of_clients(path: Path) -> Any:
    found = run(path, rounds=4)
    rights = [(found.method.model.labels(X[s.test]) == Y[s.test]).mean() for s in found.federation.clients]
    return np.array_equal([client.accuracy for client in found.clients], rights)


def saved_models_score_alike(path: Path) -> Any:
    worst = 0.0
    for method in ("fedper", "fedspu", "ditto", "fedspa", "fjord", "fedavg-ft"):
        net = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 3))
        found = run(path / method, method=method, model=net, per_round=4)
        for client in found.clients[:2]:
            model = edgefl.load(client.model.save(path / "one.safetensors"))
            rows = found.federation.clients[client.id].test
            worst = max(worst, abs(client.accuracy - (model.labels(X[rows]) == Y[rows]).mean()))
    return worst


def new_samples(path: Path) -> Any:
    """Models of all clients and of one, on samples that nobody had."""
    found = run(path, method="fedspu", rounds=3, model=head())
    new = np.random.default_rng(9).normal(size=(5, 8))
    return found.clients[1].model.labels(new).shape, found.method.model.predict(torch.from_numpy(new)).shape


def going_on(path: Path) -> Any:
    """Start from a trained model, from its file, and from the read file. A rate of nearly 0 moves nothing."""
    first = run(path / "first", model=head(), rounds=4, epochs=3, lr=0.1).method
    file = first.model.save(path / "first.safetensors")
    starts = (first.model, edgefl.load(file), file)
    settings = {"rounds": 1, "lr": 1e-30}
    return {
        run(path / str(at), model=one, **settings).method.accuracy == first.accuracy for at, one in enumerate(starts)
    }


def number_of_batches(path: Path) -> Any:
    """1,996 samples in batches of 32 are 63 steps."""
    x = np.zeros((2464, 8), np.float32)
    found = run(
        path, (x, np.arange(2464) % 2, np.zeros(2464, int)), model=head(8, 2), rounds=1, batch=32, train_share=0.9
    )
    (client,) = found.method.seeds[1].log_records[0]["clients"]
    return client["examples"], client["steps"]


def one_client(path: Path) -> Any:
    return run(path, (X, Y), clients=1, rounds=3, epochs=5).method.accuracy > 0.7


def where_all_is(path: Path) -> Any:
    found = run(path)
    return found.directory == path / "run", "fedavg" in found.table(), found.method.model.save(path / "all.pt").exists()


def large_pictures(path: Path) -> Any:
    x = CHANCE.integers(0, 255, (12, 3, 96, 96)).astype(np.uint8)
    y = np.tile(np.eye(2, 6, dtype=int) + np.eye(2, 6, 3, dtype=int), (6, 1))
    return run(path, (x, y, np.arange(12) % 3), rounds=1, batch=2).notes


def two_outputs(directory: Path) -> Any:
    from edgefl.torch import from_torch

    module = Of(lambda m, x: (m.box(x), m.kind(x)), box=nn.Linear(8, 4), kind=nn.Linear(8, 3))
    graph = from_torch(module, torch.tensor(X[:2]), output=1, outputs={0: 0.5}).graph
    return graph.nodes[-1].name, [(each.result, each.weight) for each in graph.auxiliary]


def dict_of_outputs(directory: Path) -> Any:
    from edgefl.torch import from_torch

    module = Of(lambda m, x: {"prediction": m.fc(x)}, fc=nn.Linear(8, 3))
    return [node.name for node in from_torch(module, torch.tensor(X[:2])).graph.nodes]


def tied_layers(path: Path) -> Any:
    layer, out = nn.Linear(8, 8, bias=False), nn.Linear(8, 3)
    tied = Of(lambda m, x: m.out(F.linear(m.encoder(x), m.encoder.weight.t())), encoder=layer, out=out)
    return sorted(run(path, model=tied).federation.graph.parameters())


TAKEN = [
    Report("pytorch/pytorch#127357", tied_layers, ["encoder.weight", "out.bias", "out.weight"]),
    Report("microsoft/onnxruntime#19008", two_outputs, ("kind", [("box", 0.5)])),
    Report("VectorInstitute/FL4Health#127", dict_of_outputs, ["fc"]),
    Report("FederatedAI/FATE#5500", column_of_labels, ("y: 3 classes, labels 0..2",)),
    Report("google-parfait/tensorflow-federated#2560", rows_of_targets, True),
    Report("OpenMined/PySyft#4880", word_vectors, (True, True)),
    Report("TsingZ0/HtFLlib#14", few_samples_each, (200, {True})),
    Report("ksreenivasan/OOD_Federated_Learning#2", partition_ends, (50, 1)),
    Report("KarhouTam/FL-bench#110", nearly_iid, (True, True)),
    Report("TsingZ0/PFLlib#28", two_classes_each, {2}),
    Report("KarhouTam/FL-bench#32", own_partition, [[0], [0], [1], [1], [2], [2]]),
    Report("KarhouTam/FL-bench#2", no_overlap, {1: N}),
    Report("tensorflow/tensorflow#61513", gru_of_windows, True),
    Report("pytorch/executorch#7454", ten_series, True),
    Report("yunjey/pytorch-tutorial#40", zero_state, True),
    Report("pytorch/pytorch#103681", no_dropout_in_export, True),
    Report("tensorflow/tensorflow#98964", weights_are_kept, {True}),
    Report("pytorch/pytorch#63076", shape_check, (3,)),
    Report("pytorch/pytorch#44498", optional_arguments, (3,)),
    Report("FernandoLpz/Text-Classification-LSTMs-PyTorch#9", one_output, (True, (2, 1))),
    Report("AshwinRJ/Federated-Learning-PyTorch#29", log_softmax, True),
    Report("FederatedAI/FATE#1452", class_weights, (True, True)),
    Report("alibaba/FederatedScope#580", steps_of_the_rate, [0.1, 0.1, 0.01, 0.01, 0.001]),
    Report("flwrlabs/flower#4457", stopped_early, ([1, 2, 3], "fedavg's model of all clients after round 3", 3)),
    Report("londonaicentre/FLIP#673", best_of_all_rounds, (True, True)),
    Report("alibaba/FederatedScope#105", scores_of_numbers, (None, True)),
    Report("flwrlabs/flower#983", accuracies_of_clients, True),
    Report("KarhouTam/FL-bench#27", saved_models_score_alike, 0.0),
    Report("NVIDIA/NVFlare#340", new_samples, ((5,), (5, 3))),
    Report("flwrlabs/flower#3301", going_on, {True}),
    Report("OpenMined/PySyft#3707", number_of_batches, (1996, 63)),
    Report("FedML-AI/FedML#121", one_client, True),
    Report("FedML-AI/FedML#459", where_all_is, (True, True, True)),
    Report(
        "google-parfait/tensorflow-federated#304",
        large_pictures,
        ("y: 6 decisions of 0 or 1 for each sample (loss=bce); for numbers give loss=mse",),
    ),
]


@pytest.mark.parametrize("report", TAKEN, ids=lambda report: report.address)
def test_what_people_bring_is_taken(report: Report, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert report.program(tmp_path) == report.expected


# ---- What is refused, with what the sentence begins with, before anything is written.


def texts_of_films(path: Path) -> Any:
    rows = [f"{at},film number {at} was {'good' if at % 2 else 'bad'},{at % 2}" for at in range(40)]
    (path / "films.csv").write_text("\n".join(["id,text,label", *rows]))
    return run(path, path / "films.csv", label="label", clients=3)


class Rows(torch.utils.data.Dataset):  # type: ignore[name-defined,misc]
    """Items as a Dataset of Hugging Face gives them."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, at: int) -> dict[str, Any]:
        return {"img": X[at], "label": int(Y[at])}


def unlabelled(path: Path) -> Any:
    return run(path, (X, np.where(np.arange(N) % 9 == 7, np.nan, Y), WHO))


class Heads(nn.Module):  # type: ignore[name-defined,misc]
    """A head for each task, of which the second argument says one."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(8, 3) for _ in range(2))

    def forward(self, x: Any, task_labels: Any) -> Any:
        return self.heads[task_labels](x)


class Two(nn.Module):  # type: ignore[name-defined,misc]
    """An image and a table."""

    def forward(self, image: Any, table: Any) -> Any:
        return image + table


class Stateful(nn.Module):  # type: ignore[name-defined,misc]
    """Begins each batch where the batch before ended."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.fc, self.state = nn.GRU(8, 6, batch_first=True), nn.Linear(6, 3), None

    def forward(self, x: Any) -> Any:
        y, self.state = self.gru(x, self.state)
        return self.fc(y[:, -1])


def of_model(model: Callable[[], Any], data: Any = (X, Y, WHO), **settings: Any) -> Program:
    return lambda path: run(path, data, model=model(), **settings)


def with_settings(**settings: Any) -> Program:
    return lambda path: run(path, model=head(), **settings)


class FocalLoss(nn.Module):  # type: ignore[name-defined,misc]
    def forward(self, outputs: Any, labels: Any) -> Any:
        return F.cross_entropy(outputs, labels)


REFUSED = [
    Report("FederatedAI/FATE#5665", texts_of_films, "line 2 has 'film number 0 was bad' in column text"),
    Report(
        "pytorch/executorch#1132",
        lambda path: run(path, ([[1, 2, 3], [4, 5]] * 20, [0, 1] * 20), clients=2),
        "data: x is no array: x[0] has shape (3,), and x[1] (2,); expected rows of one length, as by padding",
    ),
    Report("flwrlabs/flower#3176", lambda path: run(path, Rows()), "data: item 0 is a dict of img, label; expected"),
    Report(
        "ContinualAI/avalanche#524",
        of_model(lambda: head(8, 5), (X, np.arange(N) % 10, WHO)),
        "the model has 5 outputs; the data set has 10 classes; expected equally many",
    ),
    Report(
        "google-parfait/tensorflow-federated#2696",
        unlabelled,
        "data: y[7] is nan; expected finite float32 values: leave out samples without a target",
    ),
    Report(
        "KarhouTam/FL-bench#66",
        with_settings(method="fedspu-es", validation_share=0),
        "fedspu-es: client 0 has 0 validation samples and 21 training samples; expected at least 1; raise",
    ),
    Report("ContinualAI/avalanche#792", of_model(Heads), "forward of Heads takes x, task_labels; expected one input"),
    Report("TL-System/plato#111", of_model(Two), "forward of Two takes image, table; expected one input"),
    Report(
        "google-parfait/tensorflow-federated#1042",
        with_settings(loss=FocalLoss()),
        "loss is FocalLoss, a function of your program; expected one of cross-entropy, bce, mse, huber, l1, or of nn.",
    ),
    Report(
        "MUST-Deep-Learning/KnowIt#252",
        of_model(Stateful, (STEPS, Y, WHO)),
        "Stateful: its output differs at a second call; expected a forward that keeps no state",
    ),
    Report("flwrlabs/flower#1871", with_settings(weight=[0.4, 0.3, 0.2, 0.1]), "weight=[0.4, 0.3, 0.2, 0.1]; expected"),
    Report("flwrlabs/flower#1060", with_settings(method="fedadam"), "method=fedadam; expected one of fedspu"),
    Report("flwrlabs/flower#2342", with_settings(noise_multiplier=1.1), "noise_multiplier=1.1 is not a setting; exp"),
    Report(
        "AshwinRJ/Federated-Learning-PyTorch#5",
        with_settings(optimizer=torch.optim.Adam([torch.zeros(1)], lr=0.01, weight_decay=1e-4)),
        "optimizer is torch.optim.Adam; expected settings, as optimizer='adam', lr=0.01, weight_decay=0.0001",
    ),
]


@pytest.mark.parametrize("report", REFUSED, ids=lambda report: report.address)
def test_what_cannot_be_is_one_sentence_before_anything_is_written(report: Report, tmp_path: Path) -> None:
    with pytest.raises((EdgeflError, ValueError)) as error:
        report.program(tmp_path)
    text = str(error.value)
    assert report.expected in text and "\n" not in text
    assert not (tmp_path / "run").exists()


def test_the_page_lists_every_report() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| [")]
    listed = {line[3 : line.index("]")] for line in rows}
    assert len(listed) == len(rows) >= 25
    assert {report.address for report in (*TAKEN, *REFUSED)} <= listed
