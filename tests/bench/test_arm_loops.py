"""Finding inner loops in a compiler's assembly, and what is said where tools are missing."""

from __future__ import annotations

import pytest

from bench.arm import mca

ASSEMBLY = """
first:                                  // @first
	mov	x0, #4
.LBB0_1:                                // a short loop
	fmla	v0.4s, v1.4s, v2.s[0]
	subs	x0, x0, #1
	b.ne	.LBB0_1
.LBB0_2:
	ldr	q1, [x1], #16
	fmla	v0.4s, v1.4s, v2.s[0]           // with a remark
	fmla	v3.4s, v1.4s, v2.s[1]
	cbnz	x1, .LBB0_2
	b.eq	.LBB0_1
	ret
.Lfunc_end0:
	.size	first, .Lfunc_end0-first
second:
	ret
.Lfunc_end1:
"""


def test_the_loop_with_most_fmla_is_found() -> None:
    found = dict(mca.functions(ASSEMBLY))
    assert list(found) == ["first", "second"]
    loop = mca.innermost(found["first"])
    assert [line.split()[0] for line in loop] == ["ldr", "fmla", "fmla", "cbnz"]
    assert mca.fmlas(loop) == 2
    assert mca.innermost(found["second"]) == []


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(mca.shutil, "which", lambda name: None)
    assert mca.main([]) == 1
    assert "no llvm-mca on the PATH" in capsys.readouterr().err
    monkeypatch.setattr(mca, "find_spec", lambda name: None)
    with pytest.raises(mca.MissingToolError, match=r"clang\+\+ on the PATH or the Python package ziglang"):
        mca.compiler()


def test_rows_give_shares_of_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mca, "cycles", lambda lines, core: 24.0 if len(lines) == 24 else 4.0)
    (row,) = mca.rows(ASSEMBLY, ["core"])
    assert (row.loop, row.fmla, row.instructions, row.cycles, row.share) == ("first", 2, 4, 4.0, 0.5)
