"""The round loop on the packaged digits: independent of workers, exact in its counters, recoverable after SIGKILL."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.errors import RunError
from edgefl.experiment.assembly import assemble
from edgefl.experiment.federation import Federation
from edgefl.experiment.run_json import open_run, read_experiment
from edgefl.experiment.settings import Experiment, Settings
from edgefl.methods import FedAvg, FedSpa, FedSPU, LocalOnly
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.task import MODEL, State
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.study.simulation.journal import Journal, read_metrics
from edgefl.study.simulation.round_loop import simulate
from tests.forks import run_script

SMALL = Experiment(
    methods=("fedspu", "fedspu-es", "fedavg", "local"),
    clients=6,
    rounds=4,
    per_round=3,
    epochs=1,
    eval_every=2,
    checkpoint_every=2,
    keep=(0.25, 0.5, 1.0),
)
SETTINGS = SMALL.settings(workers=1)
METHODS = SMALL.algorithms()


@pytest.fixture(scope="module")
def federation() -> Federation:
    return assemble(SMALL)


@pytest.fixture(scope="module")
def whole(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The files of an uninterrupted FedSPU+ES run."""
    path = tmp_path_factory.mktemp("whole")
    run(path, METHODS["fedspu-es"], federation)
    return content(path)


def run(path: Path, algorithm: Any, federation: Federation, settings: Settings = SETTINGS) -> tuple[State, list[Any]]:
    journal = Journal(path)
    state = simulate(algorithm, federation, settings, journal)
    journal.close()
    return state, list(read_metrics(path))


