"""The tables compile with LaTeX, where LaTeX is installed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench import latex


@pytest.mark.skipif(shutil.which(latex.PROGRAM) is None, reason="no pdflatex; apt-get install texlive-latex-base")
def test_every_character_compiles_and_a_mistake_is_told(tmp_path: Path) -> None:
    assert latex.compiled(latex.hard_table(), tmp_path) == ""
    assert latex.compiled(r"\nosuchcommand", tmp_path) == "does not compile: ! Undefined control sequence."


def test_without_latex_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(latex, "PROGRAM", "no-such-program")
    assert latex.main([]) == 2
    assert capsys.readouterr().err == "no-such-program is not here; expected it: apt-get install texlive-latex-base\n"
