"""The table itself: its notation by hand. Every row is complete, and edgefl.h makes equal promises."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

import pytest

from edgefl.kernels.argument_rules import NAMED
from edgefl.kernels.rule_text import DerivedExtent, Rule, read_rule
from edgefl.kernels.signature import DERIVED, Signature
from edgefl.kernels.table import FAMILIES, TABLE

from .abi import SOURCES, declarations

IN_BINDING = {"fill_zero"}  # memset: nothing for the C ABI


def test_an_argument_as_it_is_written() -> None:
    row = Signature("op", "x[B,C,*] bits:uint8{B,bytes}?!x,w outs<C index[B]<N groups|C eps:real", "meaning")
    x, bits, outs, index, groups, eps = row.arguments
    assert (x.name, x.type, x.extents, x.is_flat, x.is_written) == ("x", "float", ("B", "C", "*"), False, False)
    assert (bits.type, bits.extents, bits.is_flat, bits.is_optional) == ("uint8", ("B", "bytes"), True, True)
    assert (bits.access, bits.aliases) == ("!", ("x", "w"))
    assert (outs.is_ids, outs.type, outs.below) == (True, "int32", "C")
    assert (index.is_ids, index.is_array, index.type, index.below) == (False, True, "int32", "N")
    assert (groups.type, groups.divides) == ("int", ("C",))
    assert (eps.type, eps.is_array) == ("real", False)
    assert row.names == ("x", "bits", "outs", "index", "groups", "eps")


def test_optional_arguments_at_the_end_may_be_left_out() -> None:
    row = Signature("op", "x[B] bias[B]? y[B]! scale[1]? bits:uint8[B]?", "meaning")
    assert row.required == 3
    assert row.as_python == "(x, bias, y, scale=None, bits=None)"


@pytest.mark.parametrize("word", ["x[B", "x]", "x[B]<", "[B]", "x:", "x:float16[B]", "x:real?!", "eps:number"])
def test_an_argument_that_cannot_be_read_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(word))):
        assert Signature("op", word, "meaning").arguments


@pytest.mark.parametrize("op", TABLE)
def test_every_name_in_a_row_means_something(op: str) -> None:
    row = TABLE[op]
    known = {*row.names, *DERIVED, *letters(row)}
    for rule in map(read_rule, row.rules):
        assert not isinstance(rule, Rule) or rule.name in row.names, rule
        assert not isinstance(rule, DerivedExtent) or rule.name in DERIVED, rule
    assert {rule for rule in row.rules if read_rule(rule) is None} <= set(NAMED)
    for argument in row.arguments:
        read = {part for extent in argument.extents or () for part in extent.split("/") if not part.isdecimal()}
        assert read <= known, argument
        assert {argument.below or op, *argument.divides} <= known | {op}, argument
        assert set(argument.aliases) <= set(row.names) - {argument.name}, argument
    assert any(argument.is_written for argument in row.arguments)


def letters(row: Signature) -> set[str]:
    return {extent for argument in row.arguments for extent in argument.extents or () if len(extent) == 1}


def test_names_are_given_once() -> None:
    assert len(TABLE) == sum(len(rows) for rows in FAMILIES.values())
    for row in TABLE.values():
        assert len(set(row.names)) == len(row.names), row.name


@cache
def declared() -> dict[str, list[str]]:
    """The kernels of edgefl.h: name without prefix and type, and the parameters."""
    text = re.sub(r"/\*.*?\*/", "", declarations(), flags=re.DOTALL)
    found = re.findall(r"efl_status\s+efl_(\w+?)(?:_f32|_u8|_32)?\(([^)]*)\);", text)
    return {name: parameters.split(",") for name, parameters in found}


@pytest.mark.parametrize("op", sorted(set(TABLE) - IN_BINDING))
def test_the_header_writes_as_many_arrays_as_the_table_says(op: str) -> None:
    """A pointer that is not const is written."""
    written = [parameter for parameter in declared()[op] if "*" in parameter and "const" not in parameter]
    assert len(written) == sum(argument.is_written for argument in TABLE[op].arguments), written


@pytest.mark.parametrize("op", sorted(set(TABLE) - IN_BINDING))
def test_the_header_takes_as_many_ids_as_the_table_says(op: str) -> None:
    ids = [parameter for parameter in declared()[op] if "efl_index" in parameter]
    chosen = [argument for argument in TABLE[op].arguments if argument.is_ids and argument.type == "int32"]
    assert len(ids) == len(chosen)


def test_the_header_has_no_kernel_that_the_table_lacks() -> None:
    settings = {"cap_code_products", "cap_isa", "set_threads"}
    assert set(declared()) - settings == set(TABLE) - IN_BINDING


def test_the_page_of_kernels_lists_the_operations() -> None:
    done = subprocess.run([sys.executable, SOURCES.parent / "scripts" / "operations.py", "--check"], check=False)
    assert done.returncode == 0, "docs/kernels.md lists other operations; expected: python scripts/operations.py"
