"""Tests of the files that csrc/generate.py makes of the rows: the files, checks by hand, and rules that are wrong in
one place.

That the generated functions do what the rows say is tested in test_arguments.py and test_operations.py.
"""

from __future__ import annotations

import ast
import ctypes
import itertools
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.kernels.argument_rules import rule_of
from edgefl.kernels.checks import ArgumentCheck
from edgefl.kernels.rule_expressions import expression
from edgefl.kernels.rule_text import Rule, read_rule
from edgefl.kernels.signature import InC, Signature
from edgefl.kernels.table import TABLE

from .abi import SOURCES, generator

generator()  # makes `generator` a package that can be imported
from generator import binding, checks, header, rows  # noqa: E402
from generator.expressions import Translation  # noqa: E402

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
TWO_VALUES = "x: B * inner >= 2: at least 2 values per channel"


def test_it_needs_python_alone_and_gives_equal_bytes(tmp_path: Path) -> None:
    """-E and -S: neither the checkout nor installed packages can be imported."""
    for folder in ("one", "two"):
        command = [sys.executable, "-E", "-S", str(SOURCES / "generate.py"), str(tmp_path / folder)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / f).rglob("*.*")} for f in ("one", "two"))
    assert one == two
    assert len(one) > len(TABLE) / 3


