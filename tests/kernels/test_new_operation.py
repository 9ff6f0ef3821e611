"""An operation is added to a copy of the sources, from a row and bodies alone, and runs on every backend there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLAGS = ["-std=c++2a", "-O0", "-fPIC", "-pthread", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno"]

ROW = """        Signature(
            "clamp",
            "x[B,C,*] low:real high:real y[B,C,*]!x channels<C",
            "y = min(max(x, low), high) of the channels",
            rules=("low: low <= high: a number that high is not below",),
            c=InC("x B C inner low high needed=channels y"),
            cuda="x y chosen:Chosen batch low high",
        ),
"""
REFERENCE = '''

def clamp(x: Array, low: float, high: float, y: Array, channels: Index) -> None:
    """y[:, channels] = min(max(x, low), high)."""
    chosen = all_or(channels, x.shape[1])
    y[:, chosen] = np.clip(x, x.dtype.type(low), x.dtype.type(high))[:, chosen]
'''
BODY = """
static efl_status clamp_f32(const float* x, efl_int64 batch, efl_int64 channels, efl_int64 inner, float low, float high,
                            efl_index chosen, float* y) {
    const int64_t count = count_of(chosen, channels);
    split(batch * count, inner, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t at = (i / count * channels + id_of(chosen, i % count)) * inner;
            for (int64_t k = at; k < at + inner; ++k) y[k] = x[k] < low ? low : x[k] > high ? high : x[k];
        }
    });
    return EFL_OK;
}
"""
CUDA = """
EFL_KERNEL(clamp, 256) {
    const float low = float(a.low), high = float(a.high);
    each_position(a.batch * a.chosen.channels.count * a.chosen.inner, [&](int i) {
        const int at = position_of(a.chosen, i).at;
        a.y[at] = a.x[at] < low ? low : a.x[at] > high ? high : a.x[at];
    });
}
"""
ADDED = {
    "edgefl/kernels/reference/elementwise.py": REFERENCE,
    "csrc/kernels/elementwise.inl.h": BODY,
    "csrc/cuda/elementwise.cuh": CUDA,
}
PROGRAM = """
import sys
import numpy as np
from edgefl import kernels

name, _, isa = sys.argv[1].partition("-")
backend = kernels.backend(name)
if isa:
    backend.cap_isa(isa)
x = np.arange(-12, 12, dtype=np.float32).reshape(2, 3, 4)
y, channels = np.full_like(x, 7), np.array([0, 2], np.int32)
backend.clamp(x, -2.5, 4.0, y, channels)
expected = np.clip(x, np.float32(-2.5), np.float32(4))
expected[:, 1] = 7
assert (y == expected).all(), y
for wrong in ((x, 2.0, 1.0, y, None), (x, 0.0, 1.0, y[:1], None), (x, 0.0, 1.0, y, np.array([3], np.int32))):
    try:
        backend.clamp(*wrong)
    except ValueError as error:
        print(error)
    else:
        raise AssertionError(wrong[1:])
print(backend.clamp.__doc__)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources with the operation, and the libraries made of them."""
    tree = tmp_path_factory.mktemp("copy")
    unwanted = shutil.ignore_patterns("__pycache__", "*.so")
    for folder in ("csrc", "edgefl", "tests"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=unwanted, symlinks=True)
    table = tree / "edgefl/kernels/table.py"
    before, mark, after = table.read_text().partition('        Signature(\n            "channel_dot"')
    assert mark
    table.write_text(before + ROW + mark + after)
    for file, text in ADDED.items():
        (tree / file).write_text((tree / file).read_text() + text)
    (tree / "run.py").write_text(PROGRAM)
    build(tree)
    return tree


def build(tree: Path) -> None:
    """Without optimisation: what is made runs once."""
    pybind11 = pytest.importorskip("pybind11", reason="pybind11 builds the native kernels")
    subprocess.run([sys.executable, "csrc/generate.py", "generated"], cwd=tree, check=True)
    native = [source for folder in ("api", "core", "isa") for source in tree.glob(f"csrc/{folder}/*.cc")]
    native += tree.glob("generated/api_*.cc")
    binding = [tree / "csrc/python.cc", *tree.glob("csrc/python/*.cc"), *tree.glob("generated/binding_*.cc")]
    python = [f"-I{pybind11.get_include()}", f"-I{sysconfig.get_path('include')}"]

    def compiled(source: Path) -> str:
        made = str(tree / "generated" / f"{source.parent.name}_{source.stem}.o")
        more = python if source in binding else []
        subprocess.run(["c++", *FLAGS, "-Igenerated", "-Icsrc", *more, "-c", source, "-o", made], cwd=tree, check=True)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compiled, [*native, *binding]))
    libraries = tree / "edgefl"
    link = ["c++", "-shared", "-pthread"]
    subprocess.run([*link, *objects[: len(native)], "-o", libraries / "libedgefl.so"], check=True)
    core = libraries / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    more = [f"-L{libraries}", "-ledgefl", "-Wl,-rpath,$ORIGIN", "-o", core]
    subprocess.run([*link, *objects[len(native) :], *more], check=True)


def run(tree: Path, backend: str, **more: str) -> list[str]:
    environment = os.environ | {"PYTHONPATH": str(tree)} | more
    command = [sys.executable, "run.py", backend]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
@pytest.mark.parametrize("backend", ["reference", "numba", "native", "cuda"])
def test_an_operation_of_a_row_and_bodies_runs_on_every_backend(copy: Path, backend: str) -> None:
    names, more = [backend], {}
    if backend == "native":
        listed = [sys.executable, "-c", "from edgefl.kernels import ISAS, native; print(*filter(native.has_isa, ISAS))"]
        found = subprocess.run(
            listed, cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)}, capture_output=True, text=True
        )
        names = [f"native-{isa}" for isa in found.stdout.split()]
        assert "native-scalar" in names, found.stderr
    if backend == "cuda":
        program = "from tests.kernels.cuda import standin; print(standin.built())"
        made = subprocess.run([sys.executable, "-c", program], cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)},
                              capture_output=True, text=True, check=True)  # fmt: skip
        more = dict.fromkeys(("EDGEFL_LIBCUDA", "EDGEFL_CUDA_KERNELS"), made.stdout.strip())
    for name in names:
        low, shape, ids, *documentation = run(copy, name, **more)
        assert "low" in low and "a number that high is not below" in low
        assert "y" in shape
        assert "channels" in ids
        assert "clamp" in "".join(documentation) or "min(max(x, low), high)" in "".join(documentation)
