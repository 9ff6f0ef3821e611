"""python -m bench.arm.resident [MODEL]: megabytes that a process which trains it holds, without those of an emulator.

Under qemu VmRSS is mostly the emulator's: its own program and the code that it has translated. /proc/self/maps, which
it answers itself, names what the guest has mapped; the kernel says which pages of that are resident. Without an
emulator both figures are the same. Runs where edgefl's device dependencies are all there is.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

BATCH, STEPS, SEED = 16, 20, 1
MB = 1e6
ENTRY = 8  # bytes of a page's in pagemap
RESIDENT = 1 << 63
USERS = 1 << 47  # addresses from here on are the kernel's


def resident_bytes() -> int:
    """Of the pages that this process has mapped, as it sees itself."""
    with Path("/proc/self/pagemap").open("rb") as pages:
        return sum(_present(pages.read(_at(pages, first, last))) for first, last in _mapped()) * mmap.PAGESIZE


def all_resident_bytes() -> int:
    """VmRSS, the emulator's with it."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def _mapped() -> Iterator[tuple[int, int]]:
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(address, 16) for address in line.split(maxsplit=1)[0].split("-"))
        if last <= USERS:
            yield first, last


def _at(pages: BinaryIO, first: int, last: int) -> int:
    """Goes to the first page's entry; bytes of all entries."""
    pages.seek(first // mmap.PAGESIZE * ENTRY)
    return (last - first) // mmap.PAGESIZE * ENTRY


def _present(entries: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(entries, "<u8") & np.uint64(RESIDENT)))


def _train(name: str) -> None:
    from edgefl.learning import SGD, GraphLearner, Samples
    from edgefl.models.graph import Model
    from edgefl.models.graph.architectures import EXAMPLES, build
    from edgefl.rng import INIT, stream

    shape, classes = EXAMPLES[name]
    graph, draw = build(name, shape, classes), np.random.RandomState(SEED)
    x = draw.randint(0, 256, (BATCH * STEPS, *shape)).astype(np.uint8)
    samples = Samples(x, draw.randint(0, classes, len(x)).astype(np.int32), scale=2 / 255, shift=-1.0)
    learner = GraphLearner(Model(graph, graph.init(stream(SEED, INIT))), backend="native")
    learner.fit(samples, np.split(np.arange(len(x), dtype=np.int32), STEPS), SGD(1e-3))


def _print(when: str) -> None:
    print(f"{when:32} {resident_bytes() / MB:6.1f} MB, VmRSS {all_resident_bytes() / MB:6.1f} MB")


def main(model: str = "fedspu_emnist") -> None:
    _print("Python with numpy")
    _train(model)
    _print(f"after {STEPS} steps of {model}")


if __name__ == "__main__":
    main(*sys.argv[1:])
