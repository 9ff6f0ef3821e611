"""The kernels as nvcc made them: PTX that the stand-in runs in place of their sources.

First come the instructions that it knows, one by one, by PTX written here, then what it notices, and then all
operations.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from edgefl.kernels.cuda.driver import DriverError

from . import standin
from .standin.ptx import translated
from .trial import Trial, opened

OPERATIONS = "tests/kernels/test_operations.py"
HEADER = ".version 9.0\n.target sm_80\n.address_size 64\n"
KERNEL = """
.visible .entry {name}(
    .param .align 8 .b8 {name}_param_0[16]
)
.maxntid 32, 1, 1
{{
    .reg .pred %p<4>; .reg .b16 %rs<6>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .reg .f64 %fd<6>;
    .shared .align 16 .b8 held[32];
    .shared .align 4 .u32 counted;
    ld.param.u64 %rd1, [{name}_param_0];
    ld.param.u64 %rd2, [{name}_param_0+8];
    {body}
    ret;
}}
"""


@contextmanager
def built(folder: Path, **bodies: str) -> Iterator[Trial]:
    source = folder / f"{abs(hash(tuple(bodies.items())))}.ptx"
    source.write_text(HEADER + "".join(KERNEL.format(name=name, body=body) for name, body in bodies.items()))
    with opened(standin.built(ptx=str(source))) as trial:
        yield trial


def bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


# ---- instructions ----------------------------------------------------------------------------------------------------

INF, NAN = float("inf"), float("nan")
INTEGERS = [  # what leaves %r1, from a = %r3 and b = %r4
    ("add.s32 %r1, %r3, %r4", 2**31 - 1, 1, 2**31),
    ("sub.s32 %r1, %r3, %r4", 0, 1, 2**32 - 1),
    ("mul.lo.s32 %r1, %r3, %r4", 2**31 - 1, 2, 2**32 - 2),
    ("mul.hi.s32 %r1, %r3, %r4", -(2**31), 4, 2**32 - 2),
    ("mad.lo.s32 %r1, %r3, %r4, 5", -3, 7, 2**32 - 16),
    ("div.s32 %r1, %r3, %r4", -7, 2, 2**32 - 3),
    ("rem.s32 %r1, %r3, %r4", -7, 2, 2**32 - 1),
    ("div.u32 %r1, %r3, %r4", -7, 2, (2**32 - 7) // 2),
    ("rem.u32 %r1, %r3, %r4", -7, 2, 1),
    ("min.s32 %r1, %r3, %r4", -7, 2, 2**32 - 7),
    ("min.u32 %r1, %r3, %r4", -7, 2, 2),
    ("max.s32 %r1, %r3, %r4", -7, 2, 2),
    ("neg.s32 %r1, %r3", 5, 0, 2**32 - 5),
    ("shl.b32 %r1, %r3, %r4", 3, 31, 2**31),
    ("shl.b32 %r1, %r3, %r4", 3, 32, 0),
    ("shr.s32 %r1, %r3, %r4", -8, 1, 2**32 - 4),
    ("shr.s32 %r1, %r3, %r4", -8, 40, 2**32 - 1),
    ("shr.u32 %r1, %r3, %r4", -8, 40, 0),
    ("not.b32 %r1, %r3", 5, 0, 2**32 - 6),
    ("xor.b32 %r1, %r3, %r4", 6, 3, 5),
    ("bfe.u32 %r1, %r3, 8, %r4", 0x12345678, 8, 0x56),
    ("bfe.u32 %r1, %r3, 8, %r4", 0x12345678, 32, 0x123456),
    ("bfi.b32 %r1, %r3, %r4, 4, 8", 0xABC, 0x11111111, 0x11111BC1),
    ("bfi.b32 %r1, %r3, %r4, 0, 32", 0xABC, 0x11111111, 0xABC),
    ("prmt.b32 %r1, %r3, %r4, 30212", 0xDDCCBBAA, 0x44332211, 0x4433AA11),
    ("prmt.b32 %r1, %r3, %r4, 12", 0, 0x80, 0xFF),
    ("mov.b32 {%rs1, %rs2}, %r3; mov.b32 %r1, {%rs2, %rs1}", 0x12345678, 0, 0x56781234),
    ("cvt.u16.u32 %rs1, %r3; cvt.u32.u16 %r1, %rs1", 0x12345678, 0, 0x5678),
    ("setp.lt.s32 %p1, %r3, %r4; selp.u32 %r1, 1, 2, %p1", -1, 1, 1),
    ("setp.lt.u32 %p1, %r3, %r4; selp.u32 %r1, 1, 2, %p1", -1, 1, 2),
    ("setp.ne.s32 %p1, %r3, 0; not.pred %p2, %p1; @!%p2 mov.u32 %r1, 9", 4, 0, 9),
]
LONGS = [  # what leaves %r1 and %r2, low and high, from a = %rd2
    ("mul.wide.s32 %rd4, %r3, -4", -3, 12),
    ("mul.wide.u32 %rd4, %r3, 4", -3, (2**32 - 3) * 4),
    ("cvt.s64.s32 %rd4, %r3", -3, -3),
    ("cvt.u64.u32 %rd4, %r3", -3, 2**32 - 3),
    ("mul.lo.s64 %rd4, %rd2, -5", 2**40, -5 * 2**40),
    ("shr.s64 %rd4, %rd2, 4", -32, -2),
    ("shr.u64 %rd4, %rd2, 60", -1, 15),
    ("div.s64 %rd4, %rd2, 10", -25, -2),
    ("rem.s64 %rd4, %rd2, 10", -25, -5),
    ("popc.b64 %r5, %rd2; cvt.u64.u32 %rd4, %r5", -1, 64),
    ("mov.b64 %fd1, %rd2; cvt.rzi.s64.f64 %rd4, %fd1", int(struct.unpack("<q", struct.pack("<d", -2.5))[0]), -2),
]
FLOATS = [  # what leaves %f1, from a = %f3 and b = %f4
    ("fma.rn.f32 %f1, %f3, %f4, 0fBF800000", 1 + 2**-12, 1 + 2**-12, 2**-11 + 2**-24),
    ("mul.f32 %f1, %f3, %f4", 1 + 2**-12, 1 + 2**-12, 1 + 2**-11),
    ("fma.rm.f32 %f1, %f3, %f4, 0f3F800000", -1.0, 2**-30, 1 - 2**-24),
    ("add.rz.f32 %f1, %f3, %f4", 1.0, 2**-24 + 2**-25, 1.0),
    ("add.f32 %f1, %f3, %f4", 1.0, 2**-24 + 2**-25, 1 + 2**-23),
    ("div.rn.f32 %f1, %f3, %f4", 1.0, 3.0, float(np.float32(1) / np.float32(3))),
    ("sqrt.rn.f32 %f1, %f3", 2.0, 0.0, float(np.sqrt(np.float32(2)))),
    ("rcp.rn.f32 %f1, %f3", 3.0, 0.0, float(np.float32(1) / np.float32(3))),
    ("max.f32 %f1, %f3, %f4", NAN, 2.0, 2.0),
    ("copysign.f32 %f1, %f3, %f4", -0.0, 2.0, -2.0),
    ("abs.f32 %f1, %f3", -0.0, 0.0, 0.0),
    ("neg.f32 %f1, %f3", 0.0, 0.0, -0.0),
    ("ex2.approx.ftz.f32 %f1, %f3", 3.0, 0.0, 8.0),
    ("ex2.approx.ftz.f32 %f1, %f3", -140.0, 0.0, 0.0),
    ("cvt.sat.f32.f32 %f1, %f3", 1.5, 0.0, 1.0),
    ("cvt.sat.f32.f32 %f1, %f3", NAN, 0.0, 0.0),
    ("cvt.rmi.f32.f32 %f1, %f3", -1.5, 0.0, -2.0),
    ("cvt.rzi.s32.f32 %r5, %f3; cvt.rn.f32.s32 %f1, %r5", -1.9, 0.0, -1.0),
    ("cvt.rzi.s32.f32 %r5, %f3; cvt.rn.f32.s32 %f1, %r5", INF, 0.0, 2.0**31),
    ("cvt.f64.f32 %fd1, %f3; fma.rn.f64 %fd2, %fd1, %fd1, %fd1; cvt.rn.f32.f64 %f1, %fd2", 3.0, 0.0, 12.0),
    ("cvt.rna.tf32.f32 %r5, %f3; mov.b32 %f1, %r5", 1 + 2**-11, 0.0, 1 + 2**-10),
]
COMPARED = [  # comparisons with NaN on one side, and whether they hold
    ("eq", False), ("ne", False), ("lt", False), ("ge", False), ("equ", True), ("neu", True), ("ltu", True),
    ("leu", True), ("gtu", True), ("geu", True), ("nan", True), ("num", False),
]  # fmt: skip

MEMORY = """
    { .local .align 8 .b8 depot[16]; mov.u64 %rd4, depot; st.local.v2.u32 [%rd4+8], {3, 4};
    ld.local.u32 %r1, [%rd4+12]; }
    mov.u32 %r3, held; st.shared.u32 [counted], 7; st.shared.v4.u32 [%r3+16], {5, 6, 7, 8}; bar.sync 0;
    ld.shared.v2.u32 {%r4, %r2}, [held+16]; cvt.u64.u32 %rd5, %r3; cvta.shared.u64 %rd6, %rd5;
    ld.u32 %r5, [%rd6+28]; ld.shared.u32 %r6, [counted]; st.global.v4.u32 [%rd1], {%r1, %r2, %r5, %r6};"""
REFUSED = [  # accesses to a block of 32 bytes, where %rd2 is 64
    ("ld.global.v2.u32 {%r1, %r2}, [%rd1+4];", "a load of 8 bytes at .*, which is not aligned"),
    ("st.global.v4.u32 [%rd1+24], {1, 1, 1, 1};", "a store of 16 bytes at .*, which is not the kernel's"),
    ("st.global.u32 [%rd1+32], 1;", "a store of 4 bytes at .*, which is not the kernel's"),
    ("ld.global.u32 %r1, [%rd1+-4];", "a load of 4 bytes at .*, which is not the kernel's"),
    ("ld.shared.u32 %r1, [counted+4];", "a load of 4 bytes at 36, which is not the kernel's"),
    ("ld.shared.v2.u32 {%r1, %r2}, [held+4];", "a load of 8 bytes at 4, which is not aligned"),
    ("ld.u32 %r1, [%rd2];", "a load of 4 bytes at 64, which is not the kernel's"),
]


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """Each row of the tables as a kernel, as compiling one takes a second."""
    long = "cvt.u32.u64 %r3, %rd2; {0}; mov.b64 {{%r1, %r2}}, %rd4"
    float_ = "mov.b64 {{%r3, %r4}}, %rd2; mov.b32 %f3, %r3; mov.b32 %f4, %r4; {0}; mov.b32 %r1, %f1; mov.u32 %r2, 0"
    compare = "mov.b32 %f3, %r3; setp.{0}.f32 %p1, %f3, 0f7FC00000; selp.u32 %r1, 1, 0, %p1; mov.u32 %r2, 0"
    integer = "mov.b64 {{%r3, %r4}}, %rd2; {0}; mov.u32 %r2, 0"
    bodies = {f"integer_{i}": integer.format(row[0]) for i, row in enumerate(INTEGERS)}
    bodies |= {f"long_{i}": long.format(row[0]) for i, row in enumerate(LONGS)}
    bodies |= {f"float_{i}": float_.format(row[0]) for i, row in enumerate(FLOATS)}
    bodies |= {f"compare_{name}": "mov.b64 {%r3, %r4}, %rd2; " + compare.format(name) for name, _ in COMPARED}
    stored = {name: f"{body};\nst.global.v2.u32 [%rd1], {{%r1, %r2}};" for name, body in bodies.items()}
    stored |= {"memory": MEMORY, **{f"refused_{i}": row[0] for i, row in enumerate(REFUSED)}}
    with built(tmp_path_factory.mktemp("ptx"), **stored) as trial:
        yield trial


def left(trial: Trial, kernel: str, low: int, high: int = 0) -> tuple[int, int]:
    block = trial.put(np.zeros(2, np.float32))
    argument = struct.unpack("<q", struct.pack("<II", low % 2**32, high % 2**32))[0]
    trial.run(kernel, block.address, argument, threads=1)
    found = trial.get(block).view(np.uint32)
    return int(found[0]), int(found[1])


@pytest.mark.parametrize("row", range(len(INTEGERS)), ids=lambda i: INTEGERS[i][0])
def test_instruction_on_integers(trial: Trial, row: int) -> None:
    _, a, b, found = INTEGERS[row]
    assert left(trial, f"integer_{row}", a, b)[0] == found


@pytest.mark.parametrize("row", range(len(LONGS)), ids=lambda i: LONGS[i][0])
def test_instruction_on_64_bits(trial: Trial, row: int) -> None:
    _, a, found = LONGS[row]
    assert left(trial, f"long_{row}", a, a >> 32) == (found % 2**32, (found >> 32) % 2**32)


@pytest.mark.parametrize("row", range(len(FLOATS)), ids=lambda i: FLOATS[i][0])
def test_instruction_on_floats(trial: Trial, row: int) -> None:
    _, a, b, found = FLOATS[row]
    assert left(trial, f"float_{row}", bits(a), bits(b))[0] == bits(found)


@pytest.mark.parametrize(("name", "holds"), COMPARED)
def test_comparison_with_nan(trial: Trial, name: str, holds: bool) -> None:
    assert left(trial, f"compare_{name}", bits(1.0))[0] == holds


def test_instruction_that_is_not_known_does_not_compile(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError), built(tmp_path, tried="clz.b32 %r1, %r2;"):
        pass
    assert "op_clz" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("statement", "told"),
    [("ld.volatile.global.u32 %r1, [%rd1];", "ld.volatile.global.u32"), ("add.s32 %r1, %r2, %r3", "add.s32 %r1")],
)
def test_statement_that_is_not_understood_is_named(statement: str, told: str) -> None:
    body = KERNEL.format(name="tried", body="").replace("ret;", statement)
    with pytest.raises(ValueError, match=told):
        translated(HEADER + body)


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_memory_of_each_kind_keeps_what_is_stored(trial: Trial) -> None:
    block = trial.put(np.zeros(4, np.float32))
    trial.run("memory", block.address, 0, threads=1)
    assert trial.get(block).view(np.uint32).tolist() == [4, 6, 8, 7]


@pytest.mark.parametrize("row", range(len(REFUSED)), ids=lambda i: REFUSED[i][0])
def test_access_that_a_device_would_refuse_fails_the_launch(
    trial: Trial, capfd: pytest.CaptureFixture[str], row: int
) -> None:
    block = trial.put(np.zeros(8, np.float32))
    with pytest.raises(DriverError):
        trial.run(f"refused_{row}", block.address, 64, threads=1)
    assert re.search(f"refused_{row}: {REFUSED[row][1]}", capfd.readouterr().err)
    assert not trial.get(block).any()
    trial.run("memory", block.address, 0, threads=1)  # the next launch works


# ---- the kernels -----------------------------------------------------------------------------------------------------


def test_operations_as_nvcc_made_them(tmp_path: Path) -> None:
    if standin.is_real():
        pytest.skip("EDGEFL_LIBCUDA names a real driver")
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    command = ["scripts/cuda_ptx.py", "--targets", "80", "--", "-x", "-k", "cuda", OPERATIONS]
    done = subprocess.run([sys.executable, *command], cwd=standin.ROOT, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert " passed" in done.stdout