def without_times(value: Any) -> Any:
    """Metrics without the seconds, which no two runs share."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key != "seconds"}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def content(path: Path) -> dict[str, Any]:
    """Return every file of a run directory by name: bytes, or metrics without times."""
    found: dict[str, Any] = {}
    for file in sorted(path.rglob("*")):
        name = str(file.relative_to(path))
        if file.name == "metrics.jsonl":
            found[name] = [without_times(json.loads(log_record)) for log_record in file.read_bytes().splitlines()]
        elif file.name == "commit.json":
            found[name] = {**json.loads(file.read_bytes()), "metrics_bytes": None, "sha256": None}
        elif file.is_file():
            found[name] = file.read_bytes()
    return found


@pytest.mark.parametrize("name", ["fedspu", "fedspu-es", "fedavg", "local"])
def test_results_do_not_depend_on_the_number_of_workers(name: str, federation: Federation, tmp_path: Path) -> None:
    run(tmp_path / "one", METHODS[name], federation)
    run(tmp_path / "three", METHODS[name], federation, replace(SETTINGS, workers=3))
    assert content(tmp_path / "one") == content(tmp_path / "three")


class Backwards(FedSPU):
    """FedSPU whose plans, and therefore replies, come in descending client order."""

    def plan(self, *rest: Any) -> list[Plan]:
        return super().plan(*rest)[::-1]


def test_order_of_arrival_does_not_change_the_result(federation: Federation, tmp_path: Path) -> None:
    """t_arrival_order_invariance: bit-identical parameters when the replies arrive in another order."""
    options = {"keep": SMALL.keep, "per_round": 3, "epochs": 1}
    ascending, _ = run(tmp_path / "up", FedSPU(**options), federation)
    descending, _ = run(tmp_path / "down", Backwards(**options), federation)
    for name, value in ascending.arrays[MODEL].items():
        assert value.tobytes() == descending.arrays[MODEL][name].tobytes()


def test_values_only_bytes_equal_the_formula_in_both_directions(federation: Federation, tmp_path: Path) -> None:
    """t_bytes_counters_equal_formula, invariant 1.5.9: 4 * (P_act + stat_act) per client round, up and down."""
    _, log_records = run(tmp_path, METHODS["fedspu"], federation)
    spec = ModelSpec.of(federation.graph)
    for log_record in log_records:
        algorithm, expected = METHODS["fedspu"], 0
        for record in log_record["clients"]:
            assert record["keep"] == algorithm.tier(record["client"], SMALL.clients)
            neurons = NeuronSet.full(spec) if record["keep"] == 1 else half_or_quarter(spec, record["keep"])
            expected += 4 * neurons.count(spec, ("learn", "stat"))
        assert log_record["down"]["values"] == log_record["up"]["values"] == expected
        assert log_record["up"]["index"] == 0 < log_record["down"]["index"] or all(
            r["keep"] == 1 for r in log_record["clients"]
        )


def half_or_quarter(spec: ModelSpec, keep: float) -> NeuronSet:
    """Any set of that size: the count does not depend on which neurons are drawn."""
    return NeuronSet.of(spec, {group: range(max(1, int(size * keep))) for group, size in spec.groups.items()})


def test_fedavg_sends_the_whole_model_and_local_nothing(federation: Federation, tmp_path: Path) -> None:
    spec = ModelSpec.of(federation.graph)
    _, log_records = run(tmp_path / "fedavg", METHODS["fedavg"], federation)
    dense = 4 * NeuronSet.full(spec).count(spec, ("learn", "stat"))
    assert all(log_record["down"]["values"] == log_record["up"]["values"] == 3 * dense for log_record in log_records)
    _, log_records = run(tmp_path / "local", METHODS["local"], federation)
    assert all(sum(log_record["down"].values()) + sum(log_record["up"].values()) == 0 for log_record in log_records)


def test_half_precision_halves_the_value_bytes_and_still_learns(federation: Federation, tmp_path: Path) -> None:
    _, whole = run(tmp_path / "32", METHODS["fedspu"], federation)
    _, half = run(tmp_path / "16", METHODS["fedspu"], federation, replace(SETTINGS, values="float16"))
    assert [2 * log_record["up"]["values"] for log_record in half] == [
        log_record["up"]["values"] for log_record in whole
    ]
    assert half[-1]["evaluation"]["personal"]["accuracy"] > 0.2


class BrokenOff(FedSPU):
    """FedSPU, until its third round."""

    def train(self, client_state: Any, plan: Any) -> Reply:
        if plan.round == 3:
            raise RuntimeError("broken off")
        return super().train(client_state, plan)


def test_rounding_by_chance_repeats_when_a_run_is_resumed_with_more_workers(
    federation: Federation, tmp_path: Path
) -> None:
    settings = replace(SETTINGS, values="int8")
    _, log_records = run(tmp_path / "once", METHODS["fedspu"], federation, settings)
    with pytest.raises(RuntimeError, match="broken off"):
        run(tmp_path / "twice", BrokenOff(**vars(METHODS["fedspu"])), federation, settings)
    run(tmp_path / "twice", METHODS["fedspu"], federation, replace(settings, workers=2))
    assert content(tmp_path / "once") == content(tmp_path / "twice")
    _, whole = run(tmp_path / "32", METHODS["fedspu"], federation)
    assert all(
        4 * log_record["up"]["values"] < 1.1 * all32["up"]["values"]
        for log_record, all32 in zip(log_records, whole, strict=True)
    )
    assert log_records[-1]["evaluation"]["personal"]["accuracy"] > 0.2


def test_full_clients_with_the_same_draws_give_fedavg(federation: Federation, tmp_path: Path) -> None:
    """t_fedspu_p1_equals_fedavg, through codec and files: the server's model is bit-identical after every round."""
    options = {"per_round": 3, "epochs": 1}
    ours, _ = run(tmp_path / "fedspu", FedSPU(keep=(1.0,), **options), federation)
    theirs, _ = run(tmp_path / "fedavg", FedAvg(**options), federation)
    assert all(v.tobytes() == theirs.arrays[MODEL][n].tobytes() for n, v in ours.arrays[MODEL].items())


class Diverging(LocalOnly):
    """Local training in which client 2 always reports an infinite loss."""

    def train(self, *rest: Any) -> Reply:
        reply = super().train(*rest)
        return replace(reply, metrics={"loss": float("inf")}) if reply.client == 2 else reply


def test_a_refused_reply_is_logged_and_leaves_the_client_as_it_was(federation: Federation, tmp_path: Path) -> None:
    _, log_records = run(tmp_path, Diverging(per_round=6, epochs=1), federation)
    refused = [
        record for log_record in log_records for record in log_record["clients"] if record["status"] == "refused"
    ]
    assert [record["reason"] for record in refused] == ["reply of client 2 has loss=inf; expected a finite value"] * 4
    assert not (tmp_path / "clients" / "0002").exists()
    assert (tmp_path / "clients" / "0001").exists()


