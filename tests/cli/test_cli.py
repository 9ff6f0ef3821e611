"""The command line as a user meets it: in a process of its own, with its exit code, its output and its files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgefl.cli import cli
from edgefl.experiment import presets
from edgefl.experiment.run_json import read_provenances
from edgefl.methods.rounds.provenance import provenance
from tests.forked_commands import run_edgefl
from tests.made_up import write

ROOT = Path(__file__).resolve().parents[2]
SHORT = ["--clients", "6", "--rounds", "2", "--per-round", "3", "--epochs", "1", "--eval-every", "1"]


def edgefl(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `edgefl` in a directory of its own. The process is forked from one that has imported the command line."""
    return run_edgefl(*arguments, cwd=cwd, env=variables(**environment))


def variables(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", **more}


def test_simulate_ends_with_tables_of_methods_and_tiers(tmp_path: Path) -> None:
    done = edgefl("simulate", *SHORT, "--keep", ".5,1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in reversed(done.stdout.splitlines()) if line.strip()}  # the first of each
    assert {"fedspu", "local", "fedavg-ft", "fedavg", "0.5", "1"} <= rows.keys()
    assert " own " in rows["fedspu"]
    assert " adapted " in rows["fedavg-ft"]
    assert " global " in rows["fedavg"]
    assert "points of accuracy against fedavg (its global model)" in done.stdout
    assert "fedspu round 2/2: accuracy" in done.stderr
    assert (tmp_path / "edgefl-runs" / "001-digits" / "fedspu" / "commit.json").exists()


def test_json_is_one_object_on_stdout_with_exact_bytes(tmp_path: Path) -> None:
    done = edgefl("simulate", *SHORT, "--method", "fedavg,local", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["experiment"]["methods"] == ["fedavg", "local"]
    average, local = found["methods"]["fedavg"], found["methods"]["local"]
    assert average["up"]["values"] + average["down"]["values"] == average["dense_bytes"] > 0
    assert average["accuracy_of"] == "global_local"
    assert (local["payload_bytes"], local["accuracy_of"]) == (0, "personal")
    assert [point["round"] for point in average["curve"]] == [1, 2]
    half = average["payload_bytes"] // 2
    again = edgefl("simulate", "--resume", found["run"], "--budget", f"bytes={half}", "--json", cwd=tmp_path)
    at = json.loads(again.stdout)["comparison"]["budgets"]["bytes"]
    assert at["least"]["mean"] == half and at["rounds"]["fedavg"]["mean"] == 1 and at["rounds"]["local"]["mean"] == 2


def test_resume_continues_a_run_and_refuses_other_settings(tmp_path: Path) -> None:
    first = edgefl("simulate", *SHORT, "--method", "fedspu", "--run-dir", "run", "--json", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    again = edgefl("simulate", "--resume", "run", "--seed", "1", "--json", cwd=tmp_path)
    assert json.loads(again.stdout) == json.loads(first.stdout)
    other = edgefl("simulate", "--resume", "run", "--seed", "2", cwd=tmp_path)
    assert (other.returncode, other.stdout) == (2, "")
    assert other.stderr == "edgefl simulate: run was run with seed=1, not 2; expected the same settings\n"
    twice = edgefl("simulate", *SHORT, "--method", "fedspu", "--run-dir", "run", cwd=tmp_path)
    assert twice.returncode == 2
    assert "already holds a run; expected a new directory, or --resume run" in twice.stderr


def test_a_row_has_options_of_its_own_and_goes_on_under_its_label(tmp_path: Path) -> None:
    asked = ["--method", "fedspu,fedspu:keep=1.0,lr=.1,fedavg", "--keep", ".5,1", "--run-dir", "run", "--json"]
    first = edgefl("simulate", *SHORT, *asked, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    found, label = json.loads(first.stdout), "fedspu:keep=1:lr=0.1"
    assert found["experiment"]["methods"] == list(found["methods"]) == ["fedspu", label, "fedavg"]
    log_records = [
        json.loads(log_record)
        for log_record in (tmp_path / "run/fedspu+keep=1+lr=0.1/metrics.jsonl").read_text().splitlines()
    ]
    assert {client["keep"] for log_record in log_records for client in log_record["clients"]} == {1.0}
    assert found["methods"][label]["up"]["values"] == found["methods"]["fedavg"]["up"]["values"]
    again = edgefl(
        "simulate", "--resume", "run", "--method", "fedspu,fedspu:lr=.1:keep=1,fedavg", "--json", cwd=tmp_path
    )
    assert json.loads(again.stdout) == found
    exported = edgefl("export", "run/fedspu+keep=1+lr=0.1", "mine.safetensors", cwd=tmp_path)
    assert exported.returncode == 0, exported.stderr


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the picture is an optional extra")
    done = edgefl("simulate", *SHORT, "--method", "fedspu", "--plot", "curves.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", ""], "--method ''; expected one of fedspu, fedspu-es, fedspu-cached"),
        (["--method", "fedspu:"], "method=fedspu:; expected NAME, NAME:OPTION=VALUE or package.module:Class"),
        (["--method", "fedfoo"], "method=fedfoo; expected one of fedspu, fedspu-es, fedspu-cached"),
        (["--partition", "dirichlet"], "partition=dirichlet; expected iid, dirichlet:ALPHA"),
        (["--partition", "dirichlet:-1"], "alpha=-1.0; expected 0 < alpha"),
        (["--keep", ".2,1.5"], "keep=1.5; expected 0 < keep <= 1"),
        (["--keep", "half"], "argument --keep: 'half'; expected numbers separated by commas"),
        (["--lr", "0"], "lr=0.0; expected a finite lr > 0"),
        (
            ["--set", "mu=1"],
            "mu=1 is not a hyper-parameter of fedspu, local, fedavg-ft, fedavg; expected one of ",
        ),
        (["--set", "es"], "--set es; expected NAME=VALUE"),
        (["--method", "fedspu", "--set", "lam=2"], "lam=2.0; expected 0 <= lam <= 1"),
        (
            ["--set", "lam=.2"],
            "lam=.2: fedspu has it, local, fedavg-ft, fedavg have not; expected methods that all have "
            "it, or an option of a single method, as --method fedspu:lam=.2,...",
        ),
        (["--method", "fedspu,pflego", "--set", "tau=3"], "tau=3: pflego has it, fedspu has not; expected methods"),
        (
            ["--method", "fedumf", "--set", "alpha=.5"],
            "expected its present name, fusion",
        ),
        (
            ["--method", "fedavg", "--keep", ".2,1"],
            "keep=0.2,1.0 is not a hyper-parameter of fedavg; ",
        ),
        (["--per-round", "50"], "per_round=50; expected 1 <= per_round <= 20 clients"),
        (["--workers", "0"], "workers=0; expected workers >= 1"),
        (["--rounds", "0"], "rounds=0; expected rounds >= 1"),
        (
            ["--budget", "money=3"],
            "argument --budget: 'money=3'; expected one of rounds, bytes, seconds, work, virtual-seconds, joules, as",
        ),
        (["--budget", "rounds=-1"], "argument --budget: 'rounds=-1'; expected rounds= a number above 0"),
        (["--plot", "a.xyz"], "--plot a.xyz; expected a file that ends in one of ."),
        (["--model", "vgg99"], "vgg99"),
        (["--data", "nowhere"], "data set 'nowhere'; expected one of digits, spoken-digits, mnist"),
        (["--preset", "paper"], "preset=paper with data=digits; expected data among emnist, cifar10, speech"),
        (["--preset", "fedumf"], "preset=fedumf with data=digits; expected data among mnist, fashion, cifar10"),
        (["--preset", "pflego-no"], "preset=pflego-no with data=digits; expected data among mnist, cifar10, emnist"),
        (
            ["--method", "pflego"],
            "the gradient of a batch has none; --model pflego_mlp, ",
        ),
        (["--method", "fedrecon"], "fedrecon: model=bn1.running_mean, bn1.running_var; expected no running statistics"),
        (["--values", "int4"], "argument --values: 'int4'; the nearest is int8; `edgefl simulate --help` lists"),
        (["--resume", "gone"], "gone/run.json is missing; expected the directory of an edgefl run"),
        (["--resume", "a", "--run-dir", "b"], "--run-dir b with --resume a; expected one of them"),
        (
            ["--method", "fedspu-es", "--validation-share", "0"],
            "fedspu-es: client 0 has 0 validation samples and 62 training samples",
        ),
    ],
)
def test_a_wrong_option_is_named_with_what_is_accepted(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """It runs in this process, to save twenty starts of the interpreter: exit code 2, nothing written, no traceback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGEFL_DATA", str(tmp_path))
    try:
        code = cli.main(["simulate", *arguments])
    except SystemExit as exit:
        code = exit.code
    assert code == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("port", ["99999", "-1", "65536"])
def test_a_port_that_is_none_is_refused_before_anything_is_written(
    port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["serve", f"--port={port}"]) == 2
    assert capsys.readouterr().err == f"edgefl serve: --port {port}; expected 0 to 65535\n"
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_option_ends_without_a_traceback(tmp_path: Path) -> None:
    """Python is started, as a user starts it. The other tests fork a process."""
    command = [sys.executable, "-m", "edgefl", "simulate", "--lr", "-1"]
    done = subprocess.run(command, cwd=tmp_path, env=variables(), capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "edgefl simulate: lr=-1.0; expected a finite lr > 0\n"


def test_an_unknown_backend_is_named(tmp_path: Path) -> None:
    done = edgefl("simulate", *SHORT, cwd=tmp_path, EDGEFL_KERNELS="magic")
    assert done.returncode == 1
    assert "EDGEFL_KERNELS=magic; expected one of native, numba, reference" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_says_what_is_used_and_why(tmp_path: Path) -> None:
    found = json.loads(edgefl("doctor", "--json", cwd=tmp_path, EDGEFL_KERNELS="reference").stdout)
    assert (found["backend"], found["reason"]) == ("reference", "EDGEFL_KERNELS=reference")
    assert found["versions"]["numpy"]
    assert found["data_directories"]
    text = edgefl("doctor", cwd=tmp_path, EDGEFL_KERNELS="reference").stdout
    assert text.startswith("kernels       reference\nreason        EDGEFL_KERNELS=reference\n")
    assert "compiler" not in text


def test_doctor_says_what_tells_the_energy_and_why_not_the_rest(tmp_path: Path) -> None:
    """Three machines are tried: one that tells nothing, one with a counter, and a board of sampled rails."""
    text = edgefl("doctor", cwd=tmp_path).stdout
    assert "\nenergy        not measured: no source\nenergy        rapl: no package in /sys/class/powercap\n" in text
    zone, board = "sys/class/powercap/intel-rapl:0", "sys/class/hwmon/hwmon0"
    rails = {"name": "ina3221", "in1_label": "VDD_IN", "in1_input": 5, "curr1_input": 5}
    rails |= {"in2_label": "VDD_SOC", "in2_input": 5, "curr2_input": 5}
    write(tmp_path / "a", {f"{zone}/name": "package-0", f"{zone}/energy_uj": 5})
    write(tmp_path / "b", {f"{board}/{name}": value for name, value in rails.items()})
    told = {}
    for name in "ab":
        done = edgefl("doctor", cwd=tmp_path, EDGEFL_ENERGY_ROOT=str(tmp_path / name))
        told[name] = next(line for line in done.stdout.splitlines() if line.startswith("energy"))
    assert told == {
        "a": "energy        RAPL package-0 (rapl, counted)",
        "b": "energy        ina3221 VDD_IN (hwmon, with --measure-energy)",
    }
    done = edgefl("doctor", "--json", cwd=tmp_path, EDGEFL_ENERGY_ROOT=str(tmp_path / "b"))
    found = json.loads(done.stdout)["energy"]
    assert (found["source"], found["is_cheap"], found["rails"]) == ("ina3221 VDD_IN", False, ["VDD_IN", "VDD_SOC"])
    assert found["absent"].keys() == {"rapl", "iio", "battery"}


def test_a_client_is_refused_a_rail_that_is_not_here(tmp_path: Path) -> None:
    assert edgefl("partition", "--clients", "2", "--out", "shares", cwd=tmp_path).returncode == 0
    words = ["client", "--server", "127.0.0.1:9", "--state", "s", "--data", "shares/device-0000.npz", "--give-up", "0"]
    done = edgefl(*words, "--measure-energy", "VDD_IN", cwd=tmp_path)
    assert done.returncode == 2
    assert "rail 'VDD_IN' on a machine without a power monitor; expected no rail names" in done.stderr
    said = edgefl(*words, "--measure-energy", cwd=tmp_path).stderr
    assert "--measure-energy: not measured: no source (no package in /sys/class/powercap; no power monitor" in said


def test_doctor_names_the_compiler_of_the_native_kernels(tmp_path: Path) -> None:
    native = pytest.importorskip("edgefl.kernels.native", reason="the native extension was not built (no C++ compiler)")
    assert native.compiler().split()[0] in ("gcc", "clang")
    text = edgefl("doctor", cwd=tmp_path, EDGEFL_KERNELS="native").stdout
    assert text.startswith(f"kernels       native\ncompiler      {native.compiler().strip()}\n")


def test_doctor_reports_a_backend_that_cannot_be_loaded(tmp_path: Path) -> None:
    done = edgefl("doctor", "--json", cwd=tmp_path, EDGEFL_KERNELS="magic")
    found = json.loads(done.stdout)
    assert (done.returncode, found["backend"]) == (1, None)
    assert "EDGEFL_KERNELS=magic" in found["reason"]


def test_doctor_fails_without_native_kernels_and_says_how_to_get_a_compiler(tmp_path: Path) -> None:
    """The extension cannot be found, as after an installation without a compiler."""
    hide = "import sys; sys.modules['edgefl._core'] = None\nfrom edgefl.cli.cli import main\nexit(main(['doctor']))"
    environment = {name: value for name, value in os.environ.items() if name != "EDGEFL_KERNELS"}
    done = subprocess.run([sys.executable, "-c", hide], env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    assert (
        "\nadvice        the native kernels need g++ 8 or clang 10 when edgefl is installed (Debian, Ubuntu: apt"
        in done.stdout
    )


def test_help_lists_what_a_command_uses_and_partition_takes_the_line_of_options_of_serve(tmp_path: Path) -> None:
    partition_help, serve = (edgefl(command, "--help", cwd=tmp_path).stdout for command in ("partition", "serve"))
    assert (
        "--partition" in partition_help
        and "--out" in partition_help
        and "--lr" not in partition_help
        and "--method" not in partition_help
    )
    assert "--lr" in serve and "--port" in serve and "--refresh" not in serve
    done = edgefl("partition", "--clients", "2", "--method", "fedspu", "--lr", ".1", "--out", "shares", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_presets_are_the_papers_and_the_codes_settings() -> None:
    paper = presets.preset("paper", "emnist_byclass_official_test.npz")
    assert (paper["lr"], paper["batch"], paper["rounds"], paper["validation_share"]) == (2e-4, 16, 500, 0)
    assert dict(paper["options"]) == {"es_set": "test"}
    code = presets.preset("code", "cifar10")
    assert (code["lr"], code["batch"]) == (5e-3, 128)
    assert dict(code["options"])["first_state"] == "current_global"
    for data, model in (("emnist-letters", "lenet5"), ("cifar10", "vgg11"), ("cifar100", "resnet18")):
        fedspa = presets.preset("fedspa", data)
        assert (fedspa["model"], fedspa["lr"], fedspa["batch"], fedspa["epochs"]) == (model, 0.1, 128, 5)
        assert presets.defaults(data)["lr"] == presets.preset("paper", data)["lr"]


def test_a_resumed_run_says_that_another_instruction_set_made_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    arguments = ["--method", "fedavg", "--clients", "2", "--per-round", "1", "--rounds", "1", "--epochs", "1"]
    assert cli.main(["simulate", *arguments, "--run-dir", str(run)]) == 0
    assert "was made by" not in capsys.readouterr().err
    document = json.loads((run / "run.json").read_text())
    del document["sha256"]
    (run / "run.json").write_text(json.dumps(document | {"made_by": ["edgefl 0.1.0 native-sse9"]}))
    assert cli.main(["simulate", "--resume", str(run)]) == 0
    assert f"{run} was made by edgefl 0.1.0 native-sse9; this is {provenance()}" in capsys.readouterr().err
    assert read_provenances(run) == ["edgefl 0.1.0 native-sse9", provenance()]
