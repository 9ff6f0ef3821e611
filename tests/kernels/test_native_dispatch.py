"""The instruction set and the backend that are used, and the ways to choose them."""

import os
import subprocess
import sys

import pytest

from edgefl.kernels import ISAS

native = pytest.importorskip("edgefl.kernels.native", reason="the native extension was not built (no C++ compiler)")


def python(code, **environment):
    """Run `code` in a fresh interpreter."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("EDGEFL_")} | environment
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)


def best(cap=ISAS[-1]):
    return [name for name in ISAS[: ISAS.index(cap) + 1] if native.has_isa(name)][-1]


@pytest.fixture
def restored():
    yield
    native.cap_isa(best())


def test_scalar_runs_everywhere():
    assert native.has_isa("scalar")


@pytest.mark.parametrize("cap", ISAS)
def test_environment_caps_the_ladder(cap):
    ran = python("from edgefl.kernels import native; print(native.isa())", EDGEFL_ISA=cap)
    assert ran.stdout.strip() == best(cap)


def test_without_a_cap_the_best_is_used():
    assert python("from edgefl.kernels import native; print(native.isa())").stdout.strip() == best()


@pytest.mark.parametrize("name", ISAS)
def test_cap_isa_switches(name, restored):
    if not native.has_isa(name):
        with pytest.raises(ValueError, match=name):
            native.cap_isa(name)
        return
    native.cap_isa(name)
    assert native.isa() == name


def test_unknown_isa_is_refused_by_name():
    assert not native.has_isa("avx3")
    with pytest.raises(ValueError, match=r"cap_isa: name has value 'avx3'"):
        native.cap_isa("avx3")


def test_unknown_isa_in_the_environment_is_refused():
    ran = python("from edgefl.kernels import backend; backend()", EDGEFL_ISA="avx3")
    assert f"BackendError: EDGEFL_ISA=avx3; expected one of {', '.join(ISAS)}" in ran.stderr


def test_unknown_backend_is_refused():
    ran = python("from edgefl.kernels import backend; backend()", EDGEFL_KERNELS="cuda9")
    assert "BackendError: EDGEFL_KERNELS=cuda9; expected one of native, numba, reference" in ran.stderr


MISSING = "import sys; sys.modules['edgefl._core'] = None; from edgefl.kernels import backend; "


def test_named_backend_that_is_missing_never_falls_back():
    ran = python(MISSING + "backend()", EDGEFL_KERNELS="native")
    assert ran.returncode != 0
    assert "BackendError: EDGEFL_KERNELS=native cannot be loaded" in ran.stderr


def test_default_falls_back_once_and_says_why():
    ran = python(MISSING + "sys.modules['numba'] = None; print(backend().__name__); backend()")
    assert ran.stdout.strip() == "edgefl.kernels.reference"
    assert ran.stderr.count("RuntimeWarning: edgefl uses the reference kernels (native:") == 1


def test_threads_come_from_the_environment():
    code = "from edgefl.kernels import native; print(native.threads())"
    assert python(code, EDGEFL_NUM_THREADS="3").stdout.strip() == "3"


@pytest.mark.parametrize("threads", ["0", "two", "-1", "1025"])
def test_a_number_of_threads_that_is_none_is_refused(threads):
    ran = python("from edgefl.kernels import backend; backend()", EDGEFL_NUM_THREADS=threads)
    assert f"BackendError: EDGEFL_NUM_THREADS={threads}; expected 1 to 1024" in ran.stderr