def test_log_records_say_what_clients_compute_by_the_papers_count_and_what_was_executed(
    federation: Federation, tmp_path: Path
) -> None:
    """FedAvg executes the nominal count without the gradient of the images. FedSpa executes its mask, and a batch to
    move it.
    """
    macs = federation.graph.macs()
    method = FedSpa(per_round=3, epochs=2, batch=16, density=0.1)
    _, log_records = run(tmp_path / "dense", FedAvg(per_round=3, epochs=2), federation)
    _, sparse = run(tmp_path / "sparse", method, federation, replace(SETTINGS, workers=2))
    first, total = next(iter(macs.values())), sum(macs.values())
    for log_record, masked in zip(log_records, sparse, strict=True):
        for record in log_record["clients"]:
            seen = 2 * len(federation.clients[record["client"]].train)
            assert record["nominal_flops"] == 6 * seen * total and "search_flops" not in record
            assert record["executed_flops"] == 2 * seen * (3 * total - first)
        for record in masked["clients"]:
            examples = len(federation.clients[record["client"]].train)
            assert record["nominal_flops"] == method.flops(federation.graph, examples)
            assert 0 < record["executed_flops"] <= 4 * examples * (3 * total - first)
            assert ("search_flops" in record) == (masked["round"] < len(sparse)), "alpha is 0 in the last round"
        for each in (log_record, masked):
            sums = {what: sum(one.get(f"{what}_flops", 0) for one in each["clients"]) for what in each["flops"]}
            assert each["flops"] == sums and list(sums) == ["nominal", "executed", "search"]
    assert 0 < sparse[0]["flops"]["search"] < sparse[0]["flops"]["nominal"]


def test_stopped_clients_cost_nothing_more(federation: Federation, tmp_path: Path) -> None:
    """Invariant of section 2: bytes after a client's stop are 0, and the number of running clients never rises."""
    algorithm = FedSPU(keep=(0.5,), per_round=6, epochs=1, lr=0.5, es=True)
    state, log_records = run(tmp_path, algorithm, federation, replace(SETTINGS, rounds=40))
    stopped_at = {
        r["client"]: log_record["round"]
        for log_record in log_records
        for r in log_record["clients"]
        if r["status"] == "stopped"
    }
    assert stopped_at
    for log_record in log_records:
        assert all(log_record["round"] <= stopped_at.get(record["client"], 40) for record in log_record["clients"])
    running = [log_record["running"] for log_record in log_records]
    assert running == sorted(running, reverse=True)
    if state.values["round_empty"] is not None:
        assert len(log_records) == state.values["round_empty"]


def test_evaluation_covers_all_clients_at_the_asked_rounds(federation: Federation, tmp_path: Path) -> None:
    _, log_records = run(tmp_path, METHODS["fedspu"], federation)
    assert [log_record["round"] for log_record in log_records if "evaluation" in log_record] == [2, 4]
    sizes = [len(split.test) for split in federation.clients]
    for kind in ("personal", "global_local"):
        found = log_records[-1]["evaluation"][kind]
        assert found["examples"] == sizes
        shares = np.array(found["correct"]) / np.array(sizes)
        assert found["accuracy"] == pytest.approx(shares.mean())
        assert found["accuracy_weighted"] == pytest.approx(sum(found["correct"]) / sum(sizes))


def test_clients_never_selected_hold_the_initial_or_the_current_global_model(
    federation: Federation, tmp_path: Path
) -> None:
    """Alg. 1 line 2, and the released code's aliasing (ALGORITHMS 1.6 e)."""
    options = {"per_round": 1, "epochs": 1}
    for first_state in ("init", "current_global"):
        path = tmp_path / first_state
        _, log_records = run(path, FedSPU(first_state=first_state, **options), federation)
        idle = set(range(SMALL.clients)) - {
            record["client"] for log_record in log_records for record in log_record["clients"]
        }
        personal, shared = (log_records[-1]["evaluation"][kind]["correct"] for kind in ("personal", "global_local"))
        assert idle
        assert all(personal[k] == shared[k] for k in idle) == (first_state == "current_global")


def test_cached_evaluations_equal_fresh_ones(federation: Federation, tmp_path: Path) -> None:
    """A run resumed before the last round has no cache, and must find the same accuracies."""
    run(tmp_path / "whole", METHODS["fedspu"], federation)
    run(tmp_path / "resumed", METHODS["fedspu"], federation, replace(SETTINGS, rounds=2))
    forget_that_it_is_done(tmp_path / "resumed")
    run(tmp_path / "resumed", METHODS["fedspu"], federation)
    assert content(tmp_path / "whole") == content(tmp_path / "resumed")


def forget_that_it_is_done(path: Path) -> None:
    commit = json.loads((path / "commit.json").read_bytes())
    del commit["sha256"]
    (path / "commit.json").write_text(json.dumps({**commit, "done": False}))


