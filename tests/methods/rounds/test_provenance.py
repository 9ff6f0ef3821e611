"""The provenance of a run: its text, and what is said where a run had several provenances."""

from __future__ import annotations

import pytest

from edgefl import __version__, kernels
from edgefl.methods.rounds.provenance import other_provenances, provenance

COMMIT = "3e7ad57212"
HERE = f"edgefl {__version__}+{COMMIT} reference"


@pytest.fixture(autouse=True)
def on_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEFL_KERNELS", "reference")
    monkeypatch.setattr("edgefl.methods.rounds.provenance.build", lambda: f"{__version__}+{COMMIT}")


def test_a_provenance_is_version_and_backend() -> None:
    assert provenance() == HERE


def test_the_native_backend_names_its_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    native = pytest.importorskip("edgefl.kernels.native", reason="the native extension was not built")
    monkeypatch.setattr(kernels, "backend", lambda: native)
    assert provenance() == f"edgefl {__version__}+{COMMIT} native-{native.isa()}"


def test_equal_provenances_need_no_word() -> None:
    assert other_provenances([]) is None
    assert other_provenances([HERE, HERE]) is None


@pytest.mark.parametrize(
    ("made", "how"),
    [
        (f"edgefl {__version__} native-avx2", "EDGEFL_ISA=avx2 gives equal results"),
        (f"edgefl {__version__} numba", "EDGEFL_KERNELS=numba gives equal results"),
        (f"edgefl {__version__}+0123456789 numba", "EDGEFL_KERNELS=numba gives equal results"),
        ("edgefl 0.0.1+0123456789 numba", "EDGEFL_KERNELS=numba with edgefl 0.0.1+0123456789 gives equal results"),
        (f"edgefl {__version__} cuda", "EDGEFL_KERNELS=cuda gives equal results"),
        (f"edgefl {__version__} cuda-tf32-sm_87", "EDGEFL_KERNELS=cuda-tf32 with a GPU of sm_87 gives equal results"),
        ("edgefl 0.0.1 native-avx512", "EDGEFL_ISA=avx512 with edgefl 0.0.1 gives equal results"),
    ],
)
def test_another_provenance_is_named_with_how_to_get_the_same(made: str, how: str) -> None:
    assert other_provenances([HERE, made]) == (
        f"made by {made}; this is {HERE}: results differ in their last bits; {how}"
    )


@pytest.mark.parametrize(
    "made",
    [
        [f"edgefl {__version__} reference"],
        [f"edgefl {__version__}+0123456789 reference"],
        [f"edgefl {__version__} reference", f"edgefl {__version__}+0123456789.dirty reference"],
    ],
)
def test_another_build_of_the_version_is_named_and_no_other_kernels(made: list[str]) -> None:
    assert other_provenances([*made, HERE]) == (
        f"made by {' and by '.join(sorted(made))}; this is {HERE}, another build of this version: results may"
        " differ in their last bits"
    )


def test_of_several_other_provenances_none_can_be_followed() -> None:
    others = [f"edgefl {__version__} native-avx2", f"edgefl {__version__} native-scalar"]
    assert other_provenances(others) == (
        f"made by {others[0]} and by {others[1]}; this is {HERE}: results differ in their last bits"
    )


@pytest.mark.parametrize(("made", "told"), [("edgefl 0.1.0", "edgefl 0.1.0"), ("a\x1b[2Jb", r"a\x1b[2Jb")])
def test_a_text_that_names_no_kernels_is_told_without_advice_or_control_characters(made: str, told: str) -> None:
    assert other_provenances([made]) == f"made by {told}; this is {HERE}: results differ in their last bits"
