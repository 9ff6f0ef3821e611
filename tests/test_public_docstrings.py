"""Every public name has a docstring that can be understood alone and names its arguments."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache

import pytest

from edgefl.methods.method_help import COMMON
from scripts import api

NAMES = [name for part in api.PARTS.values() for name in part]
HEADLESS = re.compile(r"(What|How|Which|Where|Who|Whose|When|Of|Its|Their|Theirs|They|It)\b")  # no main clause follows


def first_line(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


@cache
def node_of(name: str) -> ast.Module | ast.ClassDef | ast.FunctionDef:
    module, _, what = name.partition(" as ")[0].partition(":")
    tree = ast.parse(api._source(module).read_text("utf-8"))
    return next(each for each in tree.body if getattr(each, "name", None) == what) if what else tree  # type: ignore[return-value]


def documented(text: str, name: str) -> bool:
    """Return whether a docstring has the name as a word."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def parameters(node: ast.FunctionDef) -> list[str]:
    return [each.arg for each in [*node.args.args, *node.args.kwonlyargs] if each.arg not in ("self", "cls")]


def methods_of(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_") and ast.get_docstring(each):
            yield each


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_says_what_it_is(name: str) -> None:
    node = node_of(name)
    docs = [(name, ast.get_docstring(node))]
    if isinstance(node, ast.ClassDef):
        docs += [(f"{name}.{each.name}", ast.get_docstring(each)) for each in methods_of(node)]
    for where, text in docs:
        assert text, f"{where} has no docstring"
        line = first_line(text)
        assert not HEADLESS.match(line), f"{where}: {line}"
        assert len(line.split()) >= 3, f"{where}: {line}"


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(node_of(name), ast.FunctionDef)])
def test_a_public_function_says_what_each_parameter_is(name: str) -> None:
    node = node_of(name)
    assert isinstance(node, ast.FunctionDef)
    text = ast.get_docstring(node) or ""
    assert [each for each in parameters(node) if not documented(text, each)] == []


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(node_of(name), ast.ClassDef)])
def test_a_public_class_says_what_each_field_and_argument_is(name: str) -> None:
    """The meaning is in its or a base class's docstring, a comment at the field, or the table of common settings."""
    node = node_of(name)
    assert isinstance(node, ast.ClassDef)
    module, _, what = name.partition(" as ")[0].partition(":")
    kinds = getattr(importlib.import_module(module), what).__mro__
    makes = next((each for each in node.body if getattr(each, "name", "") == "__init__"), None)
    text = "\n".join(
        [*(each.__dict__.get("__doc__") or "" for each in kinds), (makes and ast.get_docstring(makes)) or ""]
    )
    lines = api._source(module).read_text("utf-8").splitlines()
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and "ClassVar" not in ast.unparse(each)]
    bare = [each for each in fields if "  # " not in "".join(lines[each.lineno - 1 : each.end_lineno])]
    names = [ast.unparse(each.target) for each in bare]
    given = parameters(makes) if isinstance(makes, ast.FunctionDef) and what not in api.GIVEN else []
    assert [each for each in [*names, *given] if each not in COMMON and not documented(text, each)] == []