def test_a_common_test_set_is_evaluated_too(federation: Federation, tmp_path: Path) -> None:
    with_common = replace(federation, common=federation.data)
    _, log_records = run(tmp_path, METHODS["fedavg"], with_common)
    found = log_records[-1]["evaluation"]["global_common"]
    assert found["examples"] == len(federation.data)
    assert 0.2 < found["correct"] / found["examples"] <= 1


KILLED_RUN = """
import os, signal, sys
from pathlib import Path
from edgefl.experiment.assembly import assemble
from edgefl.study.simulation import journal as journals
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from tests.forks import run_script
sys.path.insert(0, {root!r})
from tests.study.simulation.test_simulate import METHODS, SETTINGS, SMALL

def die_at(owner, name, call, after):
    original, calls = getattr(owner, name), [0]
    def dying(*arguments):
        calls[0] += 1
        if calls[0] == call and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments)
        if calls[0] == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(owner, name, dying)

die_at({owner}, {name!r}, {call}, {after})
journal = Journal(Path({path!r}))
simulate(METHODS[{method!r}], assemble(SMALL), SETTINGS, journal)
"""

POINTS = {
    "after a client trained, before its files": ("Journal", "save_client_state", 2, False),
    "after a client's files, before its round closed": ("Journal", "save_client_state", 7, True),
    "after a round, before its commit": ("Journal", "commit", 3, False),
    "amid a commit, before the rename": ("journals.os", "replace", 2, False),
    "amid a commit, after the rename": ("journals.os", "replace", 2, True),
    "before the first commit": ("journals.os", "replace", 1, False),
    "after the last commit": ("Journal", "commit", 3, True),
    "while old files are removed": ("Path", "unlink", 3, True),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_run_killed_at_any_point_resumes_bit_for_bit(
    point: str, federation: Federation, whole: dict[str, Any], tmp_path: Path
) -> None:
    """t_restart_bitwise: a real process gets SIGKILL, then resumes. Every file equals the uninterrupted run's."""
    owner, name, call, after = POINTS[point]
    path, method = tmp_path / "killed", "fedspu-es"
    script = KILLED_RUN.format(
        root=str(Path(__file__).parents[3]),
        path=str(path),
        method=method,
        owner=owner,
        name=name,
        call=call,
        after=after,
    )
    printed = tmp_path / "printed"
    assert run_script(script, printed) == -signal.SIGKILL, printed.read_text()
    run(path, METHODS[method], federation)
    assert content(path) == whole


def test_metrics_written_after_the_last_commit_are_cut_off(federation: Federation, tmp_path: Path) -> None:
    run(tmp_path, METHODS["local"], federation)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    with open(tmp_path / "metrics.jsonl", "ab") as metrics:
        metrics.write(b'{"round": 5, "clie')
    Journal(tmp_path).close()
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_lost_metrics_are_an_error(federation: Federation, tmp_path: Path) -> None:
    run(tmp_path, METHODS["local"], federation)
    (tmp_path / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(RunError, match=r"metrics.jsonl has 0 bytes; expected \d+"):
        Journal(tmp_path)


def test_a_corrupt_server_file_is_an_error(federation: Federation, tmp_path: Path) -> None:
    run(tmp_path, METHODS["fedavg"], federation)
    file = next((tmp_path / "server").iterdir())
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(RunError, match=r"000004.safetensors is damaged"):
        Journal(tmp_path).load_state()


def test_a_directory_of_another_experiment_is_refused_naming_the_difference(tmp_path: Path) -> None:
    open_run(tmp_path / "run", SMALL.to_json())
    open_run(tmp_path / "run", SMALL.to_json())
    with pytest.raises(RunError, match=r"was run with seed=1; expected 2"):
        open_run(tmp_path / "run", replace(SMALL, seed=2).to_json())
    assert Experiment.from_json(read_experiment(tmp_path / "run")) == SMALL


def test_a_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(RunError, match=r"is not empty and holds no run.json"):
        open_run(tmp_path, SMALL.to_json())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": 0}, "rounds=0; expected rounds >= 1"),
        ({"values": "int4"}, "values=int4; expected one of float32, float16, bfloat16, int8"),
    ],
)
def test_settings_out_of_range_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**settings)


def test_a_second_process_is_refused_while_a_run_is_open(tmp_path: Path) -> None:
    """The lock belongs to the open file, so a second Journal here stands for one in another process."""
    journal = Journal(tmp_path / "run")
    with pytest.raises(RunError, match="is in use by another process"):
        Journal(tmp_path / "run")
    journal.close()
    Journal(tmp_path / "run").close()
