"""Words of a command line that nobody knows: one sentence with the nearest, and exit code 2."""

from __future__ import annotations

import pytest

from edgefl.cli.cli import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["simulat"], "'simulat' is not a command; the nearest is simulate; `edgefl --help` lists"),
        (["banana"], "'banana' is not a command; expected one of simulate, methods, check"),
        (["simulate", "--methd", "fedavg"], "edgefl simulate: there is no option --methd; the nearest are --method"),
        (["serve", "--metod=fedspu"], "there is no option --metod; the nearest are --method"),
        (["inspect", "a.safetensors", "b"], "b is one word too many; an option begins with --"),
        (["simulate", "--method", "FedAvg"], "method=FedAvg; the nearest are fedavg"),
        (["simulate", "--model", "lenet6"], "model=lenet6; the nearest is lenet5"),
        (["simulate", "--method", "fedspu:keeep=1"], "keeep=1 is not a hyper-parameter of fedspu; the nearest is keep"),
        (["memory", "fedspu_emnis"], "model 'fedspu_emnis'; the nearest is fedspu_emnist"),
        (["simulate", "--data", "digit"], "data set 'digit'; the nearest is digits"),
        (["methods", "fedprx"], "method=fedprx; the nearest are fedprox"),
    ],
)
def test_the_nearest_is_named(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code  # type: ignore[assignment]
    assert code == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_backend_that_is_not_here_is_told_by_its_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEFL_KERNELS", "native")  # is put back
    monkeypatch.setattr("edgefl.kernels._load", _missing)
    assert main(["simulate", "--backend", "cuda", "--rounds", "1"]) == 2
    assert capsys.readouterr().err == (
        "edgefl simulate: --backend cuda cannot be used here (no driver); expected another: native, numba, reference\n"
    )


def _missing(name: str) -> None:
    raise ImportError("no driver")
