"""Operators make one mistake each, a seed gives one sample, and every file has tests that should notice."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from tests.mutants import cpp_operators, generated, kernels, python_operators, tree
from tests.mutants.mutant import Mutant
from tests.mutants.noticing import module_of, noticing
from tests.mutants.python_operators import applied
from tests.sources import MODULES, ROOT

FILES = "edgefl/methods/fedprox.py", "server/row_digest.py"
NATIVE = "csrc/kernels/pool/max.inl.h"


def made(text: str, operator: str) -> set[str]:
    """Return the texts that an operator of Python makes of a text."""
    return {applied(text.encode(), edit).decode() for edit in python_operators.edits(text) if edit.operator == operator}


@pytest.mark.parametrize(
    ("text", "operator", "expected"),
    [
        ("a < b", "comparison", {"a <= b"}),
        ("a is not b", "comparison", {"a is b"}),
        ("(a) not in b", "comparison", {"(a) in b"}),
        ("a + b", "arithmetic", {"a - b"}),
        ("a //= b", "arithmetic", {"a *= b"}),
        ("a * (b + c)", "operand", {"a", "(b + c)", "a * (b)", "a * (c)"}),
        ("not a", "operand", {"a"}),
        ("a and b", "logic", {"(a or b)", "(a)", "(b)"}),
        (
            "x = a if b else c",
            "condition",
            {"x = a if (not b) else c", "x = a if True else c", "x = a if False else c"},
        ),
        ("x = True", "constant", {"x = False"}),
        ("x = 2", "constant", {"x = 3", "x = (1)"}),
        ("x = min(a)", "constant", {"x = max(a)"}),
        ("a.b = c", "statement", {"pass"}),
        ("a += b", "statement", {"pass", "a = b"}),
        ("f(a)", "statement", {"pass"}),
        ("raise f(a < b)", "statement", {"pass"}),
        ("def f():\n    return a", "return", {"def f():\n    return None"}),
        ("f(a, b=c)", "argument", {"f(a, )"}),
        ("f(a, b=c)", "call", {"a"}),
        ("f(a, g(b))", "exchange", {"f(g(b), a)"}),
        ("x = [a, b]", "item", {"x = [b]", "x = [a]"}),
        ("x = {a: b, c: d}", "item", {"x = {c: d}", "x = {a: b, }"}),
        ("x = a[b:]", "slice", {"x = a"}),
    ],
)
def test_an_operator_makes_these_mistakes(text: str, operator: str, expected: set[str]) -> None:
    assert made(text, operator) == expected


@pytest.mark.parametrize(
    "text",
    [
        '"""a docstring"""',
        "x: int | None",
        "def f(a: int | None) -> int | None: ...",
        "assert a < b",
        "import a",
        'f"{a + b}"',
        "if TYPE_CHECKING:\n    f(a)",
        "@f(a + b)\nclass A: ...",
    ],
)
def test_texts_and_types_are_left_alone(text: str) -> None:
    assert [edit for edit in python_operators.edits(text) if edit.operator != "condition"] == []


def test_an_edit_that_gives_the_same_program_is_told() -> None:
    text = "x = f(a, a)"
    same = [edit for edit in python_operators.edits(text) if not python_operators.changes(text, edit)]
    assert [edit.operator for edit in same] == ["exchange"]


def test_a_place_is_found_behind_letters_of_several_bytes() -> None:
    assert made('x = "é", a < b', "comparison") == {'x = "é", a <= b'}


def test_a_token_of_cpp_is_exchanged_within_its_whole_expression() -> None:
    text = "    if (a + b < c && d[i] != 0) { x = y * (z - 1); }  // a < b\n"
    found = {(text[edit.start : edit.end], edit.text) for edit in cpp_operators.edits(text)}
    assert found == {
        ("a + b < c", "a - b < c"),
        ("a + b < c", "a + b <= c"),
        ("a + b < c && d[i] != 0", "a + b < c || d[i] != 0"),
        ("i", "i + 1"),
        ("d[i] != 0", "d[i] == 0"),
        ("y * (z - 1)", "y + (z - 1)"),
        ("z - 1", "z + 1"),
    }


@pytest.mark.parametrize(
    "line", ["#define A (b + c)", "constexpr int a = b + c;", 'f("a + b");', "template <int A = b + c>"]
)
def test_lines_that_must_be_constant_are_left_alone(line: str) -> None:
    assert cpp_operators.edits(line) == []


def test_a_seed_gives_one_sample_with_as_many_mutants_of_each_file() -> None:
    sample = generated.sample(FILES, 10, 3)
    assert sample == generated.sample(FILES, 10, 3)
    assert sample != generated.sample(FILES, 10, 4)
    assert [mutant.file for mutant in sample] == [*FILES] * 5
    assert len({mutant.name for mutant in sample}) == 10


@pytest.mark.parametrize("file", [*FILES, NATIVE])
def test_generated_mutants_stand_where_they_say(file: str) -> None:
    text = (ROOT / file).read_text()
    mutants = generated.generated(file)
    assert len(mutants) > 20
    assert all(mutant.applied(text) != text for mutant in mutants)
    assert len({mutant.name for mutant in mutants}) == len(mutants)


def test_a_sample_of_cpp_has_no_two_mutants_of_one_place() -> None:
    text = (ROOT / NATIVE).read_text()
    sample = sorted(generated.sample([NATIVE], 30, 1), key=lambda mutant: mutant.start(text))
    ends = [mutant.start(text) + len(mutant.original) for mutant in sample]
    assert all(end <= after.start(text) for end, after in zip(ends, sample[1:], strict=False))


def test_a_mutant_at_a_place_that_has_moved_is_refused() -> None:
    mutant = Mutant("name", "a.py", "b", "c", "wrong", "tests", at=1)
    assert mutant.applied("abb") == "acb"
    with pytest.raises(ValueError, match=r"name: a.py has no 'b' at 1"):
        mutant.applied("bab")


def test_the_tests_of_a_file_s_name_come_first() -> None:
    assert noticing("edgefl/methods/fedprox.py").split()[0] == "tests/methods/test_fedprox.py"
    assert noticing("server/store.py").split()[0] == "tests/server/test_store.py"
    assert module_of("server/page/http_server.py") == "edgefl.server.page.http_server"


def test_every_file_has_tests_that_are_there() -> None:
    for path in MODULES.values():
        if path.name != "__init__.py":
            words = shlex.split(noticing(str(path.relative_to(ROOT))))
            named = [word for word in words if word.startswith("tests") and "::" not in word]
            assert named, path
            assert all(Path(ROOT / word).exists() for word in named), path


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_most_mutants_that_operators_make_of_cpp_are_cpp() -> None:
    files = sorted({mutant.file for mutant in kernels.MUTANTS})
    sample = generated.sample(files, 40, 1)
    assert len(tree.compiling(sample)) > 30
