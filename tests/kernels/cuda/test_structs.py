"""The rows of the structs that kernels are given: their C++, what a launch puts in order, and rows that are wrong."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgefl.kernels.cuda.graph_replay
from edgefl.kernels.cuda import launch, structs
from edgefl.kernels.cuda.launch import Ids, KernelArray, PlannedLaunch, Scratch, chosen, struct_values

from ..abi import generator
from . import standin

assert edgefl.kernels.cuda.graph_replay  # its kernel has a row, too
standin.backend()  # imports all files that have rows
ROOM, X = Scratch(64, 8), KernelArray(np.zeros((2, 3, 4), np.float32))
ON_THE_HOST = "#define __CUDACC__\nusing Size = long long;\nusing Byte = unsigned char;\n#include <cstddef>\n"


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[dict[str, str]], None]]:
    """`declare`, whose rows are forgotten after the test."""
    monkeypatch.setattr(structs, "_STRUCTS", dict(structs._STRUCTS))
    monkeypatch.setattr(structs, "_STRUCT_OF_KERNEL", dict(structs._STRUCT_OF_KERNEL))
    yield structs.declare
    structs.members.cache_clear()


def header() -> str:
    text: str = generator().texts()["cuda/arguments.cuh"]
    return text


def paths(name: str, before: str = "") -> Iterator[str]:
    """The fields of 8 bytes of a struct in the order in which a launch gives them, as C++ writes them."""
    for member in structs.members(name):
        if member.is_struct:
            yield from paths(member.type, f"{before}{member.name}.")
        else:
            yield before + member.name


def test_every_kernel_of_the_sources_has_a_row_and_every_row_a_kernel() -> None:
    """A kernel of the sources without a row does not compile."""
    device = standin.backend().DEVICE
    assert [kernel for kernel in structs.kernels() if not device.has(kernel)] == []
    assert len(structs.kernels()) > 100


def test_the_kernels_files_write_no_struct_of_a_row_and_no_arguments_by_hand() -> None:
    for path in sorted((standin.ROOT / "csrc" / "cuda").glob("*.cuh")):
        text = path.read_text()
        assert not re.findall(r"struct \w*Args\b", text), path.name
        assert not re.findall(r"EFL_KERNEL\(\w+(?:##\w+)*, [^()]*(?:\(.*?\))?, \w", text), path.name


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_each_field_of_the_header_lies_where_a_launch_puts_it(tmp_path: Path) -> None:
    lines = [ON_THE_HOST, header()]
    for name in structs.structs():
        lines.append(f"static_assert(sizeof({name}) == {8 * structs.size(name)});")
        places = enumerate(paths(name))
        lines += [f"static_assert(offsetof({name}, {path}) == {8 * at});" for at, path in places]
    source = tmp_path / "structs.cc"
    source.write_text("\n".join(lines))
    subprocess.run(["g++", "-std=c++17", "-fsyntax-only", "-Wno-invalid-offsetof", str(source)], check=True)


def test_the_header_of_rows_by_hand() -> None:
    fields = "    const float* x;\n    float* y;\n    Size count;\n    double alpha;\n"
    assert f"struct elu_forward_args {{\n{fields}}};" in header()
    assert "    const int* list;\n    Size count;\n" in header()
    assert "using add_args = PairArgs;\n" in header()
    assert "using adam_args = Several<update::AdamArgs, 16>;\n" in header()
    assert "using linear_grad_input_wide_tf32_args = linear::ProductArgs;" in header()
    assert "namespace growth {\nstruct Cut;\n}" in header()
    assert "    double lr, beta1, beta2, eps, weight_decay, decoupled, pull;\n" in header()


def test_values_are_put_in_the_order_of_the_row() -> None:
    taken = chosen(None, X)
    planned = launch.launch("elu_backward", 24, alpha=1, batch=2, chosen=taken, dx=X, x=X, dy=X)
    assert planned == PlannedLaunch("elu_backward", (1, 1, 1), 256, (X, X, X, None, 3, 3, 4, 2, 1.0))
    assert isinstance(planned.fields[-1], float)


def add(**changed: Any) -> dict[str, Any]:
    return {name: each for name, each in ({"a": X, "b": X, "y": X, "count": 24} | changed).items() if each != "none"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (add(b="none"), "PairArgs is given a, y, count; expected a, b, y, count"),
        (add(c=X), "PairArgs is given a, b, y, count, c; expected a, b, y, count"),
        (add(b=None), "PairArgs.b is None; expected float[]"),
        (add(b=3), "PairArgs.b is 3; expected float[]"),
        (add(b=KernelArray(np.zeros(3, np.int32))), "PairArgs.b is int32[3]; expected float[]"),
        (add(count=24.0), "PairArgs.count is 24.0; expected int"),
        (add(count=X), "PairArgs.count is float32[2, 3, 4]; expected int"),
        (add(count=Ids(None, 3)), "PairArgs.count is a struct Ids; expected int"),
        (add(a=chosen(None, X)), "PairArgs.a is a struct Chosen; expected float[]"),
    ],
)
def test_other_fields_than_those_of_the_row_are_refused(fields: dict[str, Any], said: str) -> None:
    launch.launch("add", 24, **add())
    with pytest.raises(TypeError, match=re.escape(said)):
        launch.launch("add", 24, **fields)


def test_a_struct_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match=r"take_axes_args\.block is a struct Chosen; expected parameters::BlockOf"):
        launch.launch("take_axes", 1, w=X, values=X, block=chosen(None, X))


def test_words_and_bits_are_of_any_type_of_4_bytes() -> None:
    numbers = KernelArray(np.zeros(3, np.int32))
    launch.launch("take_flat", 3, w=numbers, ids=ROOM, values=X, count=3)
    struct_values("growth::Ranked", magnitudes=X, positions=numbers)
    with pytest.raises(TypeError, match=r"take_flat_args.w is .*; expected word\[\]"):
        launch.launch("take_flat", 3, w=KernelArray(np.zeros(3)), ids=ROOM, values=X, count=3)


def test_an_unknown_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="kernel ad has no row; expected one of absolute_error,"):
        launch.launch("ad", 24, **add())


def test_types_come_from_the_arguments_of_the_operation(declared: Callable[[dict[str, str]], None]) -> None:
    declared({"Trial: trial of prelu_backward": "dy dx channels batch beta:real"})
    found = [(each.name, each.type, each.is_array, each.is_written) for each in structs.members("Trial")]
    assert found[:3] == [("dy", "float", True, False), ("dx", "float", True, True), ("channels", "Ids", False, False)]
    assert found[3:] == [("batch", "int", False, False), ("beta", "real", False, False)]


def test_braces_stand_for_several_kernels(declared: Callable[[dict[str, str]], None]) -> None:
    declared({"Trial: a{,_b}_{c,d}*3 e": "count"})
    assert dict(structs.structs()["Trial"].kernels) == {"a_c": 3, "a_d": 3, "a_b_c": 3, "a_b_d": 3, "e": 1}
    assert (structs.calls_at_once("a_d"), structs.calls_at_once("add")) == (3, 1)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"Trial": "x:float[]", "Trial: b": "y"}, "Trial: b: declared before; expected one row for a struct"),
        ({"Trial: add": "x"}, "Trial: add: declared before; .* one struct for a kernel"),
        ({"Trial, b": "x"}, "row 'Trial, b'; expected 'Struct', 'kernel"),
        ({"Trial": "x:float[2]"}, "Trial: field 'x:float.2.'; expected name:type"),
        ({"Trial": "x:half[]"}, "Trial: field 'x:half..'; expected name:type"),
        ({"Trial": "x:Unknown"}, "Trial: fields of Unknown; expected structs that have a row"),
        ({"Trial": "x y x"}, "Trial: 'x y x' names a field twice"),
        ({"Trial: t of conv2d_forward": "stride"}, "stride: a pair is not a field; expected the name of one of its"),
    ],
)
def test_wrong_rows_are_refused(declared: Callable[[dict[str, str]], None], row: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        declared(row)
        structs.members("Trial")
