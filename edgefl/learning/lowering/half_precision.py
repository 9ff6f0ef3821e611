"""The float16 copies of values that wait for the backward pass, and the calls that narrow and widen them.

This module changes recorded calls, whatever operations they have. A tensor that is written before the loss and read
after it is narrowed behind its last reader of the forward pass. It is widened before the calls of a node's backward
pass that read it. The widened copy lives for these calls. From the first call that writes to the tensor, one copy lives
to the tensor's end.

Tensors are narrowed only where this saves memory. Step by step, the largest tensor that waits where the pass needs most
memory is narrowed, and the pass with the lowest peak is taken. Statistics of norms and ids of tokens stay float32.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl.kernels.table import FAMILIES, TABLE
from edgefl.learning.lowering.arena import aligned
from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import KernelCall, Tensor

EXACT = frozenset({"mean", "inv_std", "inv_rms", "lse", "ids"})  # arguments whose tensors stay float32
_LOSSES = frozenset(row.name for row in FAMILIES["loss"])


class SavedTensor(NamedTuple):
    """A tensor that waits for the backward pass.

    since   last call of the forward pass that uses the tensor
    copies  call of the backward pass that uses the tensor -> number of the widened copy that the call gets
    reread  last call that reads the saved values. From the first call that writes, one copy takes their place
    """

    size: int
    since: int
    copies: Mapping[int, int]
    reread: int

    def is_idle(self, position: int) -> bool:
        return self.since < position < self.reread and position not in self.copies


class NarrowedPass(NamedTuple):
    """A pass with narrowed tensors, the former position of each of its calls, and the bytes that are live
    at each call.
    """

    recorder: Recorder
    positions: list[int]
    live: NDArray[np.int64]

    @property
    def peak(self) -> int:
        return int(self.live.max(initial=0))


def narrow(recorder: Recorder, float_bytes: int) -> Recorder:
    """Return the same pass with float16 where that lowers the peak of live memory, or else `recorder` itself."""
    waiting, chosen = _waiting(recorder), list[int]()
    best = now = NarrowedPass(recorder, list(range(len(recorder.calls))), _live(recorder, float_bytes))
    while (largest := _largest_idle(waiting, chosen, now)) is not None:
        chosen.append(largest)
        now = _narrowed(recorder, {which: waiting[which] for which in chosen}, float_bytes)
        best = min(best, now, key=lambda each: each.peak)
    return best.recorder


def _largest_idle(waiting: Mapping[int, SavedTensor], chosen: Collection[int], now: NarrowedPass) -> int | None:
    """Return the largest tensor that waits where most bytes are live and that is not chosen yet."""
    peak = now.positions[int(now.live.argmax())] if now.positions else 0
    idle = [which for which, each in waiting.items() if which not in chosen and each.is_idle(peak)]
    return max(idle, key=lambda which: (waiting[which].size, -which), default=None)


def _live(recorder: Recorder, float_bytes: int) -> NDArray[np.int64]:
    """Return the bytes that are live at each call."""
    change = np.zeros(len(recorder.calls) + 2, np.int64)
    for buffer in recorder.buffers():
        size = aligned(buffer.bytes(float_bytes))
        change[buffer.first] += size
        change[buffer.last + 1] -= size
    return np.cumsum(change)[: len(recorder.calls)]


def _waiting(recorder: Recorder) -> dict[int, SavedTensor]:
    """Return the tensors that may be narrowed, by buffer. Without a loss there are no such tensors."""
    losses = [i for i, call in enumerate(recorder.calls) if call.op in _LOSSES] or [len(recorder.calls)]
    loss = losses[-1]
    uses: dict[int, list[int]] = defaultdict(list)
    exact = {i for i, buffer in enumerate(recorder.buffers()) if buffer.kind != "float" or recorder.is_kept(i)}
    for position, call in enumerate(recorder.calls):
        for name, tensor in _tensors(call):
            uses[tensor.buffer].append(position)
            exact |= {tensor.buffer} if name in EXACT or position in losses else set()
    sizes = [buffer.size for buffer in recorder.buffers()]
    found = {which: _of_uses(recorder, which, at, loss) for which, at in uses.items() if which not in exact}
    return {which: each._replace(size=sizes[which]) for which, each in found.items() if each is not None}


def _of_uses(recorder: Recorder, which: int, uses: list[int], loss: int) -> SavedTensor | None:
    """Return the tensor without its size, or None if no value written before the loss is read after it."""
    before, after = [at for at in uses if at < loss], sorted({at for at in uses if at > loss})
    if not before or not after or not _reads(recorder.calls[after[0]], which):
        return None
    copies, is_written, reread = {after[0]: 0}, False, after[0]
    for earlier, at in pairwise(after):
        is_written = is_written or _writes(recorder.calls[earlier], which)
        is_same = is_written or recorder.calls[at].node == recorder.calls[earlier].node
        copies[at] = copies[earlier] + (not is_same)
        reread = reread if is_same else at
    return SavedTensor(0, before[-1], copies, reread)


def _tensors(call: KernelCall) -> list[tuple[str, Tensor]]:
    names = TABLE[call.op].names
    return [(name, arg) for name, arg in zip(names, call.args, strict=False) if isinstance(arg, Tensor)]


def _accesses(call: KernelCall, which: int) -> list[str]:
    """Return how a call's arguments use a buffer: "" reads, "!" writes, "+" does both."""
    rows = zip(TABLE[call.op].arguments, call.args, strict=False)
    return [row.access for row, arg in rows if isinstance(arg, Tensor) and arg.buffer == which]


def _reads(call: KernelCall, which: int) -> bool:
    return any(access != "!" for access in _accesses(call, which))


def _writes(call: KernelCall, which: int) -> bool:
    return any(_accesses(call, which))


def _narrowed(recorder: Recorder, chosen: Mapping[int, SavedTensor], float_bytes: int) -> NarrowedPass:
    """Record the calls once more, with these tensors narrowed."""
    again, positions = recorder.again(), list[int]()
    halves = {which: again.new((2 * each.size,), "byte") for which, each in chosen.items()}
    wide: dict[tuple[int, int], int] = {}
    for position, call in enumerate(recorder.calls):
        again.node = call.node
        _widen(again, position, chosen, halves, wide)
        again.call(call.op, *(_in_copy(arg, position, chosen, wide) for arg in call.args))
        for which, each in chosen.items():
            if each.since == position:
                again.call("narrow_float16", Tensor(which, (each.size,)), halves[which])
        positions += [position] * (len(again.calls) - len(positions))
    return NarrowedPass(again, positions, _live(again, float_bytes))


def _widen(
    again: Recorder,
    position: int,
    chosen: Mapping[int, SavedTensor],
    halves: Mapping[int, Tensor],
    wide: dict[tuple[int, int], int],
) -> None:
    """Record the calls that widen the copies that the call at `position` is the first to use."""
    for which, each in chosen.items():
        copy = each.copies.get(position)
        if copy is not None and (which, copy) not in wide:
            widened = again.new((each.size,))
            wide[which, copy] = widened.buffer
            again.call("widen_float16", halves[which], widened)


def _in_copy(
    arg: object, position: int, chosen: Mapping[int, SavedTensor], wide: Mapping[tuple[int, int], int]
) -> object:
    """Return an argument of the call at `position`, in its widened copy if it has one."""
    if not isinstance(arg, Tensor) or arg.buffer not in chosen or position not in chosen[arg.buffer].copies:
        return arg
    return arg._replace(buffer=wide[arg.buffer, chosen[arg.buffer].copies[position]])
