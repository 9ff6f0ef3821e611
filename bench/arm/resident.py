"""python -m bench.arm.resident [MODEL]: megabytes of a process that trains it, without the megabytes of an emulator.

Under qemu, VmRSS is mostly the memory of the emulator: its own program, and the code that it has translated. qemu
answers /proc/self/maps itself, with what the guest has mapped. The kernel says which pages of that are resident.
Without an emulator both figures are equal. The script needs only edgefl's device dependencies.
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
ENTRY = 8  # bytes of a page's entry in pagemap
RESIDENT = 1 << 63
USERS = 1 << 47  # first address of the kernel


def resident_bytes() -> int:
    """Return the resident bytes of the pages that this process has mapped, as it sees itself."""
    with Path("/proc/self/pagemap").open("rb") as pages:
        return sum(_present(pages.read(_at(pages, first, last))) for first, last in _mapped()) * mmap.PAGESIZE


def all_resident_bytes() -> int:
    """Return VmRSS in bytes, which includes the emulator's memory."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def _mapped() -> Iterator[tuple[int, int]]:
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(address, 16) for address in line.split(maxsplit=1)[0].split("-"))
        if last <= USERS:
            yield first, last


def _at(pages: BinaryIO, first: int, last: int) -> int:
    """Go to the entry of the first page, and return the bytes of all entries."""
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
