"""The kernels of a training step on an NVIDIA GPU, each timed by itself: `python -m bench cuda --profile`.

A kernel is launched many times in a row from a captured graph, between two events. So its inputs are as near as the
device's second cache can keep them, and the time from one launch to the next, about a microsecond, is in every number.
The sum of all kernels is close to the time of a step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.table import Table

from edgefl.kernels.cuda.device import CudaDevice, Launch
from edgefl.learning import GraphLearner

REPEATS, TURNS = 20, 3  # launches of a kernel in a graph, and replays of the graph
SHOWN = 12  # launches whose blocks a table shows


class KernelTime(NamedTuple):
    """A kernel of a step: its launches, their blocks, and the microseconds that all of them take in a step."""

    kernel: str
    launches: int
    blocks: tuple[int, ...]
    us: float


def kernel_times(learner: GraphLearner) -> list[KernelTime]:
    """Return the kernels of the step that a learner on a CUDA device made last, those that take longest first."""
    program = program_of(learner)
    times: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for launch in program._resident._launches:
        x, y, z = launch.grid
        times[launch.kernel].append((x * y * z, graph_us(program._device, [launch])))
    found = (
        KernelTime(name, len(each), tuple(blocks for blocks, _ in each), sum(us for _, us in each))
        for name, each in times.items()
    )
    return sorted(found, key=lambda each: -each.us)


def program_of(learner: GraphLearner) -> Any:
    """Return the program of the step that a learner made last."""
    (session,) = learner._workspace.sessions.values()
    (bound,) = session.programs.values()
    return bound.program


def graph_us(device: CudaDevice, launches: Sequence[Launch], repeats: int = REPEATS, turns: int = TURNS) -> float:
    """Return the microseconds of these launches, repeated in one graph that is replayed after a first time."""
    with device.used():
        graph = device.capture([*launches] * repeats)
        device.replay(graph)
    try:
        with device.timed() as elapsed, device.used():
            device.replay(graph, turns)
        return 1e6 * elapsed() / (repeats * turns)
    finally:
        with device.used():
            device.drop(graph)


def table(title: str, times: Sequence[KernelTime]) -> Table:
    """Return the table of a step's kernels."""
    found, whole = Table(title=title), sum(each.us for each in times)
    for heading in ("kernel", "launches", "us", "%", "blocks of each launch"):
        found.add_column(heading, justify="left" if heading in ("kernel", "blocks of each launch") else "right")
    for each in times:
        blocks = " ".join(map(str, each.blocks[:SHOWN])) + (" ..." if len(each.blocks) > SHOWN else "")
        found.add_row(each.kernel, str(each.launches), f"{each.us:.1f}", f"{100 * each.us / whole:.0f}", blocks)
    found.add_row("all", str(sum(each.launches for each in times)), f"{whole:.1f}", "100", "")
    return found
