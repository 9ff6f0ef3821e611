"""One instruction set for both sides. Libraries read their caps when they are loaded: the bench starts itself anew."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

CAPS: dict[str, dict[str, str]] = {
    "scalar": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "avx512": {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "ALL", "MKL_ENABLE_INSTRUCTIONS": "AVX512"},
}
OWN = "EDGEFL_ISA"
PEERS = tuple(CAPS["avx2"])


def wanted(isa: str) -> dict[str, str]:
    """The variables of the environment that cap edgefl and PyTorch at this instruction set."""
    return {OWN: isa} | CAPS[isa]


def start_anew(isa: str, arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
    """Replaces this process by `python -m bench ARGUMENTS` under the caps; returns if they are in force."""
    caps = wanted(isa)
    if any(environment.get(name) != value for name, value in caps.items()):
        command = [sys.executable, "-m", "bench", *arguments]
        os.execve(sys.executable, command, {**environment, **caps})


def in_force(environment: Mapping[str, str] = os.environ) -> str:
    """What caps PyTorch, as a word of a table's heading; "none" if nothing does."""
    return " ".join(f"{name}={environment[name]}" for name in PEERS if name in environment) or "none"
