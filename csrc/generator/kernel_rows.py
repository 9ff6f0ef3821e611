"""The rows of dispatch in kernels/PART.h, EFL_KERNEL(name) for every operation with a body, and the list families.h."""

from __future__ import annotations

from .rows import families, functions

PARTS = {
    "linear": ("parameters", "update", "linear", "recurrent", "attention", "sdpa"),
    "norm": ("norm", "rms_norm"),
    "pool": ("pool",),
    "convolution": ("convolution",),
    "sparse": ("sparse_linear",),
    "sparse_convolution": ("sparse_convolution",),
    "int8": ("int8",),
}
WITHOUT_BODY = {"clip_scale", "begin_adam", "count_step"}  # a few numbers, in csrc/api
BESIDE = {"sparse_convolution": ["sparse_conv2d_lanes"]}  # functions that are not operations


def part_of(family: str) -> str:
    """Return the part of an instruction set that has a family. The part `plain` has every family that no other has."""
    return next((part for part, members in PARTS.items() if family in members), "plain")


def parts() -> dict[str, str]:
    found = dict.fromkeys(("plain", *PARTS), "// Generated from edgefl/kernels/table.py.\n")
    for family, rows in families().items():
        names = [f.symbol for row in rows if row.name not in WITHOUT_BODY for f in functions(row)]
        lines = "".join(f"EFL_KERNEL({name})\n" for name in BESIDE.get(family, []) + names)
        found[part_of(family)] += f"\n// {family}\n{lines}"
    return found


def families_text() -> str:
    return "// Generated from edgefl/kernels/table.py.\n" + "".join(f"EFL_FAMILY({family})\n" for family in families())
