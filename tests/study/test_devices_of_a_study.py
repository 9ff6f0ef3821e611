"""Time and energy of modelled devices in the output of a study: figures by hand, tables, picture.

The options of the command are followed from a file to a run that is repeated, resumed and read.
"""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import edgefl
from edgefl.cli import cli
from edgefl.experiment.settings import Experiment
from edgefl.study.accuracy_targets import target
from edgefl.study.capacity_tiers import Tiers
from edgefl.study.comparison import compare
from edgefl.study.device_tables import duration, energy
from edgefl.study.result_text import modelled, to_json
from edgefl.study.round_records import records
from edgefl.study.summary import Summary, summarise
from edgefl.study.tables import print_tables
from tests.study.test_study_comparison import TIERS, log_record, record, scores

pytest.importorskip("tomllib", reason="Python 3.10 reads TOML by a package")
SHORT = ["--clients", "4", "--rounds", "3", "--per-round", "2", "--epochs", "1", "--eval-every", "1"]
OWN = """
[slow]
like = "mcu"
clients = [0]
[fast]
like = "orin-nano"
drop_out = 0.2
"""


def timed(round: int, correct: int, ended: float, joules: float, **changes: Any) -> dict[str, Any]:
    """Return a round of client 0, whose virtual time and energy are the round's."""
    each = record(0, device="pi4", virtual_seconds=ended, virtual_joules=joules, **changes)
    found = log_record(round, [each], [correct] * 4)
    return {**found, "virtual": {"began": 0.0, "ended": ended, "joules": joules}}


def modelled_run(method: str, *rounds: tuple[int, float, float]) -> Summary:
    log_records = [timed(t, *each) for t, each in enumerate(rounds, start=1)]
    return summarise(method, log_records, TIERS, {"round_lt_C": None})


QUICK = modelled_run("fedspu", (2, 10.0, 5.0), (6, 20.0, 5.0), (7, 30.0, 5.0))
FRUGAL = modelled_run("local", (3, 100.0, 1.0), (5, 200.0, 1.0), (6, 300.0, 1.0))


def test_an_adaptation_before_a_test_stands_in_columns_of_its_own() -> None:
    """Two clients on one kind of device adapt in 2 s and 4 s by the model, and 1 J and 2 J."""
    log_records = [timed(1, 2, 10.0, 5.0)]
    spent = {"steps": 3, "executed_flops": 2e9, "seconds": 0.5, "device": "pi4"}
    clients = [{**spent, "client": k, "virtual_seconds": 2.0 * k, "virtual_joules": 1.0 * k} for k in (1, 2)]
    log_records[0]["adaptation"] = {"payload_bytes": 0, "clients": clients}
    found = summarise("fedavg", log_records, TIERS, {})
    (row,) = records("fedavg", 1, log_records)
    assert (row["adapt_steps"], row["adapt_virtual_seconds"], row["adapt_virtual_joules"]) == (3, 3.0, 1.5)
    assert (found.virtual_seconds, found.virtual_joules) == (10.0, 5.0)
    assert found.to_json()["adaptation"] == {name.removeprefix("adapt_"): row[name] for name in row if "adapt_" in name}
    text = shown(QUICK, found)
    assert "adapting" in text and "1.5 J" in text
    assert "fedavg: before a test each client adapts the model in 3 steps and 2 GFLOP, 500 ms here, and sends 0" in text
    assert "adaptation" not in QUICK.to_json() and "adapting" not in shown(QUICK)


def shown(*summaries: Summary, accuracy: float | None = None) -> str:
    out = StringIO()
    print_tables(Console(file=out, width=100), {1: list(summaries)}, accuracy=accuracy)
    return out.getvalue()


def test_a_curve_adds_up_joules_and_takes_the_time_from_the_clock() -> None:
    assert [point["virtual_seconds"] for point in QUICK.curve] == [10, 20, 30]
    assert [point["virtual_joules"] for point in QUICK.curve] == [5, 10, 15]
    assert (QUICK.virtual_seconds, QUICK.virtual_joules) == (30, 15)


def test_methods_are_compared_at_equal_time_and_energy() -> None:
    """The first spends 30 s, the second 3 J. At 30 s the second has no evaluation, and at 3 J the first has no
    evaluation.
    """
    budgets = compare({1: [QUICK, FRUGAL]}).budgets
    assert budgets["virtual-seconds"].scores["fedspu"].mean == 0.7
    assert budgets["virtual-seconds"].scores["local"].mean is None
    assert (budgets["joules"].scores["fedspu"].mean, budgets["joules"].scores["local"].mean) == (None, 0.6)
    asked = compare({1: [QUICK, FRUGAL]}, {"virtual-seconds": 200.0}).budgets["virtual-seconds"]
    assert (asked.scores["fedspu"].mean, asked.scores["local"].mean) == (0.7, 0.5)


