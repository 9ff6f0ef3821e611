"""FedSPU's figures 5 and 13, and FedSpa's figure 1 and table 5, by hand: similarity, energy, front and search time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.papers import comparison, energy, fedspa, fedspa_pareto, search_time, similarity
from bench.papers.fair import FEDSPU
from bench.papers.fedspa_pareto import Point, front, points
from bench.papers.search_time import Network, Watch
from bench.papers.show import draw
from edgefl.models.graph import INPUT, Graph
from edgefl.models.graph.graph import Node
from edgefl.models.graph.operations import Linear
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_norms import l1_norms
from edgefl.models.neurons.neuron_set import NeuronSet
from tests.bench.test_comparison import summary

SPEC = ModelSpec.of(Graph((2,), (Node("a", Linear(2, 4), (INPUT,)), Node("fc", Linear(4, 3), ("a",)))))


def test_similarity_is_the_mean_over_pairs_of_common_over_all_neurons() -> None:
    sets = [NeuronSet.of(SPEC, {"a": ids}) for ids in ((0, 1), (1, 2), (0, 1))]
    assert similarity.alike(sets) == pytest.approx((1 / 3 + 1 + 1 / 3) / 3)


def test_rules_order_neurons_by_their_own_norms() -> None:
    """Neuron 0 has the weights 3 and 0, neuron 1 has 2 and 2. The gradient of neuron 2 alone is not 0."""
    weights = {"a.weight": np.array([[3, 0], [2, 2], [0, 0], [0, 0]], np.float32), "fc.weight": np.ones((3, 4))}
    slopes = {"a.weight": np.array([[0, 0], [0, 0], [-1, 0], [0, 0]], np.float32), "fc.weight": np.zeros((3, 4))}
    params = {name: np.zeros(param.shape) for name, param in SPEC.params.items()}
    first = {
        rule: int(np.argmax(l1_norms({**params, **strength(weights, slopes)}, SPEC)["a"]))
        for rule, strength in similarity.RULES.items()
    }
    assert list(first.values()) == [1, 0, 2]


def test_clients_whose_weights_stay_alike_differ_by_gradients_and_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "RATE", 1e-12)
    run = comparison.run(comparison.COMPARISON, "digits", "FedAvg", 0.1, 1)
    whole = run.federation(run.experiment, None)
    federation, experiment = replace(whole, clients=whole.clients[:3]), replace(run.experiment, epochs=1)
    found = similarity._similarities(federation, experiment, federation.initial(), 1)
    by_weights, by_squares, by_gradient, drawn = (list(by_keep.values()) for by_keep in found.values())
    assert by_weights == by_squares == [1.0] * len(similarity.KEEPS)
    assert all(0 < value < 1 for value in (*by_gradient, *drawn))


def test_a_rule_is_compared_with_draws_seed_by_seed() -> None:
    by_keep = {rule: {f"{keep:g}": values for keep in similarity.KEEPS} for rule, values in LIKENESS.items()}
    (off, *_) = similarity.over_draws({"similarity": {"0": by_keep}}, "0", "rule")
    assert (off.mean, off.low is not None and off.low > 0) == (pytest.approx(20.0), True)


LIKENESS = {"rule": [0.5, 0.52], similarity.DRAWN: [0.3, 0.32]}


def spending(joules: float) -> Any:
    made = summary("any", 0.9, 10)
    return replace(made, curve=[{"virtual_joules": joules / 2}, {"virtual_joules": joules}])


def test_energy_saved_is_a_share_of_fedspu_s_joules_by_seed() -> None:
    spent = {FEDSPU: (100.0, 200.0, 100.0), "less": (80.0, 158.0, 78.0), "more": (120.0, 242.0, 122.0)}
    known = {name: (0.1, dict(enumerate(map(spending, each), 1))) for name, each in spent.items()}
    assert energy.joules(known, "less").values == (80.0, 158.0, 78.0)
    less = energy.saved(known, "less")
    assert less.mean == pytest.approx((20 + 21 + 22) / 3)
    assert energy.said(less) == "+21.0 (+18.5 to +23.5), less"
    assert energy.said(energy.saved(known, "more")).endswith(", more")
    assert "FedSPU + ES" in energy.ENERGY.methods and not any("," in name for name in energy.ENERGY.methods)


RECORD: dict[str, Any] = {
    "results": [
        {"label": "DST 0.5", "ours": 80.0}, {"label": "DST 0.5: MB", "ours": 5.0},
        {"label": "DST 0.5: GFLOP", "ours": 9.0}, {"label": "FedAvg-FT", "ours": 82.0},
        {"label": "FedAvg-FT: MB", "ours": 10.0}, {"label": "FedAvg-FT: GFLOP", "ours": 8.0},
        {"label": "FedAvg", "ours": 70.0},
        {"label": "Local", "ours": 60.0}, {"label": "Local: MB", "ours": 0.0}, {"label": "Local: GFLOP", "ours": 8.0},
    ],
}  # fmt: skip


def test_the_front_has_the_points_that_no_point_beats() -> None:
    """FedAvg is read in the run of FedAvg-FT and has its costs."""
    assert points(RECORD, "MB")["FedAvg"] == Point(70.0, 10.0)
    assert front(points(RECORD, "MB")) == ["Local", "DST 0.5", "FedAvg-FT"]
    assert front(points(RECORD, "GFLOP")) == ["FedAvg-FT"]


def test_the_picture_has_every_point(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    fedspa_pareto.draw(RECORD, tmp_path / "front.svg")
    text = (tmp_path / "front.svg").read_text(encoding="utf-8")
    assert [text.count(f">{name}<") for name in points(RECORD, "MB")] == [2, 2, 2, 2]


def test_the_best_density_and_the_costs_are_read_in_the_runs() -> None:
    def run(accuracy: float) -> list[dict[str, Any]]:
        part = {"values": 1_000_000}
        clients = [{"executed_flops": 2e9, "search_flops": 1e9}, {"status": "absent"}]
        return [{"down": part, "up": part, "clients": clients, "evaluation": {"personal": {"accuracy": accuracy}}}]

    runs = [run(accuracy) for accuracy in (0.5, 0.6, 0.8, 0.7, 0.6)]
    assert fedspa_pareto._in_the_middle(*runs).value == 1
    assert fedspa_pareto._in_the_middle(*(run(accuracy) for accuracy in (0.9, 0.6, 0.8, 0.7, 0.6))).value == 0
    assert (fedspa_pareto._megabytes(runs[0]).value, fedspa_pareto._gigaflop(runs[0]).value) == (2.0, 3.0)


def test_setting_a_is_whole_and_in_small() -> None:
    (whole,) = (table for table in fedspa.tables(quick=False) if table.name == "fedspa-a")
    (small,) = fedspa_pareto.tables(quick=False)
    assert {run.experiment.partition for table in (whole, small) for run in table.runs()} == {"dirichlet:0.2"}
    assert {row.label: row.paper for row in whole.rows}["DST"] == 95.3
    assert whole.picture is draw and small.picture is fedspa_pareto.draw
    assert {run.experiment.per_round for run in small.runs()} == {5}
    densities = {dict(run.experiment.options).get("density") for run in small.runs()}
    assert densities == {None, *fedspa_pareto.DENSITIES}


def test_a_search_is_a_part_of_its_round() -> None:
    training, searching = search_time._round(Network("emnist", "lenet5", 8, 0.0), 8)()
    assert training > 0 and searching > 0
    watch = Watch()
    assert watch.timed(lambda *_: {}, 1, 2) == {} and watch.seconds >= 0


def test_the_share_of_a_search_is_the_median_of_the_rounds_shares() -> None:
    found = {"networks": {"VGG11": {"samples": 500, "seconds": [[10.0, 1.0], [20.0, 4.0], [10.0, 5.0]]}}}
    assert search_time.rows(found)["VGG11"] == (500, 10.0, 4.0, pytest.approx(20.0), 19.19)


@pytest.mark.parametrize(
    ("main", "arguments", "says"),
    [
        (similarity.main, ["--rounds", "0"], "--rounds 0; expected at least 1"),
        (search_time.main, ["--repetitions", "0"], "--repetitions 0; expected at least 1"),
    ],
)
def test_numbers_out_of_range_are_refused(main: Any, arguments: list[str], says: str, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert says in capsys.readouterr().err
