"""Tables of memory accounts and meters for a terminal. Every number stands under the name of its account."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

from edgefl import kernels
from edgefl.learning.memory import BatchSizeFit, Footprint, TrainingConfiguration
from edgefl.learning.memory.board_specs import BoardVariant

NOTES = {  # account or meter, in the order of the columns -> what its numbers are
    "pfeiffer2023": "outputs of all modules, state dict and all tensors with a gradient, as Pfeiffer et al. 2023 count",
    "paper": "weights, active gradients, active outputs and the input; at a batch of 1 it gives FedSPU's Figure 5",
    "bound": "weights, active gradients and what an exact backward pass reads: no buffers that come and go",
    "exact": "what the learner allocates: parameters, arena's peak, states, id lists, packing memory",
    "learner": "measured: what the learner held after training",
    "saved": "of exact: what is kept from the forward pass for the backward pass",
    "torch": "measured: what eager PyTorch keeps for the backward pass, nothing else; compare with `saved`",
    "resident": "measured: resident set of the whole process, with interpreter, numpy and 500 examples",
    "peak": "measured: the largest resident set of that process",
}
OUTSIDE = ("interpreter, numpy and edgefl (about 34 MB resident)", "the data set")


class FootprintRow(NamedTuple):
    """The footprints of one way of training, by account."""

    method: str
    keep: float
    footprints: Mapping[str, Footprint]


def size(count: float) -> str:
    """Return a number of bytes as text for people, where 1 kB is 1e3 bytes and 1 MB is 1e6 bytes."""
    return f"{count / 1e6:.2f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


def print_rows(training: TrainingConfiguration, rows: Sequence[FootprintRow]) -> None:
    """Print the accounts side by side. Each cell has the difference in % from full training by the same account."""
    columns = [name for name in NOTES if any(name in _cells(row) for row in rows)]
    notes = [f"{name}: {NOTES[name]}" for name in columns]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("training")
    for name in columns:
        table.add_column(name, justify="right")
    full, work = _cells(rows[0]), _flops(rows[0])
    if work is not None:
        table.add_column("MFLOP", justify="right")
        notes.append(f"MFLOP: of a step of the account exact, as executed on {_where()}")
    for row in rows:
        cells = [_cell(_cells(row).get(name), full.get(name), row is rows[0]) for name in columns]
        if work is not None:
            cells.append(_cell(_flops(row), work, row is rows[0], lambda count: f"{count / 1e6:.4g}"))
        table.add_row(_label(row), *cells)
    title = f"{training.model}, batch {training.batch}: bytes by account, and the difference from full training in %"
    _print(title, table, *notes)


def print_tensors(rows: Sequence[FootprintRow]) -> None:
    """Print the arena's tensors by the account exact, the largest first. Two tensors that never live together may share
    memory.
    """
    for row in rows:
        exact = row.footprints["exact"]
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
        for heading in ("node", "operation", "argument", "size", "first call", "last call"):
            table.add_column(heading, justify="left" if heading in ("node", "operation", "argument") else "right")
        for tensor in sorted(exact.tensors, key=lambda tensor: -tensor.bytes):
            places = (size(tensor.bytes), str(tensor.first), str(tensor.last))
            table.add_row(tensor.node, tensor.op, tensor.argument, *places)
        _print(f"{_label(row)}: the arena of {size(exact.parts['arena'])}, tensor by tensor", table)


def _label(row: FootprintRow) -> str:
    return row.method if row.method in ("full", "pflego") else f"{row.method} {row.keep:g}"


def _cells(row: FootprintRow) -> dict[str, int]:
    """Return bytes by column. The bytes that `exact` saves for the backward pass have a column of their own."""
    cells = {name: footprint.total for name, footprint in row.footprints.items()}
    exact = row.footprints.get("exact")
    return cells if exact is None or exact.saved is None else {**cells, "saved": exact.saved}


def _flops(row: FootprintRow) -> int | None:
    exact = row.footprints.get("exact")
    return None if exact is None else exact.flops


def _where() -> str:
    """Return the kernels on which the parts of the account depend that follow from the machine."""
    ops = kernels.backend()
    name = kernels.name_of(ops)
    return f"{name}, {ops.isa()}" if name == "native" else name


def _cell(value: int | None, full: int | None, is_full: bool, show: Callable[[int], str] = size) -> str:
    if value is None:
        return ""
    return show(value) if is_full or not full else f"{show(value)} {100 * (value / full - 1):+.0f}"


def print_fit(
    training: TrainingConfiguration,
    limit_bytes: int,
    chosen: BatchSizeFit,
    choices: Sequence[BatchSizeFit],
    measured: Sequence[Footprint],
) -> None:
    """Print the largest batch at each share, the choice, and the memory that is not counted in the limit."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for heading in ("p", "batch", "exact"):
        table.add_column(heading, justify="right")
    for keep, batch, footprint in choices:
        table.add_row(f"{keep:g}", str(batch or "none"), size(footprint.total))
    _print(
        f"{training.model}, {training.method}: the largest batch in {size(limit_bytes)} by the account exact",
        table,
        f"{_why(training.batch, chosen)}: {_parts(chosen.footprint)}.",
        f"On top of that limit come {' and '.join(OUTSIDE)}.",
        *(f"{each.account}, {NOTES[each.account]}: {size(each.total)} ({_parts(each)})." for each in measured),
    )


def print_board(board: BoardVariant, is_json: bool) -> None:
    """Print the facts about a board, and the memory that they leave. With JSON these lines go to stderr."""
    console = Console(stderr=is_json, width=None if sys.stdout.isatty() else 140)
    left = f"left for training, by our estimate of the system and the process: {size(board.left_bytes)}"
    for sentence in (f"{board}.", f"{left[0].upper()}{left[1:]}."):
        console.print(sentence, soft_wrap=True, highlight=False)


def _why(batch: int, chosen: BatchSizeFit) -> str:
    if chosen.batch < batch:
        return f"A batch of {batch} fits at no p; p = {chosen.keep:g} with a batch of {chosen.batch} does"
    return f"p = {chosen.keep:g} is the largest at which a batch of {batch} fits, and a batch of {chosen.batch} does"


def _parts(footprint: Footprint) -> str:
    return ", ".join(f"{name} {size(count)}" for name, count in footprint.parts.items() if count)


def _print(title: str, table: Table, *sentences: str) -> None:
    console = Console() if sys.stdout.isatty() else Console(width=140)
    console.print(title, style="bold", soft_wrap=True, highlight=False)
    console.print(table)
    for sentence in sentences:
        console.print(sentence, soft_wrap=True, highlight=False)