def test_what_was_spent_until_an_accuracy_by_hand() -> None:
    """The default is .6, the lowest end. It is reached in the second round at 20 s and 10 J, and in the third at 300 s
    and 3 J.
    """
    found = target({1: [QUICK, FRUGAL]})
    assert found is not None and found.accuracy == 0.6
    spent = {method: {name: each.mean for name, each in of.items()} for method, of in found.spent.items()}
    assert spent == {
        "fedspu": {"rounds": 2, "bytes": 1600, "virtual-seconds": 20, "joules": 10},
        "local": {"rounds": 3, "bytes": 2400, "virtual-seconds": 300, "joules": 3},
    }
    asked = target({1: [QUICK, FRUGAL]}, 0.65)
    assert asked is not None and asked.spent["local"]["joules"].mean is None
    assert asked.spent["fedspu"]["joules"].mean == 15


def test_over_seeds_a_method_has_a_mean_only_if_all_have_reached_it() -> None:
    other = modelled_run("fedspu", (2, 10.0, 5.0), (5, 40.0, 5.0))
    found = target({1: [QUICK], 2: [other]})
    assert found is not None and found.accuracy == 0.5
    assert found.spent["fedspu"]["virtual-seconds"].values == (20, 40)
    asked = target({1: [QUICK], 2: [other]}, 0.6)
    assert asked is not None and asked.spent["fedspu"]["joules"].values == (10, None)


def test_tables_say_time_and_energy_and_that_they_are_a_model() -> None:
    text = shown(QUICK, FRUGAL)
    assert "Until 60.0 % of accuracy; time and energy by the model of the devices" in text
    rows = [row.split() for row in text.splitlines() if row.startswith((" fedspu", " local"))]
    assert ["fedspu", "2", "1.60", "kB", "20", "s", "10", "J", "30", "s", "15", "J"] in rows
    assert ["local", "pi4", "3", "0", "0", "3.33", "min", "1", "J"] in rows
    assert "are a model" in text and "30 s*" in text
    assert "*" not in shown(summarise("local", [log_record(1, [record(0)], [5] * 4)], TIERS, {}))


def test_without_devices_an_accuracy_that_is_asked_for_has_rounds_and_bytes() -> None:
    plain = summarise("local", [log_record(1, [record(0)], [5] * 4)], TIERS, {})
    assert "Until" not in shown(plain)
    assert "Until 40.0 % of accuracy" in shown(plain, accuracy=0.4)
    assert to_json({1: [plain]})["target"]["spent"]["local"].keys() == {"rounds", "bytes"}
    lossy = {key: value for key, value in scores([1] * 4).items() if key not in ("accuracy", "correct")} | {"loss": 1.0}
    found = summarise("local", [{**log_record(1, [record(0)], [5] * 4), "evaluation": {"personal": lossy}}], TIERS, {})
    assert target({1: [found]}) is None and "Until" not in shown(found, accuracy=0.4)


def test_late_and_absent_clients_are_counted_by_device() -> None:
    both = [timed(1, 5, 10.0, 4.0, status="late"), timed(2, 5, 20.0, 6.0)]
    both[1]["clients"].append({"client": 1, "status": "absent", "down": 0, "up": 0, "seconds": 0.0, "device": "mcu"})
    small = Tiers(100, [1.0] * 4, {1.0: 9_000_000}, device_memory={"mcu": 8_000_000})
    found = summarise("fedspu", both, small, {"round_lt_C": None})
    pi, mcu = found.devices
    assert (pi["device"], pi["client_rounds"], pi["late"], pi["absent"]) == ("pi4", 2, 1, 0)
    assert (pi["seconds"], pi["joules"], pi["memory_bytes"]) == (15, 5, None)
    assert (mcu["device"], mcu["client_rounds"], mcu["absent"], mcu["seconds"]) == ("mcu", 0, 1, None)
    said = modelled({1: [found]})
    assert said[1].startswith("mcu: a training step takes 9.0 MB") and "8.0 MB of its profile" in said[1]
    assert len(said) == 2 and modelled({1: [QUICK]}) == said[:1]


def test_work_of_late_replies_was_done() -> None:
    assert summarise("a", [timed(1, 5, 1.0, 1.0, status="late"), timed(2, 5, 2.0, 1.0)], TIERS, {}).work == 2e6


def test_a_plain_record_has_time_and_energy() -> None:
    first, second = records("a", 1, [timed(1, 5, 10.0, 4.0), timed(2, 5, 20.0, 6.0)])
    assert (first["virtual_seconds"], second["virtual_seconds"], second["virtual_joules"]) == (10, 20, 6)
    assert "virtual_seconds" not in next(iter(records("a", 1, [log_record(1, [record(0)], [5] * 4)])))


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (duration(0.05), "50 ms"),
        (duration(90.0), "90 s"),
        (duration(300.0), "5 min"),
        (duration(9000.0), "2.5 h"),
        (duration(4 * 86_400.0), "4 d"),
        (energy(0.02), "20 mJ"),
        (energy(12.5), "12.5 J"),
        (energy(4200.0), "4.2 kJ"),
    ],
)
def test_units(shown: str, text: str) -> None:
    assert shown == text


