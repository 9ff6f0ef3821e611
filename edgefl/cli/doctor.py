"""`edgefl doctor` describes this installation: kernels, instruction set, threads, versions, source of energy readings
and data directories.

The command changes nothing.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import warnings
from collections import Counter
from types import ModuleType
from typing import Any

from edgefl import kernels
from edgefl.cli import energy_messages
from edgefl.cli.working import working
from edgefl.errors import BackendError
from edgefl.experiment.data.locate import roots
from edgefl.experiment.settings import processors
from edgefl.learning.energy.source_detection import ROOT

OPTIONAL = ("numba", "torch", "matplotlib", "cffi")
COMPILER = (
    "the native kernels need g++ 8 or clang 10 when edgefl is installed (Debian, Ubuntu: apt install g++; Fedora: dnf "
    "install gcc-c++; macOS: xcode-select --install); then, in its sources: pip install --force-reinstall --no-deps ."
)
VARIABLES = ("EDGEFL_KERNELS", "EDGEFL_ISA", "EDGEFL_NUM_THREADS", "EDGEFL_DATA", ROOT)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no options, because the command has only the options of the output."""


def run(options: argparse.Namespace) -> int:
    """Print the findings. Return 1 where the native kernels are absent although the user asked for no other kernels."""
    with working("looking at kernels, packages and energy"):
        found = examine()
    print(json.dumps(found, indent=1) if options.json else describe(found))
    return 0 if found["backend"] == "native" or is_asked_for(found["backend"]) else 1


def is_asked_for(backend: str | None) -> bool:
    """Return whether the variable EDGEFL_KERNELS names this backend."""
    return backend is not None and os.environ.get("EDGEFL_KERNELS") == backend


def examine() -> dict[str, Any]:
    """Return the findings as JSON values. `backend` is None if no kernels can be loaded, and `reason` says why."""
    return {
        **_kernels(),
        "cuda": _cuda(),
        "versions": {name: _version(name) for name in ("edgefl", "numpy", "safetensors", "rich", *OPTIONAL)},
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processors": processors(),
        "energy": energy_messages.found(),
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "data_directories": [{"path": str(root), "exists": root.is_dir()} for root in roots(None)],
    }


def describe(found: dict[str, Any]) -> str:
    """Return the findings as text, one per line."""
    versions = ", ".join(f"{name} {version or 'absent'}" for name, version in found["versions"].items())
    lines = [
        f"kernels       {found['backend'] or 'none'}",
        *([f"compiler      {found['compiler']}"] if found.get("compiler") else []),
        *([f"reason        {found['reason']}"] if found["reason"] else []),
        *([f"advice        {COMPILER}"] if found["backend"] != "native" and not is_asked_for(found["backend"]) else []),
        *([f"instructions  {found['isa']} (available: {', '.join(found['isas'])})"] if found["isa"] else []),
        *([f"int8 products {found['int8_products']}"] if found.get("int8_products") else []),
        *([f"threads       {found['threads']}"] if found["threads"] else []),
        *([f"cores         {describe_cores(found['cores'])}"] if found.get("cores") else []),
        f"cuda          {found['cuda']}",
        f"processors    {found['processors']} ({found['machine']})",
        f"python        {found['python']}",
        f"packages      {versions}",
        *(f"energy        {line}" for line in energy_messages.lines(found["energy"])),
        *(f"environment   {name}={value}" for name, value in found["environment"].items()),
        *(f"data          {d['path']}{'' if d['exists'] else ' (absent)'}" for d in found["data_directories"]),
    ]
    return "\n".join(lines)


def _kernels() -> dict[str, Any]:
    """Return the backend that would be used, and the reason where it is not the native backend."""
    nothing: dict[str, Any] = {"backend": None, "reason": None, "isa": None, "isas": [], "threads": None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            ops = kernels.backend()
        except BackendError as error:
            return {**nothing, "reason": str(error)}
    name = kernels.name_of(ops)
    reason = str(caught[0].message) if caught else None
    if name != "native":
        return {**nothing, "backend": name, "reason": reason or f"EDGEFL_KERNELS={os.environ.get('EDGEFL_KERNELS')}"}
    isas = [isa for isa in kernels.ISAS if ops.has_isa(isa)]
    found = {"backend": name, "reason": None, "isa": ops.isa(), "isas": isas, "threads": ops.threads()}
    found |= {"compiler": ops.compiler().strip(), "int8_products": ops.code_products()}
    return {**found, "cores": cores(ops)}


def _cuda() -> str:
    """Return the device that --backend cuda would use and whether it has TF32, or the reason why there is no device."""
    try:
        device = kernels.backend("cuda").DEVICE
    except BackendError as error:
        return f"none ({error.__cause__})"
    try:
        kernels.backend("cuda-tf32")
    except BackendError:
        return f"{device.described}, no TF32"
    return f"{device.described}, TF32 with cuda-tf32"


def cores(ops: ModuleType, sys_folder: str = "/sys") -> dict[str, Any] | None:
    """Return the kinds of the processors that may be used, by name, and the processors that threads are meant for.
    Return None where the kinds are unknown.
    """
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    preferred = ops.preferred_cores(sys_folder, allowed)
    names = [ops.core_name(ops.core_id(sys_folder, core) or ops.core_id()) for core in allowed]
    if preferred == allowed and not any(names):
        return None
    kinds = Counter(name or "unknown" for name in names)
    return {"kinds": dict(kinds), "preferred": preferred, "in_order": ops.in_order()}


def describe_cores(found: dict[str, Any]) -> str:
    """Return the result of `cores` in one line."""
    kinds = ", ".join(f"{count} {name}" for name, count in found["kinds"].items())
    body = "in order" if found["in_order"] else "out of order"
    meant = ", ".join(str(core) for core in found["preferred"])
    return f"{kinds}; threads are meant for {meant}; inner products for cores {body}"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "from source" if package == "edgefl" and "edgefl" in sys.modules else None
