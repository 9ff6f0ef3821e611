"""compare_runs.py exact|bound A B: the models of two served runs and their devices, file by file. 1 if they differ.

exact compares every array, and of each device's last reply all but the seconds that it took. bound compares the
servers' models only, because instruction sets sum in different orders. After one round this has moved no parameter by
4e-6 of its largest value. After two rounds, x86's own AVX2 and AVX-512 were .011 apart, and so were NEON and AVX-512,
but AVX2 and NEON 4e-6. Where a sum of almost nothing takes the other side of zero, the steps after it enlarge the
difference.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
from safetensors.numpy import load_file

BOUND = 0.05
REPLY = "reply"


def main(how: str, a: Path, b: Path) -> int:
    files = [_files(folder, devices=how == "exact") for folder in (a, b)]
    if files[0].keys() != files[1].keys():
        raise ValueError(f"{a} has models {sorted(files[0])}, {b} {sorted(files[1])}; expected the same")
    pairs = {name: (load_file(path), load_file(files[1][name])) for name, path in sorted(files[0].items())}
    found = list((_unequal if how == "exact" else _far)(pairs))
    for line in found:
        print(f"{b.name}: {line}")
    print(f"{b.name} and {a.name}: {len(pairs)} files, {'DIFFERENT' if found else 'the same'} ({how})")
    return int(bool(found))


def _files(folder: Path, devices: bool) -> dict[str, Path]:
    """Return the server's models by name, and each device's own model. A run's folder on a device has a name of its
    own.
    """
    found = {path.name: path for path in folder.glob("run/server/*.safetensors")}
    if not found:
        raise ValueError(f"{folder} has no models; expected some at run/server/*.safetensors")
    for device in sorted(folder.glob("device-?")) if devices else ():
        (found[device.name],) = device.glob("runs/*/local.safetensors")
    return found


Pairs = dict[str, tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]


def _unequal(pairs: Pairs) -> Iterator[str]:
    for name, (one, other) in pairs.items():
        for key in sorted(one.keys() | other.keys()):
            if key not in one or key not in other or _content(key, one[key]) != _content(key, other[key]):
                yield f"{name}: {key} differs"


def _content(key: str, values: np.ndarray) -> object:
    return msgspec.msgpack.decode(values.tobytes())[:-1] if key == REPLY else (values.shape, values.tobytes())


def _far(pairs: Pairs) -> Iterator[str]:
    for name, (one, other) in pairs.items():
        far = {
            key: float(np.abs(values - other[key]).max() / max(float(np.abs(values).max()), 1e-30))
            for key, values in one.items()
        }
        worst = max(far, key=far.__getitem__)
        print(f"{name}: at most {far[worst]:.1e} of a parameter's largest value apart, {worst}")
        if not far[worst] <= BOUND:
            yield f"{name}: {worst} is {far[worst]:.1e} of its largest value away; expected at most {BOUND:g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
