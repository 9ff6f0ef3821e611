"""compare_runs.py exact|bound A B: the models of two served runs and their devices, file by file; 1 if they differ.

exact compares every array, and of each device's last reply all but the seconds that it took. bound compares the
servers' models only: instruction sets sum in different orders, which over a few rounds moves a parameter by far less
than BOUND of its largest value.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
from safetensors.numpy import load_file

BOUND = 1e-3
REPLY = "reply"
SERVER, DEVICES = "run/server/*.safetensors", "device-*/local.safetensors"


def main(how: str, a: Path, b: Path) -> int:
    names = [path.relative_to(a) for what in (SERVER, DEVICES)[: 2 if how == "exact" else 1] for path in a.glob(what)]
    if not names:
        raise ValueError(f"{a} has no models; expected some at {SERVER}")
    found = list((_unequal if how == "exact" else _far)(a, b, sorted(names)))
    for line in found:
        print(f"{b.name}: {line}")
    print(f"{b.name} and {a.name}: {len(names)} files, {'DIFFERENT' if found else 'the same'} ({how})")
    return int(bool(found))


def _unequal(a: Path, b: Path, names: list[Path]) -> Iterator[str]:
    for name in names:
        one, other = load_file(a / name), load_file(b / name)
        for key in sorted(one.keys() | other.keys()):
            if key not in one or key not in other or _content(key, one[key]) != _content(key, other[key]):
                yield f"{name}: {key} differs"


def _content(key: str, values: np.ndarray) -> object:
    return msgspec.msgpack.decode(values.tobytes())[:-1] if key == REPLY else (values.shape, values.tobytes())


def _far(a: Path, b: Path, names: list[Path]) -> Iterator[str]:
    for name in names:
        one, other = load_file(a / name), load_file(b / name)
        for key, values in one.items():
            far = float(np.abs(values - other[key]).max() / max(float(np.abs(values).max()), 1e-30))
            if not far <= BOUND:
                yield f"{name}: {key} is {far:.1e} of its largest value away; expected at most {BOUND:g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
