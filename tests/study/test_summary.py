"""A report's figures from metrics, on a run of two rounds and two clients that can be added up by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from edgefl.errors import RunError
from edgefl.experiment.settings import Experiment
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.study.capacity_tiers import Tiers, tiers_of
from edgefl.study.comparison import compare
from edgefl.study.result_text import early_stopping, gains, precision
from edgefl.study.summary import Summary, summarise
from edgefl.study.tables import print_tables

TIERS = Tiers(scalars=10, keep=[0.5, 1.0], memory_bytes={0.5: 1000, 1.0: 2000})


def log_record(round: int, clients: list[dict[str, Any]], correct: list[int] | None = None) -> dict[str, Any]:
    part = {"values": 60, "index": 2, "header": 8}
    found: dict[str, Any] = {"round": round, "clients": clients, "down": part, "up": part, "seconds": 2.0}
    if correct is not None:
        accuracy = sum(c / n for c, n in zip(correct, (10, 20), strict=True)) / 2
        weighted = sum(correct) / 30
        found["evaluation"] = {
            "personal": {"accuracy": accuracy, "accuracy_weighted": weighted, "correct": correct, "examples": [10, 20]}
        }
    return found


def client(number: int, **changes: Any) -> dict[str, Any]:
    return {"client": number, "status": "on", "down": 35, "up": 35, "seconds": 0.5, **changes}


def summary(log_records: list[dict[str, Any]], method: str = "fedspu") -> Summary:
    return summarise(method, log_records, TIERS, {"round_lt_C": 1})


@pytest.fixture
def plain() -> Summary:
    both = [client(0), client(1, status="refused", seconds=1.5)]
    return summary([log_record(1, both), log_record(2, both, correct=[5, 20])])


def test_bytes_of_all_rounds_are_added_by_kind(plain: Summary) -> None:
    assert plain.up == plain.down == {"values": 120, "index": 4, "header": 16}
    assert plain.payload_bytes == 280
    assert plain.dense_bytes == 4 * 2 * 4 * 10


def test_refused_replies_are_counted(plain: Summary) -> None:
    assert (plain.rounds, plain.client_rounds, plain.refused) == (2, 4, 2)


def test_accuracy_is_the_unweighted_mean_over_clients(plain: Summary) -> None:
    assert plain.accuracy == 0.75
    assert plain.evaluation["personal"]["accuracy_weighted"] == pytest.approx(25 / 30)


def test_methods_with_masks_say_their_density_and_what_they_compute_by_the_paper_s_count() -> None:
    """The means are over clients that answered, by their samples. Where no method has masks there is no such column."""
    tiers = replace(TIERS, densities={"fedspa": 0.5}, flops=lambda name, n: None if name == "fedspu" else 1e9 * n)
    log_records = [
        log_record(1, [client(0, examples=10), client(1, examples=0)]),
        log_record(2, [client(1, examples=30)], [5, 20]),
    ]
    sparse, other = (summarise(method, log_records, tiers, {}) for method in ("fedspa", "fedspu"))
    assert (sparse.density, sparse.flops) == (0.5, 40e9) and (other.density, other.flops) == (None, None)
    assert sparse.to_json()["flops"] == 40e9
    for summaries, has_columns in (([sparse, other], True), ([other], False)):
        console = Console(width=200, file=StringIO())
        print_tables(console, {1: summaries})
        text = console.file.getvalue()
        assert ("GFLOP" in text and " 0.5 " in text and " 40 " in text) == has_columns
    experiment = Experiment(
        methods=("fedspa", "fedspa-rsm", "fedavg", "subfedavg", "fedspu"), options=(("density", 0.2),)
    )
    graph = build("digits_cnn", *EXAMPLES["digits_cnn"])
    found = tiers_of(experiment, graph)
    assert found.densities == {"fedspa": 0.2, "fedspa-rsm": 0.2, "subfedavg": 0.2}
    dense, macs = found.flops("fedavg", 40), sum(graph.macs().values())
    assert dense == 6 * 5 * 40 * macs
    assert found.flops("fedspa", 40) - found.flops("fedspa-rsm", 40) == 6 * 16 * macs  # the batch that grows the mask
    assert (
        0 < found.flops("fedspa-rsm", 40) < dense and found.flops("subfedavg", 40) is found.flops("fedspu", 40) is None
    )


def test_rounds_are_added_up_by_the_density_that_they_were_trained_at() -> None:
    """There is one density for all clients, or each client's own density, which its records say for the next round.

    Old lines have no operations.
    """
    run = {"executed_flops": 4e6, "search_flops": 1e6, "examples": 10}
    first = [client(0, density=0.5, **run), client(1, density=0.804, executed_flops=6e6, up=45)]
    second = [client(0, density=0.5, **run), client(1, status="refused", seconds=1.5), client(1, density=0.5)]
    log_records = [log_record(1, first), log_record(2, second, [5, 20])]
    tiers = replace(TIERS, densities={"fedspa": 0.5, "subfedavg": 0.3}, flops=lambda name, n: 1e6 * n)
    found = summarise("subfedavg", log_records, tiers, {}).densities
    assert [(row["density"], row["client_rounds"], row["bytes"]) for row in found] == [
        (1, 2, 75),
        (0.8, 2, 70),
        (0.5, 1, 70),
    ]
    assert [row["executed_flops"] for row in found] == [5e6, None, 4e6]
    assert [row["search_flops"] for row in found] == [0.5e6, None, 1e6]
    moved = [log_record(1, [client(0, trained_density=1.0, **run), client(1, trained_density=0.7, **run)], [5, 20])]
    rows = summarise("subfedavg", moved, tiers, {}).densities  # one mask of all clients, which moves
    assert [(row["density"], row["client_rounds"]) for row in rows] == [(1, 1), (0.7, 1)]
    bare = [log_record(1, [client(0, **run), client(1)], [5, 20])]
    tiers = replace(tiers, mask_bytes={"fedspa": 3000})
    sparse, dense = summarise("fedspa", bare, tiers, {}), summarise("fedspu", bare, tiers, {})
    (row,) = sparse.densities
    assert (row["density"], row["nominal_flops"], row["memory_bytes"], row["dense_bytes"]) == (0.5, 5e6, 3000, 80)
    assert [(row["density"], row["memory_bytes"]) for row in dense.densities] == [(1, None)]
    assert [tier["executed_flops"] for tier in dense.tiers] == [4e6, None]
    text = shown(sparse)
    assert "Densities, costs per client round" in text and "3 kB" in text and " 4 " in text and "…" not in text
    assert "Densities" not in shown(dense)


def test_each_tier_has_its_clients_accuracy_and_mean_cost(plain: Summary) -> None:
    half, full = plain.tiers
    assert (half["keep"], half["clients"], half["client_rounds"], half["accuracy"]) == (0.5, 1, 2, 0.5)
    assert (full["keep"], full["accuracy"], full["seconds"], full["bytes"]) == (1.0, 1.0, 1.5, 70)
    assert (half["memory_bytes"], full["dense_bytes"]) == (1000, 80)


def test_the_curve_has_the_evaluated_rounds_and_the_bytes_so_far(plain: Summary) -> None:
    assert plain.curve == [{"round": 2, "accuracy": 0.75, "payload_bytes": 280, "device_seconds": 4.0, "work": None}]


def test_early_stopping_is_compared_with_the_same_method_without_it(plain: Summary) -> None:
    stopped = summary([log_record(1, [client(0)], correct=[6, 20])], "fedspu-es")
    assert early_stopping({1: [plain, stopped]}) == [
        "Early stopping: 1 of 2 rounds, 1 of 4 client rounds, 50.0 % of the bytes saved, +5.0 points of accuracy; "
        "too few clients for a full round after round 1."
    ]


def test_gains_say_which_model_was_compared(plain: Summary) -> None:
    shared = log_record(1, [client(0)], correct=[1, 2])
    shared["evaluation"]["global_local"] = shared["evaluation"].pop("personal")
    other = summary([shared], "fedavg")
    assert gains(compare({1: [plain, other]})) == [
        "fedspu: +65.0 points of accuracy against fedavg (its global model)."
    ]


def test_a_model_that_clients_adapt_counts_before_the_global_one_and_is_named_so(plain: Summary) -> None:
    shared = log_record(1, [client(0)], correct=[1, 2])
    shared["evaluation"]["global_local"] = shared["evaluation"].pop("personal")
    shared["evaluation"] |= log_record(1, [client(0)], correct=[5, 20])["evaluation"]
    shared["evaluation"]["adapted"] = shared["evaluation"].pop("personal")
    other = summary([shared], "fedavg-ft")
    assert other.accuracy == 0.75
    ours = "its global model, adapted by each client"
    assert gains(compare({1: [plain, other]})) == [f"fedspu: +0.0 points of accuracy against fedavg-ft ({ours})."]
    out = StringIO()
    print_tables(Console(file=out, width=100), {1: [other]})
    assert re.search(r"fedavg-ft +adapted", out.getvalue())


def test_the_precision_is_that_of_the_least_certain_method(plain: Summary) -> None:
    """.5 and 1: a standard deviation of .354 over the root of 2."""
    by_seed = {1: [plain]}
    expected = (
        "One seed, 2 clients with 30 test samples: the standard error over clients of a mean is up to 25.0 points."
    )
    assert precision(by_seed, compare(by_seed)) == expected


def test_tables_fit_eighty_columns(plain: Summary) -> None:
    out = StringIO()
    print_tables(Console(file=out, width=80), {1: [plain]})
    assert "75.0 %" in out.getvalue()
    assert "…" not in out.getvalue()


def shown(found: Summary) -> str:
    out = StringIO()
    print_tables(Console(file=out, width=80), {1: [found]})
    return out.getvalue()


def test_replies_that_were_not_aggregated_as_they_came_have_columns() -> None:
    odd = [client(0, status="excluded", reason="too long"), client(1, clipped="too long")]
    found = summary([log_record(1, odd), log_record(2, [client(0), client(1)], correct=[5, 20])])
    assert (found.refused, found.excluded, found.clipped) == (0, 1, 1)
    assert "excluded" in shown(found)
    assert "refused" not in shown(found)


def test_a_run_in_which_nobody_was_doubted_has_no_such_columns() -> None:
    found = shown(summary([log_record(1, [client(0), client(1)], correct=[5, 20])]))
    assert not any(name in found for name in ("refused", "excluded", "clipped"))


def test_a_client_that_did_not_answer_counts_in_the_bytes_alone() -> None:
    log_records = [log_record(1, [client(0), client(1, status="absent", up=0, seconds=0.0)], correct=[5, 20])]
    found = summary(log_records)
    assert found.client_rounds == 1
    assert found.payload_bytes == 140
    assert found.tiers[1]["client_rounds"] == 0


def test_a_client_that_was_not_evaluated_is_left_out_of_its_tier() -> None:
    last = log_record(1, [client(0)], correct=[5, 20])
    last["evaluation"]["personal"].update(correct=[None, 20], examples=[None, 20])
    half, full = summary([last]).tiers
    assert half["accuracy"] is None
    assert full["accuracy"] == 1.0


def test_a_run_without_an_evaluation_cannot_be_summarised() -> None:
    with pytest.raises(RunError, match="fedspu: 1 rounds and no evaluation; expected at least one evaluation"):
        summary([log_record(1, [client(0)])])


def test_the_memory_of_a_tier_behind_a_cut_is_that_of_what_it_trains() -> None:
    experiment = Experiment(("fedspu-cached",), data="digits", model="digits_cnn", clients=5, batch=4)
    graph = build("digits_cnn", *EXAMPLES["digits_cnn"])
    found = tiers_of(experiment, graph).memory_bytes
    weak = TrainingConfiguration("", graph, 4, keep=0.2, examples=4, cut="flatten")
    assert found[0.2] == estimate("exact", weak).total
    assert found[1.0] == estimate("exact", TrainingConfiguration("", graph, 4)).total
