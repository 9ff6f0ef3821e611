"""One instruction set for both sides.

Libraries read their caps when they are loaded, so the bench starts itself anew.
"""

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
    """Return the environment variables that cap edgefl and PyTorch at this instruction set."""
    return {OWN: isa} | CAPS[isa]


def start_anew(isa: str, arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
    """Replace this process by `python -m bench ARGUMENTS` under the caps. Return if they are in force already."""
    caps = wanted(isa)
    if any(environment.get(name) != value for name, value in caps.items()):
        command = [sys.executable, "-m", "bench", *arguments]
        os.execve(sys.executable, command, {**environment, **caps})


def in_force(environment: Mapping[str, str] = os.environ) -> str:
    """Return the caps of PyTorch as text for a table's heading, or "none" if there is no cap."""
    return " ".join(f"{name}={environment[name]}" for name in PEERS if name in environment) or "none"
