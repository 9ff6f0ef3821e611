"""csrc/native_build.py compiles what a change reaches and nothing else, on a small tree with a real compiler."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "csrc" / "native_build.py"
SUFFIX = ".test.so"
SOURCES = {  # a tree with a file in each folder that is compiled
    "csrc/shared.h": "#define SHARED 1\n",
    "csrc/api/checks.cc": "int checks() { return 1; }\n",
    "csrc/core/threads.cc": '#include "../shared.h"\nint threads() { return SHARED; }\n',
    "csrc/isa/headers.h": "#define HEADERS 1\n",
    "csrc/isa/scalar_linear.cc": "int body() { return 2; }\n",
    "csrc/isa/avx2_linear.cc": "int fast_body() { return 3; }\n",
    "csrc/python/call.cc": "int call() { return 4; }\n",
    "csrc/python/operations.cc": "int operations() { return 5; }\n",
    "csrc/python/windows.cc": "int windows() { return 6; }\n",
    "csrc/python/values.cc": "int values() { return 10; }\n",
    "csrc/python.cc": "int python() { return 7; }\n",
    "csrc/generate.py": "import pathlib, sys\n"
    "folder = pathlib.Path(sys.argv[1])\n"
    "folder.mkdir(parents=True, exist_ok=True)\n"
    "file = folder / 'api_rows.cc'\n"
    "file.exists() or file.write_text('int rows() { return 8; }')\n",
}


@pytest.fixture(scope="module")
def native_build() -> ModuleType:
    found = importlib.util.spec_from_file_location("native_build", SCRIPT)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["native_build"] = module  # where dataclasses look for it
    found.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    for name in ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CXX"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def built(native_build: ModuleType) -> set[str]:
    """Build, and return the names of the objects and libraries that changed."""
    places = native_build.Places("build/objects", "build/lib", SUFFIX)

    def times() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in Path("build").rglob("*") if path.suffix in (".o", ".so")}

    before = times()
    native_build.generate()
    native_build.build(native_build.Compiler.of_environment([]), places)
    return {name for name, time in times().items() if before.get(name) != time}


needs_compiler = pytest.mark.skipif(
    shutil.which("c++") is None or (shutil.which("ninja") is None and importlib.util.find_spec("ninja") is None),
    reason="no C++ compiler, or no ninja",
)


@needs_compiler
def test_a_build_compiles_what_a_change_reaches(native_build: ModuleType, tree: Path) -> None:
    library = {"units_core.o", "csrc_isa_avx2_linear.o", "csrc_isa_scalar_linear.o", "units_api.o"}
    module = {f"units_binding{SUFFIX}.o", f"units_module{SUFFIX}.o"}
    libraries = {"libedgefl.so", f"_core{SUFFIX}"}
    assert built(native_build) == library | module | libraries
    assert built(native_build) == set()
    (tree / "csrc/shared.h").write_text("#define SHARED 2\n")
    assert built(native_build) == {"units_core.o"} | libraries
    (tree / "csrc/python/windows.cc").write_text("int windows() { return 9; }\n")
    assert built(native_build) == {f"units_binding{SUFFIX}.o", f"_core{SUFFIX}"}
    (tree / "csrc/isa/headers.h").write_text("#define HEADERS 2\n")
    if native_build.is_gcc(native_build.Compiler.of_environment([])):
        assert built(native_build) == {"csrc_isa_avx2_linear.o", "csrc_isa_scalar_linear.o"} | libraries


@needs_compiler
def test_an_error_of_the_compiler_is_passed_on(native_build: ModuleType, tree: Path) -> None:
    (tree / "csrc/core/threads.cc").write_text("int threads() { return absent; }\n")
    with pytest.raises(subprocess.CalledProcessError) as error:
        built(native_build)
    assert "absent" in error.value.stdout


@needs_compiler
def test_a_build_that_fails_leaves_no_library_of_before(native_build: ModuleType, tree: Path) -> None:
    built(native_build)
    (tree / "csrc/python/windows.cc").write_text("int windows() { return absent; }\n")
    with pytest.raises(subprocess.CalledProcessError):
        built(native_build)
    assert not list(Path("build/lib").glob("*.so"))


def test_bodies_are_compiled_as_the_header_that_they_share_is(native_build: ModuleType, tree: Path) -> None:
    levels = {
        "csrc/isa/avx2_linear.cc": native_build.BODIES,
        "csrc/isa/scalar_linear.cc": native_build.BODIES,
        "csrc/core/sparse_linear.cc": ["-O2"],
    }
    assert {source: native_build.optimisation(source, gcc=True) for source in levels} == levels
    assert native_build.optimisation("csrc/isa/neon_plain.cc", gcc=False) == ["-O3"]
    compiler = native_build.Compiler.of_environment([])
    if not native_build.is_gcc(compiler):
        return
    text = native_build.ninja_file(compiler, native_build.Places("build/objects", "build/lib", SUFFIX))
    assert text.count("max-inline-insns-auto=30") == 3  # the header and two bodies


def test_the_environment_names_the_compiler_and_its_words(
    native_build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "zig c++ -target aarch64-linux-gnu")
    monkeypatch.setenv("CPPFLAGS", "-Ipython")
    monkeypatch.setenv("CFLAGS", "-include mutant.h")
    monkeypatch.setenv("CXXFLAGS", "-include mutant.h")
    monkeypatch.setenv("LDFLAGS", "-Lhere")
    found = native_build.Compiler.of_environment(["headers"])
    assert list(found.command) == ["zig", "c++", "-target", "aarch64-linux-gnu"]
    assert list(found.flags) == ["-include", "mutant.h"]
    assert list(found.module) == ["-Ipython", "-isystemheaders"]
    assert list(found.link) == ["-Lhere"]


def test_a_small_board_runs_one_compiler_at_a_time(native_build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"SC_PHYS_PAGES": (1 << 30) // 4096 - 10000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert native_build.jobs() == 1


def test_code_for_avx_ends_with_vzeroupper() -> None:
    """Without it each call pays for the upper halves of the registers. GCC leaves it out if a pass is switched off."""
    library = SCRIPT.parent.parent / "edgefl" / "libedgefl.so"
    if platform.machine() != "x86_64" or not library.is_file():
        pytest.skip("no library for x86-64 was built")
    assert library.read_bytes().count(bytes.fromhex("c5f877")) > 1000
