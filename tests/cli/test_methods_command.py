"""`edgefl methods`: a line for every method, and what each setting means."""

from __future__ import annotations

import json

import pytest

from edgefl.cli.cli import main
from edgefl.methods import METHODS, settings_of
from edgefl.methods.method_help import method_help, setting_texts


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_says_what_it_is(name: str) -> None:
    found = method_help(name)
    assert found.line.endswith(".")
    assert {each.name for each in found.settings} == settings_of(name).keys() - {"rounds"}
    assert [each.name for each in found.settings if not each.text] == []


def test_a_variant_says_what_it_sets() -> None:
    assert method_help("fedspu-es").line.endswith(" Here with es=True.")
    assert method_help("fedspa-rsm").line.endswith(" Here with search=rsm.")


def test_texts_are_read_over_lines_and_the_class_goes_before_those_it_is_made_of() -> None:
    class Base:
        """What it does.

        mu    how strongly
        beta  of the base,
              over two lines
        """

    class Own(Base):
        """What it does here.

        mu  its own
        No setting.
        """

    assert setting_texts(Own) == {"mu": "its own", "beta": "of the base, over two lines"}


def test_all_methods_are_listed_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in METHODS)
    assert "edgefl methods NAME lists the settings of a method." in out


def test_the_settings_of_one_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "fedprox", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["fedprox"]
    (mu,) = (each for each in found["settings"] if each["name"] == "mu")
    text = "strength by which the client's model is drawn to w; 0 is FedAvg, bit for bit"
    assert mu == {"name": "mu", "default": 0.01, "text": text}
    assert main(["methods", "fedprox"]) == 0
    assert "mu" in capsys.readouterr().out
