"""Warnings of a command are single lines, without a file and its source."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from edgefl.cli.cli import main
from edgefl.cli.warning_lines import warning_lines


def test_a_users_warning_is_a_line_and_others_keep_pythons_form() -> None:
    before = warnings.formatwarning
    with warning_lines("serve"):
        assert warnings.formatwarning("few samples", UserWarning, "a.py", 3, "x = 1") == "edgefl serve: few samples\n"
        found = warnings.formatwarning("old name", DeprecationWarning, "a.py", 3, "x = 1")
    assert found == "a.py:3: DeprecationWarning: old name\n  x = 1\n"
    assert warnings.formatwarning is before


def test_a_run_says_how_a_new_head_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ["simulate", "--train", "biases", "--rounds", "1", "--clients", "3", "--epochs", "1", "--batch", "64"]
    shown: list[str] = []
    monkeypatch.setattr(warnings, "showwarning", lambda *given: shown.append(warnings.formatwarning(*given[:4])))
    warnings.simplefilter("always", UserWarning)
    assert main([*run, "--method", "fedavg", "--run-dir", str(tmp_path / "run")]) == 0
    assert shown == [
        "edgefl simulate: train=biases leaves fc.weight as it is: write biases,head to train a new head, too\n"
    ]
