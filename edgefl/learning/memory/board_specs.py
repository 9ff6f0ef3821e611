"""The facts about single-board computers: processors, caches, memory. Each fact has its source. Nothing is measured
here.

Bytes are powers of two, as memory is sold. The memory that is left for a device is our own estimate, and every use of
it says so.
"""

from __future__ import annotations

from typing import NamedTuple

KIB, MIB, GIB = 2**10, 2**20, 2**30
SYSTEM_SHARE, SYSTEM_BYTES = 8, 192 * MIB  # a system without a desktop takes 1/8 and these bytes: our estimate
PROCESS_BYTES = 64 * MIB  # interpreter, numpy and edgefl, with room for what a device sends and writes, in bytes


class Cores(NamedTuple):
    """Processors of one kind. Caches are in bytes: l1 and l2 of each processor, or l2 of all where it is shared."""

    number: int
    kind: str
    ghz: float
    l1_data: int
    l2: int
    l2_is_shared: bool


class Board(NamedTuple):
    """A board. `memory` has the sizes in bytes that are sold, the smallest first. `l3` is the cache of all
    cores, or 0.
    """

    title: str
    cores: Cores
    l3: int
    memory: tuple[int, ...]
    source: str


BOARDS = {
    "pi-zero2": Board(
        "Raspberry Pi Zero 2 W", Cores(4, "Cortex-A53", 1.0, 32 * KIB, 512 * KIB, True), 0, (512 * MIB,),
        "raspberrypi.com, product brief of Zero 2 W; Arm, Cortex-A53 manual",
    ),
    "pi3": Board(
        "Raspberry Pi 3 Model B+", Cores(4, "Cortex-A53", 1.4, 32 * KIB, 512 * KIB, True), 0, (1 * GIB,),
        "raspberrypi.com, processors: BCM2837B0; product brief of 3 Model B+",
    ),
    "pi4": Board(
        "Raspberry Pi 4 Model B", Cores(4, "Cortex-A72", 1.8, 32 * KIB, 1 * MIB, True), 0,
        (1 * GIB, 2 * GIB, 4 * GIB, 8 * GIB), "raspberrypi.com, processors: BCM2711; product brief of 4 Model B",
    ),
    "pi5": Board(
        "Raspberry Pi 5", Cores(4, "Cortex-A76", 2.4, 64 * KIB, 512 * KIB, False), 2 * MIB,
        (2 * GIB, 4 * GIB, 8 * GIB, 16 * GIB), "raspberrypi.com, processors: BCM2712; product brief of 5",
    ),
    "jetson-nano": Board(
        "Jetson Nano", Cores(4, "Cortex-A57", 1.43, 32 * KIB, 2 * MIB, True), 0, (4 * GIB,),
        "NVIDIA, Jetson Nano System-on-Module data sheet",
    ),
    "orin-nano": Board(
        "Jetson Orin Nano", Cores(6, "Cortex-A78AE", 1.5, 64 * KIB, 256 * KIB, False), 4 * MIB, (4 * GIB, 8 * GIB),
        "NVIDIA, Jetson Orin Nano Series data sheet",
    ),
    "orin-nx": Board(
        "Jetson Orin NX 16GB", Cores(8, "Cortex-A78AE", 2.0, 64 * KIB, 256 * KIB, False), 4 * MIB, (16 * GIB,),
        "NVIDIA, Jetson Orin NX Series data sheet",
    ),
    "agx-orin": Board(
        "Jetson AGX Orin 64GB", Cores(12, "Cortex-A78AE", 2.2, 64 * KIB, 256 * KIB, False), 6 * MIB, (64 * GIB,),
        "NVIDIA, Jetson AGX Orin Series data sheet",
    ),
}  # fmt: skip


class BoardVariant(NamedTuple):
    """A board with one of its sizes of memory, in bytes."""

    board: Board
    memory: int

    @property
    def left_bytes(self) -> int:
        """The bytes that are left for training besides the system and the process. This is an estimate."""
        return max(0, self.memory - self.memory // SYSTEM_SHARE - SYSTEM_BYTES - PROCESS_BYTES)

    def __str__(self) -> str:
        cores, l3 = self.board.cores, f", L3 {_bytes(self.board.l3)}" if self.board.l3 else ""
        l2 = f"L2 {_bytes(cores.l2)}{' shared' if cores.l2_is_shared else ' each'}"
        what = f"{cores.number} x {cores.kind} at {cores.ghz:g} GHz, L1d {_bytes(cores.l1_data)}, {l2}{l3}"
        return f"{self.board.title}, {_bytes(self.memory)}: {what} ({self.board.source})"


def choose(text: str) -> BoardVariant:
    """Return the board that a text names: pi4 has the least memory that is sold, and pi4:4GB has 4 GB.

    Raises ValueError for an unknown board, or a size that is not sold.
    """
    name, _, wanted = text.partition(":")
    if name not in BOARDS:
        raise ValueError(f"board {name!r}; expected one of {', '.join(BOARDS)}")
    board = BOARDS[name]
    sold = {_bytes(memory).replace(" ", ""): memory for memory in board.memory}
    if wanted and wanted not in sold:
        raise ValueError(f"board {text!r}; expected {name} with {', '.join(sold)}")
    return BoardVariant(board, sold[wanted] if wanted else board.memory[0])


def _bytes(count: int) -> str:
    unit, size = next((unit, size) for unit, size in (("GB", GIB), ("MB", MIB), ("kB", KIB)) if count >= size)
    return f"{count / size:g} {unit}"