def results(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = {str(file.relative_to(run)): file.read_bytes() for file in run.rglob("*.safetensors")}
    for file in run.rglob("metrics.jsonl"):
        found[str(file.relative_to(run))] = [json.loads(each)["virtual"] for each in file.read_text().splitlines()]
    return found


def test_a_run_of_own_devices_needs_their_file_only_to_begin(tmp_path: Path, capsys: Any) -> None:
    """It is repeated by its directory, goes on with more rounds, and says what it was run with."""
    (tmp_path / "own.toml").write_text(OWN)
    how = ["--devices", str(tmp_path / "own.toml"), "--deadline", "5", "--method", "fedspu"]
    assert cli.main(["simulate", *SHORT, *how, "--run-dir", str(tmp_path / "run"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {each["device"] for each in told["methods"]["fedspu"]["devices"]} <= {"slow", "fast"}
    assert told["target"]["spent"]["fedspu"].keys() == {"rounds", "bytes", "virtual-seconds", "joules"}
    assert (tmp_path / "run" / "devices.toml").read_text() == OWN
    assert Experiment.of_run(tmp_path / "run").devices == OWN
    (tmp_path / "own.toml").unlink()
    again = ["simulate", str(tmp_path / "run" / "run.toml"), "--run-dir", str(tmp_path / "again")]
    assert cli.main(again) == 0
    assert results(tmp_path / "again") == results(tmp_path / "run")
    assert cli.main(["simulate", "--resume", str(tmp_path / "again"), "--rounds", "4"]) == 0
    assert results(tmp_path / "again")["fedspu/metrics.jsonl"][:3] == results(tmp_path / "run")["fedspu/metrics.jsonl"]
    capsys.readouterr()
    assert cli.main(["simulate", "--resume", str(tmp_path / "run"), "--devices", "pi4"]) == 2
    assert "was run with devices=[slow] ..., not pi4; expected the same settings" in capsys.readouterr().err


def test_from_python(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    asked: dict[str, Any] = {"clients": 4, "per_round": 2, "rounds": 2, "epochs": 1, "progress": False}
    for name, devices in (("file", tmp_path / "own.toml"), ("text", OWN)):
        run = edgefl.simulate("local", devices=devices, deadline_s=5, directory=tmp_path / name, **asked)
        assert (run.experiment.devices, run.experiment.deadline_s) == (OWN, 5)
        assert "Until 1.0 % of accuracy; time and energy by the model" in run.table(accuracy=0.01)
        assert run.metrics[-1]["virtual_seconds"] == run.method.seeds[1].summary.virtual_seconds
    with pytest.raises(ValueError, match="devices=pi7, which is not a file"):
        edgefl.simulate("local", devices="pi7", directory=tmp_path / "none", **asked)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--devices", "pi7"], "devices=pi7, which is not a file; expected one of mixed, mcu"),
        (["--devices", "OWN", "--clients", "1", "--per-round", "1"], "no table"),
        (["--deadline", "5"], "deadline_s=5.0; expected devices= as well"),
        (["--devices", "pi4", "--deadline", "-1"], "deadline_s=-1.0; expected 0 <= deadline_s"),
        (["--devices", "BAD"], "bad.toml: [a] like = 'x'; expected one of mcu"),
        (["--devices", "FAR"], "[a] clients has 9; expected ids below 4, each in one table"),
    ],
)
def test_what_cannot_be_modelled_ends_in_one_sentence(
    options: list[str], message: str, tmp_path: Path, capsys: Any
) -> None:
    texts = {"OWN": "\n", "BAD": "[a]\nlike = 'x'\n", "FAR": "[a]\nlike = 'pi4'\nclients = [9]\n"}
    for name, text in texts.items():
        (tmp_path / f"{name.lower()}.toml").write_text(text)
    given = [str(tmp_path / f"{each.lower()}.toml") if each in texts else each for each in options]
    assert cli.main(["simulate", *SHORT, *given, "--run-dir", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") <= 2, error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("text", ["0", "1.5", "many"])
def test_an_accuracy_that_is_none_is_refused(text: str, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        cli.main(["simulate", "--target-accuracy", text])
    assert "expected a share above 0 and up to 1" in capsys.readouterr().err


def test_a_server_models_nothing() -> None:
    with pytest.raises(ValueError, match="devices with a server; expected modelled devices in a simulation only"):
        Experiment(methods=("fedspu",), devices="pi4").check_served()