def test_a_file_whose_text_is_the_same_is_left_alone_and_an_old_one_goes(tmp_path: Path) -> None:
    generator().write(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    (tmp_path / "api_former.cc").write_text("")
    (tmp_path / "edgefl.h").write_text("other")
    generator().write(tmp_path)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    assert {path.name for path in after if before.get(path) != after[path]} == {"edgefl.h"}
    assert set(after) == set(before)


def test_every_file_has_its_operations() -> None:
    texts = generator().texts()
    made = "".join(texts.values()) + "".join(path.read_text("utf-8") for path in SOURCES.rglob("*.cc"))
    for row in TABLE.values():
        assert len(re.findall(rf"^Call {row.name}\(Args& \w+\) {{", made, re.MULTILINE)) == 1, row.name
        for function in rows.functions(row):
            assert len(re.findall(rf"^efl_status efl_{function.symbol}\([^;{{]*\) {{", made, re.MULTILINE)) == 1


SMALL = Signature(
    "op",
    "x[B,C,*] bias[C]? groups|C eps:real y[B,C,*]! channels<C",
    "meaning",
    rules=("eps: eps > 0: a number above 0", "x: B * inner >= 2: 2 values"),
    c=InC("x bias B C inner groups eps needed=channels y"),
)


def test_the_prototype_of_a_function_by_hand() -> None:
    assert header.declaration(SMALL) == (
        "/* meaning. */\n"
        "efl_status efl_op_f32(const float* x, const float* bias, efl_int64 batch, efl_int64 channels, "
        "efl_int64 inner,\n                      efl_int64 groups, float eps, efl_index needed, float* y);\n"
    )


def test_the_reading_of_arguments_by_hand() -> None:
    lines = binding.function(SMALL).split("\n    ")
    assert lines[1:6] == [
        'const View x = given.f32("x", Access::in);',
        'const View bias = given.f32_or_none("bias", Access::in);',
        'const efl_int64 groups = given.integer("groups");',
        'const float eps = given.real("eps");',
        'const View y = given.f32("y", Access::out);',
    ]
    assert lines[7] == "given.expect_dims(x, 2, 8);"
    assert lines[11:16] == [
        'given.expect_divisor("groups", groups, C);',
        "given.expect_shape(bias, Shape{C});",
        "given.expect_shape(y, x.shape);",
        'if (!(eps > 0)) given.reject("eps", {"value ", eps}, {"a number above 0"});',
        'if (!((B * inner) >= 2)) given.reject("x", {"shape ", x.shape}, {"2 values"});',
    ]
    assert "return efl_op_f32(x, bias, batch, channels, inner, groups, eps, needed, y);" in lines[-2]


def test_the_checks_of_a_function_by_hand() -> None:
    assert checks.checks(rows.Function(SMALL)) == [
        "EFL_CHECK(extents({batch, channels, inner}));",
        "EFL_CHECK(pointers({x, y}));",
        "if (groups < 1 || channels % groups) return EFL_BAD_ARGUMENT;",
        "if (!(eps > 0)) return EFL_BAD_ARGUMENT;",
        "if (!((batch * inner) >= 2)) return EFL_BAD_SHAPE;",
        "EFL_CHECK(index(needed, channels));",
    ]


def test_a_rule_about_what_c_is_not_given_is_refused() -> None:
    row = replace(TABLE["add"], rules=("a: K > 0: some",))
    with pytest.raises(ValueError, match="add: K in a rule"):
        checks.checks(rows.Function(row))


def test_two_parameters_of_one_name_are_refused() -> None:
    row = Signature("op", "x[B,C,*] y[B,C,*]! channels<C", "meaning", c=InC("x B C inner channels y"))
    with pytest.raises(ValueError, match=r"op: C parameters \['channels'\] given twice"):
        rows.Function(row)


@pytest.mark.parametrize("text", ["x > 0", "x: y", "x: a > 0: b [other]", "= 3"])
def test_a_rule_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        read_rule(text)


# ---- one text, two languages ----------------------------------------------------------------------------------------


def expressions_of_rules() -> list[str]:
    """The expressions of all rows whose names are integers."""
    read = (read_rule(rule) for row in TABLE.values() for rule in row.rules)
    found = sorted({rule.test if isinstance(rule, Rule) else rule.value for rule in read if rule is not None})
    return [test for test in found if "None" not in test]


def names_of(test: str) -> list[str]:
    nodes = list(ast.walk(ast.parse(test)))
    items = {f"{node.value.id}_{node.slice.value}" for node in nodes if isinstance(node, ast.Subscript)}
    arrays = {node.value.id for node in nodes if isinstance(node, ast.Subscript)}
    return sorted(items | {node.id for node in nodes if isinstance(node, ast.Name)} - arrays - {"min"})


@needs_compiler
def test_expressions_mean_in_cpp_what_they_mean_in_python(tmp_path: Path) -> None:
    cpp = Translation(lambda name: name, lambda name, place: f"{name}_{place}")
    lines = ["#include <algorithm>", "using efl_int64 = long long;", 'extern "C" {']
    tests = expressions_of_rules()
    for number, test in enumerate(tests):
        given = ", ".join(f"efl_int64 {name}" for name in names_of(test))
        lines.append(f"efl_int64 test{number}({given}) {{ return {cpp(test)}; }}")
    source, library = tmp_path / "tests.cc", tmp_path / "tests.so"
    source.write_text("\n".join([*lines, "}\n"]))
    subprocess.run(["c++", "-std=c++2a", "-O0", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    for number, test in enumerate(tests):
        function, names = getattr(loaded, f"test{number}"), names_of(test)
        function.restype, function.argtypes = ctypes.c_longlong, [ctypes.c_longlong] * len(names)
        python = expression(test)
        for values in sample(len(names)):
            words = words_of(dict(zip(names, values, strict=True)))
            assert function(*values) == int(python(words)), (test, words)


def words_of(values: dict[str, int]) -> dict[str, Any]:
    """scale_0 as scale[0]."""
    words: dict[str, Any] = {}
    for name, value in values.items():
        of, is_item, place = name.rpartition("_")
        if is_item and place.isdecimal():
            words.setdefault(of, {})[int(place)] = value
        else:
            words[name] = value
    return words


def sample(count: int) -> Iterator[tuple[int, ...]]:
    """All of a few small numbers where that is not too many, and large ones."""
    small = (0, 1, 2, 3, 8, 17, 40) if count < 5 else (0, 1, 3, 40)
    yield from itertools.islice(itertools.product(small, repeat=count), 3000)
    yield from ((value,) * count for value in (255, 256, 1 << 31))
    if count == 1:  # products of larger ones do not fit 64 bits
        yield from ((value,) for value in (1 << 32, 1 << 40, (1 << 40) + 1))


# ---- a rule that is wrong in the row --------------------------------------------------------------------------------


def with_rule(wrong: str) -> Signature:
    assert TABLE["batchnorm_forward"].rules == (TWO_VALUES,)
    return replace(TABLE["batchnorm_forward"], rules=(wrong,))


def arguments(values: int) -> dict[str, Any]:
    """Return arguments of batchnorm_forward with so many values in a channel."""
    large, small = np.ones((values, 2), np.float32), [np.ones(2, np.float32) for _ in range(5)]
    named = dict(zip(("weight", "bias", "running_mean", "running_var"), small[:4], strict=True))
    return {
        "x": large, **named, "y": large.copy(), "xhat": large.copy(), "inv_std": small[4], "eps": 1e-5, "momentum": 0.1
    }  # fmt: skip


WRONG = {
    "stricter": (TWO_VALUES.replace(">= 2", ">= 3"), 2, True),
    "looser": (TWO_VALUES.replace(">= 2", ">= 1"), 1, False),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_rule_fails_in_python(kind: str) -> None:
    wrong, values, refuses = WRONG[kind]
    check = ArgumentCheck(with_rule(wrong))
    assert is_refused(lambda: check(tuple(arguments(values).values()))) == refuses


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_rule_fails_on_cuda(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches come from the same check, whatever the device."""
    from edgefl.kernels.cuda import norm, program

    wrong, values, refuses = WRONG[kind]
    monkeypatch.setitem(TABLE, "batchnorm_forward", with_rule(wrong))
    operation = program.operations({"batchnorm_forward": norm.batchnorm_forward})["batchnorm_forward"]
    assert is_refused(lambda: operation.check(tuple(arguments(values).values()))) == refuses


@needs_compiler
@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_rule_fails_in_cpp(kind: str, tmp_path: Path) -> None:
    """The function of the C ABI, with a body that does nothing behind it."""
    wrong, values, refuses = WRONG[kind]
    function = rows.Function(with_rule(wrong))
    declared = ", ".join(f"{parameter.type} {parameter.name}" for parameter in function.parameters)
    body = "\n".join(checks.checks(function))
    text = f'extern "C" efl_status op({declared}) {{\n{body}\nreturn EFL_OK;\n}}\n'
    generator().write(tmp_path)
    (tmp_path / "op.cc").write_text(f'#include "core/check.h"\nusing namespace efl;\n{text}')
    flags = ["-std=c++2a", "-O0", "-shared", "-fPIC", f"-I{tmp_path}", f"-I{SOURCES}"]
    subprocess.run(["c++", *flags, str(tmp_path / "op.cc"), "-o", str(tmp_path / "op.so")], check=True)
    op = ctypes.CDLL(str(tmp_path / "op.so")).op
    memory = ctypes.create_string_buffer(64)
    given = {"efl_int64": ctypes.c_longlong, "float": ctypes.c_float}
    extents = {"batch": values, "channels": 2, "inner": 1}
    status = op(*(memory if p.is_pointer else given[p.type](extents.get(p.name, 1)) for p in function.parameters))
    assert (status == 1) == refuses  # EFL_BAD_SHAPE


def is_refused(call: Any) -> bool:
    try:
        call()
    except ValueError as error:
        assert "per channel" in str(error)
        return True
    return False


def test_the_message_of_a_rule_names_the_argument_and_the_expectation() -> None:
    row = with_rule(TWO_VALUES)
    with pytest.raises(ValueError, match=r"^x=\(1, 2\); expected at least 2 values per channel$"):
        ArgumentCheck(row)(tuple(arguments(1).values()))
    first = rule_of("first: 0 <= first <= D - C: 0 to {D - C}")
    with pytest.raises(ValueError, match=r"^first=4; expected 0 to 3$"):
        first({"first": 4}, {"D": 5, "C": 2, "first": 4})
