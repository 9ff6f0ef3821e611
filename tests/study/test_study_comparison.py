"""Methods beside each other over seeds, on runs that can be added up by hand."""

from __future__ import annotations

import json
import math
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from edgefl.study.capacity_tiers import Tiers
from edgefl.study.comparison import Figure, compare, reached
from edgefl.study.result_text import gains, lost, precision, to_json
from edgefl.study.summary import Summary, summarise
from edgefl.study.tables import print_tables

CLIENTS = 4


def tiers(clients: int = CLIENTS) -> Tiers:
    return Tiers(scalars=100, keep=[1.0] * clients, memory_bytes={1.0: 1000})


TIERS = tiers()


def scores(correct: list[int | None], losses: list[float | None] | None = None) -> dict[str, Any]:
    """Return scores on ten test samples for each client."""
    answered = [each for each in correct if each is not None]
    return {
        "accuracy": sum(each / 10 for each in answered) / len(answered),
        "accuracy_weighted": sum(answered) / (10 * len(answered)),
        "correct": correct,
        "examples": [None if each is None else 10 for each in correct],
        "loss_sum": losses or [None if each is None else 1.0 for each in correct],
    }


def record(number: int, **changes: Any) -> dict[str, Any]:
    return {"client": number, "status": "on", "down": 400, "up": 400, "seconds": 0.5, "executed_flops": 1e6, **changes}


def log_record(round: int, clients: list[dict[str, Any]], correct: list[int | None], **kinds: Any) -> dict[str, Any]:
    down, up = ({"values": sum(each[way] for each in clients), "index": 0, "header": 0} for way in ("down", "up"))
    found = {"round": round, "clients": clients, "down": down, "up": up, "seconds": 1.0, "train_loss": 0.5}
    return {**found, "evaluation": {"personal": scores(correct), **kinds}}


def run(method: str, *rounds: list[int | None], **changes: Any) -> Summary:
    """A run with one client in each round, and what was right after each."""
    log_records = [log_record(t, [record(0, **changes)], correct) for t, correct in enumerate(rounds, start=1)]
    return summarise(method, log_records, TIERS, {"round_lt_C": None})


def shown(by_seed: dict[int, list[Summary]], width: int = 80) -> str:
    out = StringIO()
    print_tables(Console(file=out, width=width), by_seed)
    return out.getvalue()


def test_a_figure_that_one_seed_lacks_has_no_mean() -> None:
    assert (Figure((1.0, 3.0)).mean, Figure((1.0, 3.0)).spread) == (2.0, math.sqrt(2))
    assert (Figure((1.0,)).mean, Figure((1.0,)).spread) == (1.0, None)
    assert (Figure((1.0, None)).mean, Figure((1.0, None)).spread) == (None, None)
    assert Figure((3.0, None, 2.0)).minus(Figure((1.0, 1.0, None))).values == (2.0, None, None)


def test_scores_are_means_over_seeds_and_errors_are_over_clients() -> None:
    """Deviations of the clients' accuracies: of .1, .2, .3, .4 and of .5, .5, .5, .9."""
    by_seed = {3: [run("fedspu", [1, 2, 3, 4])], 4: [run("fedspu", [5, 5, 5, 9])]}
    row = compare(by_seed).rows["fedspu"]
    assert row.score.values == pytest.approx((0.25, 0.6))
    assert (row.score.mean, row.score.spread) == pytest.approx((0.425, 0.35 / math.sqrt(2)))
    assert row.worst_tenth.values == pytest.approx((0.1, 0.5))
    assert row.standard_error == pytest.approx(math.sqrt((0.05 / 3 + 0.12 / 3) / 2 / 4))
    text = precision(by_seed, compare(by_seed))
    assert text.startswith("2 seeds, ± their standard deviation, 4 clients with 40 test samples")
    assert "42.5±24.7 %" in shown(by_seed) and ", 2 seeds, rounds: 1" in " ".join(shown(by_seed).split())


def test_the_worst_tenth_is_rounded_up_and_of_losses_the_largest() -> None:
    eleven = summarise("local", [log_record(1, [record(0)], [*range(10), 10])], tiers(11), {})
    assert eleven.worst_tenth == pytest.approx((0.0 + 0.1) / 2)
    losses = {"loss": 2.0, "examples": [10, 10], "loss_sum": [10.0, 30.0], "decisions": 0}
    of_losses = {**log_record(1, [record(0)], [1]), "evaluation": {"personal": losses}}
    assert summarise("local", [of_losses], tiers(2), {}).worst_tenth == 3.0


def test_a_client_that_is_missing_or_has_diverged_is_told() -> None:
    bad = record(1, status="refused", reason="reply of client 1 has loss=nan; expected a finite value")
    log_records = [log_record(1, [record(0), bad], [1, 2, 3, None])]
    log_records[0]["evaluation"]["personal"]["loss_sum"][2] = None
    found = summarise("fedspu", log_records, TIERS, {})
    assert (found.diverged, found.missing) == ([1, 2], 1)
    by_seed = {1: [found]}
    assert lost(compare(by_seed)) == [
        "fedspu: 2 of 4 clients have diverged.",
        "fedspu: 1 of 4 clients were not tested; no mean is over them.",
    ]
    assert "diverged" in shown(by_seed, 100) and "missing" in shown(by_seed, 100)
    again = [*log_records, log_record(2, [record(1)], [1, 2, 3, 4])]
    assert summarise("fedspu", again, TIERS, {}).diverged == []


