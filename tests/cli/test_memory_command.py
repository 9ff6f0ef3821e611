"""`edgefl memory` as a user meets it, in this process: its numbers, its sentences and its exit codes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from edgefl import methods as federated
from edgefl import rng
from edgefl.cli import cli
from edgefl.learning.memory import ACCOUNTS, METHODS
from edgefl.models.graph import Model, model_files
from edgefl.models.graph.architectures import build
from tests.kernels.cuda import standin  # tests/kernels


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    try:
        code = cli.main(["memory", *arguments])
    except SystemExit as exit:
        code = int(exit.code or 0)
    found = capsys.readouterr()
    return code, found.out, found.err


def test_json_names_the_account_of_every_number(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, "fedspu_emnist", "--batch", "1", "--keep", ".2", "--json")
    found = json.loads(out)
    totals = {(each["account"], each["method"]): each["total"] for each in found["footprints"]}
    assert code == 0
    assert set(found["accounts"]) == set(ACCOUNTS)
    assert totals["paper", "full"] == 775960
    assert totals["paper", "fedspu"] == 362904
    assert totals["bound", "fedspu"] == 397691
    exact = next(each for each in found["footprints"] if each["account"] == "exact")
    assert {"node", "argument", "bytes", "first", "last"} <= exact["tensors"][0].keys()


def test_the_table_says_what_each_account_is(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, "fedspu_emnist", "--batch", "1", "--account", "paper,bound", "--keep", ".2")
    assert code == 0
    assert "776.0 kB" in out
    assert "362.9 kB -53" in out
    assert "bound: weights, active gradients and what an exact backward pass reads" in out
    assert "exact" not in out.split("bound:")[0]


@pytest.mark.parametrize("backend", ["cuda", "cuda-tf32"])
def test_it_is_asked_of_a_device_too(
    backend: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    standin.backend()
    monkeypatch.setenv("EDGEFL_KERNELS", "native")  # so that it is put back
    code, out, err = answer(capsys, "digits_cnn", "--backend", backend, "--batch", "4", "--optimizer", "adam")
    assert (code, err) == (0, "")
    assert f"executed on {backend}\n" in out


def test_the_arena_is_listed_tensor_by_tensor(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, "digits_cnn", "--method", "full", "--account", "exact", "--batch", "4", "--tensors")
    listed = [line.split() for line in out.splitlines()]
    assert code == 0
    assert "full: the arena of " in out
    assert ["input", "gather_rows", "out", "1.0", "kB"] in [words[:5] for words in listed]


def test_a_measurement_never_comes_without_the_bound(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, "digits_cnn", "--method", "full", "--account", "exact", "--measure", "--json")
    totals = {each["account"]: each["total"] for each in json.loads(out)["footprints"]}
    assert code == 0
    assert {"bound", "exact", "learner", "resident", "peak"} <= totals.keys()
    assert totals["exact"] <= totals["learner"] < totals["resident"]


def test_a_model_file_has_its_own_shapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = build("fedspu_emnist", (1, 20, 20), 7)
    model_files.save(tmp_path / "mine.safetensors", Model(graph, graph.init(rng.stream(1, rng.INIT))))
    code, out, _ = answer(capsys, str(tmp_path / "mine.safetensors"), "--method", "full", "--json")
    found = json.loads(out)
    assert (code, found["model"], found["input_shape"], found["classes"]) == (0, "mine", [1, 20, 20], 7)


def test_states_and_targets_are_those_of_the_optimizer_and_the_loss(capsys: pytest.CaptureFixture[str]) -> None:
    """Adam has two moments for every trained value, momentum one velocity. Values in place of labels take a buffer
    more.
    """
    shapes = [info.shape for info in build("lenet5", (1, 28, 28), 26).parameters().values()]
    parameters, found = sum(map(math.prod, shapes)), {}
    cases = {
        "plain": [],
        "momentum": ["--momentum", ".9"],
        "adam": ["--optimizer", "adam"],
        "adamw, values": ["--optimizer", "adamw", "--loss", "huber:delta=2"],
    }
    for name, arguments in cases.items():
        shared = ["lenet5", "--method", "full", "--account", "exact", "--batch", "4", "--json"]
        code, out, _ = answer(capsys, *shared, *arguments)
        assert code == 0
        (found[name],) = json.loads(out)["footprints"]
        assert found[name]["parts"]["states"] == {"plain": 0, "momentum": 4}.get(name, 8) * parameters
    tensors = {each["op"]: each["bytes"] for each in found["adamw, values"]["tensors"]}
    assert tensors["gather_rows"] == 4 * 4 * 26


def test_fit_says_what_it_chose_by_which_account_and_what_is_outside(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, "fedspu_cifar", "--fit", "2MB")
    assert code == 0
    assert "the largest batch in 2.00 MB by the account exact" in out
    assert "is the largest at which a batch of 16 fits" in out
    assert "On top of that limit come interpreter, numpy and edgefl" in out


def test_what_fit_chose_runs_under_that_limit(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, "fedspu_cifar", "--fit", "2MB", "--measure", "--json")
    found = json.loads(out)
    learner = next(each for each in found["measured"] if each["account"] == "learner")
    assert code == 0
    assert learner["total"] == found["chosen"]["footprint"]["total"] <= 2_000_000
    assert found["chosen"]["batch"] >= 16


def test_nothing_fits_is_a_failure_with_the_least_that_would(capsys: pytest.CaptureFixture[str]) -> None:
    _, known, _ = answer(capsys, "fedspu_cifar", "--batch", "1", "--account", "exact", "--json")
    least = min(json.loads(known)["footprints"], key=lambda each: each["total"])
    code, out, err = answer(capsys, "fedspu_cifar", "--fit", "20kB")
    assert (code, out) == (1, "")
    wanted = f"by the account exact, one example at p={least['keep']:g} takes {least['total']}"
    assert err.startswith(f"edgefl memory: nothing fits 20000 bytes: {wanted}")


def test_the_picture_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="the picture is an optional extra")
    code, _, _ = answer(capsys, "fedspu_emnist", "--batch", "1", "--plot", str(tmp_path / "accounts.png"))
    assert code == 0
    assert (tmp_path / "accounts.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_is_printed_though_the_disk_refuses_the_picture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="the picture is an optional extra")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "a.png")

    monkeypatch.setattr("edgefl.cli.memory.draw", full)
    code, out, err = answer(capsys, "fedspu_emnist", "--batch", "1", "--json", "--plot", str(tmp_path / "a.png"))
    assert (code, err) == (1, "edgefl memory: a.png: no space left on device\n")
    assert json.loads(out)["footprints"]


@pytest.mark.parametrize(
    ("methods", "same"),
    [
        (["fedavg", "fedprox:mu=.1", "scaffold", "ditto", "apfl", "fedper", "local"], ["--method", "full"]),
        (["fedspu:keep=.5", "fedspu-es:keep=.5", "fedspu-cached:keep=.5"], ["--method", "fedspu", "--keep", ".5"]),
        (["random-dropout:keep=.5", "fjord:keep=.5", "fedmp:keep=.5", "hermes:keep=.5"],
         ["--method", "drop", "--keep", ".5"]),
        (["fedspa:density=.3", "prunefl:density=.3"], ["--density", ".3"]),
        (["subfedavg:density=.3"], ["--density", ".3,1"]),
        (["pflego", "fedrecon:tau=9"], ["--method", "pflego"]),
        (["fedavg:optimizer=adam:batch=4:saved=fp16"],
         ["--method", "full", "--optimizer", "adam", "--batch", "4", "--saved", "fp16"]),
    ],
)  # fmt: skip
def test_a_federated_method_has_the_memory_of_its_way(
    methods: list[str], same: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shared = ["digits_cnn", "--account", "exact,bound", "--json"]
    _, expected, _ = answer(capsys, *shared, *same)
    for method in methods:
        code, out, _ = answer(capsys, *shared, "--method", method)
        assert (code, json.loads(out)) == (0, json.loads(expected)), method


def test_every_federated_method_has_a_way(capsys: pytest.CaptureFixture[str]) -> None:
    for name in federated.METHODS:
        code, out, _ = answer(capsys, "digits_cnn", "--account", "paper", "--method", name)
        assert code == 0 and (name in METHODS or f"{name} trains in the way " in out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lenet5", "--method", "fedavgg"], "--method fedavgg; expected one of full, fedspu, sparse, drop, pflego, or"),
        (["lenet5", "--method", "fedspu:kep=.5"], "kep=.5 is not a hyper-parameter of fedspu; the nearest is keep"),
        (["lenet5", "--method", "fjord:keep=.5", "--keep", ".2"], "--keep with --method fjord:keep=.5; expected one"),
        (["vgg99"], "model 'vgg99'; expected one of fedspu_emnist"),
        (["gone.safetensors"], "gone.safetensors"),
        (["x.safetensors", "--classes", "3"], "--input and --classes with x.safetensors; expected neither"),
        (["fedspu_emnist", "--input", "1,2,3,4"], "'1,2,3,4'; expected C,H,W"),
        (["fedspu_emnist", "--input", "1,3,3"], "expected at least one output cell"),
        (["fedspu_emnist", "--keep", "0,1"], "keep=0.0 with method=fedspu; expected 0 < keep <= 1"),
        (["fedspu_emnist", "--keep", ".5", "--method", "pflego"], "keep=0.5 with method=pflego"),
        (["fedspu_emnist", "--batch", "0"], "batch=0; expected at least 1"),
        (["fedspu_emnist", "--account", "torch"], "'torch'; expected some of pfeiffer2023, paper, bound, exact"),
        (["fedspu_emnist", "--account", "paper", "--tensors"], "--tensors with --account paper; expected exact"),
        (["fedspu_emnist", "--fit", "24apples"], "'24apples'; expected a size such as 24MB"),
        (["fedspu_emnist", "--fit", "2MB", "--plot", "a.png"], "--plot a.png with --fit; expected one of them"),
        (["lenet5", "--loss", "hinge"], "loss=hinge; expected one of cross-entropy, bce, mse, huber"),
        (["lenet5", "--loss", "bce:pos_weight=1,2"], "2 numbers in pos_weight; expected 26"),
        (["lenet5", "--optimizer", "adam", "--momentum", ".9"], "--momentum 0.9 with --optimizer adam; expected sgd"),
        (["lenet5", "--optimizer", "adam", "--measure"], "--measure with adam and cross-entropy; expected plain sgd"),
        (["vgg11", "--method", "drop"], "a sub-model would keep"),
        (["vgg11", "--plot", "a.xyz"], "--plot a.xyz; expected a file that ends in one of ."),
        (["vgg11", "--plot", "gone/a.png"], "--plot gone/a.png; expected a file in an existing directory"),
    ],
)
def test_a_wrong_option_is_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = answer(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
