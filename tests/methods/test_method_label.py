"""Rows with options of their own: how they are written, what they stand for, where their files are."""

from __future__ import annotations

import re

import pytest

from edgefl.methods import FedAvg, FedSPU, build, labelled
from edgefl.methods.method_label import Variant, folder, label_of, labels_in


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("fedspu,fedavg", ["fedspu", "fedavg"]),
        ("fedspu:keep=1,fedavg", ["fedspu:keep=1", "fedavg"]),
        ("fedspu:keep=.2,.4,1:lr=.1,fedavg", ["fedspu:keep=.2,.4,1:lr=.1", "fedavg"]),
        ("fedspu:keep=1,lr=.1,local", ["fedspu:keep=1:lr=.1", "local"]),
        ("a.b:C,a.b:C:mu=-1,-2", ["a.b:C", "a.b:C:mu=-1,-2"]),
        ("fedspu,,fedspu:es=1", ["fedspu", "fedspu:es=1"]),
        ("", []),
    ],
)
def test_commas_separate_rows_and_the_numbers_of_an_option(text: str, labels: list[str]) -> None:
    assert labels_in([text]) == labels
    assert labels_in([*labels]) == labels


def test_a_label_is_the_same_however_it_is_written() -> None:
    assert labelled("fedspu:lr=.10:keep=1.0,.5") == labelled("fedspu:keep=1,0.5:lr=0.1") == "fedspu:keep=1,0.5:lr=0.1"
    assert labelled("fedspu:es=1") == "fedspu:es=true" and labelled("fedavg") == "fedavg"
    assert label_of("fedspu", {"lr": 1e-5, "epochs": 10, "delta": "cut"}) == "fedspu:delta=cut:epochs=10:lr=1e-05"
    assert Variant.of("a.b:C:mu=1") == Variant("a.b:C", (("mu", "1"),))


def test_a_row_s_own_options_go_before_those_of_all() -> None:
    shared = {"lr": 0.5, "keep": (0.5,), "per_round": 2, "ft_epochs": 3}
    assert build("fedspu:keep=1:delta=cut", shared) == FedSPU(lr=0.5, keep=(1.0,), per_round=2, delta="cut")
    assert build("fedavg:lr=.1", shared) == FedAvg(lr=0.1, per_round=2)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("fedfoo:lr=1", "method=fedfoo; expected one of fedspu"),
        ("fedavg:keep=1", "keep=1 is not a hyper-parameter of fedavg; expected one of batch"),
        ("fedspu:lr=", "method=fedspu:lr= has 'lr='; expected NAME:OPTION=VALUE"),
        ("fedspu:lr=.1:cut", "method=fedspu:lr=.1:cut has 'cut'; expected NAME:OPTION=VALUE"),
        ("fedspu:lr=1:lr=2", "method=fedspu:lr=1:lr=2 has an option twice; expected each option once"),
        ("fedspu:rounds=9", "method=fedspu:rounds=9 has rounds=9; expected --rounds, which all methods of a run share"),
        ("fedspu:keep=2", "keep=2.0; expected 0 < keep <= 1"),
    ],
)
def test_a_label_that_stands_for_no_method_is_refused(label: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        build(label, {})


def test_a_folder_has_no_colons() -> None:
    assert folder("fedspu:keep=0.2,1:lr=0.1") == "fedspu+keep=0.2,1+lr=0.1" and folder("fedavg") == "fedavg"