def test_a_mean_of_losses_that_are_no_numbers_is_none() -> None:
    log_records = [log_record(1, [record(0)], [1, 2])]
    log_records[0]["evaluation"]["personal"] = {
        "loss": None,
        "examples": [10, 10],
        "loss_sum": [None, 1.0],
        "decisions": 0,
    }
    found = summarise("fedspu", log_records, tiers(2), {})
    assert (found.worst_tenth, found.standard_error) == (None, None)
    assert "none" in shown({1: [found]})


def test_dense_is_counted_for_messages_that_carried_something() -> None:
    """One client sends nothing back, as a client of FedUmf that may not send. Another sends and receives nothing."""
    whole = [record(0), record(1)]
    one_way = [record(0), record(1, up=0)]
    nothing = [record(0, down=0, up=0)]
    found = [summarise("m", [log_record(1, clients, [1, 1])], tiers(2), {}) for clients in (whole, one_way, nothing)]
    assert [each.dense_bytes for each in found] == [1600, 1200, 0]
    assert [compare({1: [each]}).rows["m"].of_dense for each in found] == [1.0, 1.0, None]
    assert found[1].tiers[0]["dense_bytes"] == 600


def test_at_a_budget_the_last_evaluation_before_it_counts() -> None:
    """fedspu sends half of what fedavg does, and has as many rounds again."""
    small = {"down": 200, "up": 200}
    ours = run("fedspu", [1, 1, 1, 1], [2, 2, 2, 2], [4, 4, 4, 4], **small)
    other = run("fedavg", [3, 3, 3, 3], [5, 5, 5, 5], seconds=2.0)
    alone = run("local", [6, 6, 6, 6], down=0, up=0)
    found = compare({1: [ours, other, alone]}).budgets
    assert {name: budget.least.mean for name, budget in found.items()} == {
        "rounds": 1, "bytes": 1200, "seconds": 0.5, "work": 1e6,
    }  # fmt: skip
    by_bytes = found["bytes"]
    assert {name: each.mean for name, each in by_bytes.scores.items()} == {"fedspu": 0.4, "fedavg": 0.3, "local": 0.6}
    assert {name: each.mean for name, each in by_bytes.rounds.items()} == {"fedspu": 3, "fedavg": 1, "local": 1}
    assert found["seconds"].scores["fedavg"].mean is None
    assert "-" in shown({1: [ours, other, alone]})
    more = compare({1: [ours, other, alone]}, {"bytes": 1599.0, "rounds": 2.0}).budgets
    assert more["bytes"].least.mean == 1599 and more["bytes"].rounds["fedavg"].mean == 1
    assert more["rounds"].rounds["fedspu"].mean == 2 and more["seconds"] == found["seconds"]
    assert reached(ours.curve, "round", 2)["round"] == 2  # type: ignore[index]


def test_a_run_that_does_not_say_its_work_has_no_such_budget() -> None:
    old = run("fedavg", [1, 1, 1, 1])
    quiet = {name: value for name, value in record(0).items() if name != "executed_flops"}
    silent = summarise("local", [log_record(1, [quiet], [1, 1, 1, 1])], TIERS, {})
    assert "work" not in compare({1: [old, silent]}).budgets
    assert silent.work is None and old.work == 1e6


def test_gains_over_seeds_are_of_the_differences() -> None:
    by_seed = {
        1: [run("fedspu", [2, 2, 2, 2]), run("fedspu:keep=1", [1, 1, 1, 1])],
        2: [run("fedspu", [6, 6, 6, 6]), run("fedspu:keep=1", [4, 4, 4, 4])],
    }
    assert gains(compare(by_seed)) == [
        "fedspu: +15.0 ± 7.1 points of accuracy against fedspu:keep=1 (its clients' own models)."
    ]
    rows = [run("fedspu:keep=1", [2, 2, 2, 2]), run("local", [1, 1, 1, 1])]
    assert gains(compare({1: rows}))[0].startswith("fedspu:keep=1: +10.0 points of accuracy against local")


def test_what_is_asked_for_stands_in_curve_table_and_json() -> None:
    kinds = {"refreshed": scores([5, 5, 5, 5]), "training": scores([9, 9, 9, 9])}
    found = summarise("fedspu", [log_record(1, [record(0)], [1, 1, 1, 1], **kinds)], TIERS, {"round_lt_C": None})
    assert found.curve == [
        {"round": 1, "accuracy": 0.1, "payload_bytes": 800, "device_seconds": 0.5, "work": 1e6}
        | {"train_loss": 0.5, "refreshed": 0.5, "training": 0.9}
    ]
    assert "refreshed" in shown({1: [found]}) and "50.0 %" in shown({1: [found]})
    one = json.loads(json.dumps(to_json({1: [found]}), allow_nan=False))
    assert one["methods"]["fedspu"]["refreshed"] == 0.5
    assert one["comparison"]["methods"]["fedspu"]["refreshed"]["mean"] == 0.5
    two = to_json({1: [found], 2: [run("fedspu", [1, 1, 1, 1])]})
    assert two["seeds"]["2"]["methods"]["fedspu"]["refreshed"] is None
    assert two["comparison"]["methods"]["fedspu"]["refreshed"] == {"mean": None, "spread": None, "seeds": [0.5, None]}


def test_tables_of_seeds_fit_eighty_columns() -> None:
    kinds = {"refreshed": scores([5, 5, 5, 5])}
    of = [
        summarise(name, [log_record(1, [record(0)], [1, 2, 3, 4], **kinds)], TIERS, {})
        for name in ("fedspu", "fedavg-ft")
    ]
    text = shown({1: of, 2: of})
    assert "…" not in text and "25.0±0.0 %" in text
