"""The tables of mutants fit today's sources, and the harness makes and judges mutants as it says. No mutant is tried
here.

Whoever changes a place that a mutant names sees the first of these tests fail, and changes the table with it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.mutants import tree, trial
from tests.mutants.command import ALL, print_table
from tests.mutants.mutant import Mutant
from tests.mutants.switch import HEADER, VARIABLE, switched
from tests.mutants.trial import Trial


def made(original: str, mutated: str, file: str = "csrc/a.cc") -> Mutant:
    return Mutant("name", file, original, mutated, "wrong", "tests/mutants/test_mutants.py")


def test_every_mutant_has_its_place_in_todays_sources() -> None:
    for mutant in ALL:
        text = (tree.ROOT / mutant.file).read_text()
        assert mutant.applied(text) != text, mutant.name
        if not mutant.is_native:
            compile(mutant.applied(text), mutant.file, "exec")


def test_mutants_of_one_file_in_cpp_do_not_overlap() -> None:
    for file in {mutant.file for mutant in ALL if mutant.is_native}:
        mutants = dict(enumerate((mutant for mutant in ALL if mutant.file == file), 1))
        assert switched((tree.ROOT / file).read_text(), mutants).count("efl_mutant(") == len(mutants)


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_mutants_in_cpp_are_cpp(tmp_path: Path) -> None:
    native = [mutant for mutant in ALL if mutant.is_native]
    tree.switch(tree.copy(tmp_path), native)
    assert tree.refused(tmp_path, native) == ""


def test_mutants_have_names_of_their_own_and_tests_that_are_there() -> None:
    assert len({mutant.name for mutant in ALL}) == len(ALL)
    for mutant in ALL:
        paths = [word.split("::")[0] for word in shlex.split(mutant.tests) if word.startswith("tests")]
        assert paths, mutant.name
        assert all((tree.ROOT / path).exists() for path in paths), mutant.name


@pytest.mark.parametrize(("text", "count"), [("b", 0), ("a = 1; a = 1;", 2)])
def test_an_original_that_does_not_stand_there_once_is_named(text: str, count: int) -> None:
    with pytest.raises(ValueError) as error:
        made("a = 1", "a = 2").applied(text)
    assert str(error.value) == f"name: csrc/a.cc has 'a = 1' {count} times; expected once"


def test_expressions_and_statements_are_chosen_by_number() -> None:
    text = "int f(int a) { int b = a + 1; b *= 2; return b; }"
    mutants = {2: made("a + 1", "a"), 5: made("b *= 2;", "")}
    assert switched(text, mutants) == (
        "int f(int a) { int b = (efl_mutant(2) ? (a) : (a + 1)); if (efl_mutant(5)) {  } else { b *= 2; } return b; }"
    )


def test_mutants_of_one_place_are_refused() -> None:
    with pytest.raises(ValueError, match=r"name: overlaps the mutant before it in csrc/a.cc"):
        switched("b = a + 1;", {1: made("a + 1", "a"), 2: made("+ 1;", "")})


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_a_variable_of_the_environment_chooses_the_mutant(tmp_path: Path) -> None:
    text = "int main(int count, char**) { int b = count + 10; b *= 2; return b; }"
    mutants = {1: made("count + 10", "count"), 2: made("b *= 2;", "")}
    (tmp_path / "a.cc").write_text(switched(text, mutants))
    (tmp_path / "mutant.h").write_text(HEADER)
    subprocess.run(["c++", "-std=c++17", "-include", "mutant.h", "a.cc"], cwd=tmp_path, check=True)
    for number, status in {"": 22, "0": 22, "1": 2, "2": 11, "3": 22}.items():
        chosen = {**os.environ, VARIABLE: number}
        assert subprocess.run([tmp_path / "a.out"], env=chosen).returncode == status, number


def test_a_file_is_as_it_was_after_its_mutant(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    compiled = tmp_path / "__pycache__" / "a.cpython-311.pyc"
    compiled.parent.mkdir()
    file.write_text("a = 1\n")
    for _ in range(2):
        compiled.write_bytes(b"stale")
        with tree.mutated(tmp_path, made("a = 1", "a = 2", "a.py")):
            assert file.read_text() == "a = 2\n"
            assert not compiled.exists()
            compiled.write_bytes(b"of the mutant")
        assert file.read_text() == "a = 1\n"
        assert not compiled.exists()


def test_what_failed_first_is_the_killer() -> None:
    output = "..F\nFAILED tests/a.py::test_b[1 x] - assert 1 == 2\n1 failed, 2 passed\n"
    assert trial.killer(1, output, "tests/a.py") == "tests/a.py::test_b[1 x]"
    assert trial.killer(2, "ERROR tests/a.py - NameError\n", "tests/a.py") == "tests/a.py"
    assert trial.killer(-11, "", "tests/a.py") == "SIGSEGV"
    assert trial.killer(0, "3 passed", "tests/a.py") is None
    with pytest.raises(RuntimeError, match=r"pytest tests/a\.py -k none ended with 5; expected tests that run"):
        trial.killer(5, "3 deselected", "tests/a.py -k none")


def test_a_mutant_that_lived_is_named_with_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([(made("a", "b"), Trial(None, 1.5)), (made("c", "d"), Trial("tests/a.py::test_b[one]", 2.0))])
    shown = capsys.readouterr().out
    assert "LIVED: wrong" in shown
    assert "tests/a.py::test_b[one]" in shown
    assert "1 killed, 1 lived" in shown
