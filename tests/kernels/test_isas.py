"""The instruction sets that this run tests. A skip here names an instruction set that the machine lacks."""

from __future__ import annotations

from types import ModuleType

import pytest

from edgefl.kernels import ISAS


@pytest.mark.parametrize("isa", ISAS)
def test_isa_can_be_chosen(native: ModuleType, isa: str) -> None:
    if not native.has_isa(isa):
        pytest.skip(f"this machine or this build lacks {isa}: its kernels are not tested here")
    before = native.isa()
    native.cap_isa(isa)
    chosen = native.isa()
    native.cap_isa(before)
    assert chosen == isa


def test_unknown_isa_is_refused(native: ModuleType) -> None:
    with pytest.raises(ValueError, match="mmx"):
        native.cap_isa("mmx")
