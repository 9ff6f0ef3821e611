"""The processors that threads are meant for, from files in place of /sys. Cores in order get equal bits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from edgefl.kernels.table import TABLE

from .calls import each, run
from .cases import Case, adversarial, large

A53, A55, A72, A76, FOREIGN = 0x410FD034, 0x412FD050, 0x410FD083, 0x414FD0B1, 0x481FD010


def system(root: Path, cores: Sequence[tuple[int | None, int | None]]) -> str:
    """A folder like /sys with a processor for each (MIDR_EL1, cpu_capacity), either of them absent if None."""
    for number, (identity, capacity) in enumerate(cores):
        folder = root / f"devices/system/cpu/cpu{number}"
        (folder / "regs/identification").mkdir(parents=True)
        if identity is not None:
            (folder / "regs/identification/midr_el1").write_text(f"0x{identity:016x}\n")
        if capacity is not None:
            (folder / "cpu_capacity").write_text(f"{capacity}\n")
    return str(root)


def test_threads_are_meant_for_cores_of_half_the_largest_capacity_or_more(native: ModuleType, tmp_path: Path) -> None:
    cases: dict[str, tuple[Sequence[tuple[int | None, int | None]], list[int]]] = {
        "four alike": ([(A72, 1024)] * 4, [0, 1, 2, 3]),
        "four little, two big": ([(A53, 485)] * 4 + [(A72, 1024)] * 2, [4, 5]),
        "half is enough": ([(A55, 511), (A55, 512), (A76, 1024)], [1, 2]),
        "little ones alone": ([(A53, 400)] * 4, [0, 1, 2, 3]),
        "ids where a capacity is absent": ([(A53, None), (A53, 485), (A72, None), (A72, 1024)], [2, 3]),
        "an unknown id stays": ([(A53, None), (FOREIGN, None)], [1]),
        "in order alone, by id": ([(A53, None)] * 2, [0, 1]),
        "nothing is said": ([(None, None)] * 3, [0, 1, 2]),
    }
    for name, (cores, expected) in cases.items():
        sys = system(tmp_path / name, cores)
        assert native.preferred_cores(sys, list(range(len(cores)))) == expected, name
    sys = str(tmp_path / "four little, two big")
    assert native.preferred_cores(sys, [0, 1, 2]) == [0, 1, 2]  # the processors that may be used
    assert native.preferred_cores(sys, [1, 5]) == [5]
    assert native.preferred_cores(sys, []) == []


def test_cores_have_names(native: ModuleType, tmp_path: Path) -> None:
    sys = system(tmp_path, [(A53, None), (FOREIGN, None), (None, None)])
    ids = [native.core_id(sys, core) for core in range(4)]
    assert ids == [A53, FOREIGN, 0, 0]
    assert [native.core_name(each) for each in (*ids, A76)] == ["Cortex-A53", None, None, None, "Cortex-A76"]


PRODUCTS = [
    op for op in TABLE if "conv2d" in op or "linear" in op or op.startswith(("gru", "lstm", "rnn", "attention"))
]


@pytest.mark.parametrize("op", PRODUCTS)
def test_both_bodies_give_the_same_bits(native: ModuleType, op: str) -> None:
    before = native.in_order()

    def check(case: Case) -> None:
        results = []
        for in_order in (False, True):
            native.set_in_order(in_order)
            args = run(native, op, case.args())
            results.append({name: value.tobytes() for name, value in args.items() if isinstance(value, np.ndarray)})
        assert results[0] == results[1]

    try:
        each((case, lambda case=case: check(case)) for case in [*adversarial(op), *large(op)])
    finally:
        native.set_in_order(before)
