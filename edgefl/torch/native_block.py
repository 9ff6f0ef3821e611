"""Modules of blocks that the native kernels compute in one.

A block is a norm with its ReLU and maybe its 2x2 max pool, or a ReLU and a max pool. Each module keeps its name: the
first module computes the block, and the others pass its result on. fusible_blocks.py finds the blocks.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from edgefl.torch import kernel_choice, library_operators
from edgefl.torch.block_autograd import MaxPool, NormReLU
from edgefl.torch.layer_selection import WHOLE, ActiveChannels, held, held_or_none
from edgefl.torch.native_tensors import serves
from edgefl.torch.norm_kernels import Norm
from edgefl.torch.pool_kernels import PoolWindow, extents


def _nothing() -> Tensor | None:
    """Return None, as a reference to a result that is gone does."""
    return None


class FusedBlock:
    """The common state of the modules of a block.

    followers  the modules after the first one, in order
    is_shared  whether the follower is also called elsewhere. There is then only one follower
    joined     number of followers that the last result of the first module includes
    last       reference to this result, by which a shared follower recognises it
    """

    def __init__(self, followers: Sequence[nn.Module], is_shared: bool) -> None:
        self.followers, self.is_shared = tuple(followers), is_shared
        self.joined = 0
        self.last: Callable[[], Tensor | None] = _nothing

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "last": _nothing}

    def can_join(self) -> bool:
        """Return whether the first module may compute the block now."""
        self.joined = 0
        return not self.is_watched and not (self.is_shared and torch.compiler.is_compiling())

    def note(self, y: Tensor) -> None:
        """Note the result of the block for a shared follower."""
        if self.is_shared:
            self.last = weakref.ref(y)

    @property
    def is_watched(self) -> bool:
        """Return whether a hook looks at what a follower reads or returns. The modules then compute one by one."""
        return any(
            each._forward_hooks or each._forward_pre_hooks or each._backward_hooks or each._backward_pre_hooks
            for each in self.followers
        )


class _Follower:
    """A module that is not the first one of its block.

    edgefl_links  the blocks that it belongs to: one block, unless it is shared
    edgefl_place  its position among the followers of its block
    """

    edgefl_links: tuple[FusedBlock, ...] = ()
    edgefl_place: int = 0

    def _is_done(self, x: Tensor) -> bool:
        """Return whether x is already the result of this module, because the block computed it."""
        if any(link.is_shared for link in self.edgefl_links):
            return not torch.compiler.is_compiling() and any(link.last() is x for link in self.edgefl_links)
        return bool(self.edgefl_links) and self.edgefl_links[0].joined > self.edgefl_place


class FollowingReLU(_Follower, nn.ReLU):
    """The ReLU of one block or of several blocks."""

    def forward(self, x: Tensor) -> Tensor:
        return x if self._is_done(x) else super().forward(x)


class FollowingReLU6(_Follower, nn.ReLU6):
    """The ReLU6 of one block or of several blocks."""

    def forward(self, x: Tensor) -> Tensor:
        return x if self._is_done(x) else super().forward(x)


class NativeMaxPool2d(_Follower, nn.MaxPool2d):
    """A max pool alone, or at the end of a block."""

    def forward(self, x: Tensor) -> Tensor:
        if self._is_done(x):
            return x
        window = window_of(self)
        if not _has_window(x, window) or not serves(x):
            found: Tensor = super().forward(x)
            return found
        return pooled(x, window)


class LeadingReLU(nn.ReLU):
    """A ReLU that begins a block with a max pool."""

    edgefl_link: FusedBlock

    def forward(self, x: Tensor) -> Tensor:
        link = self.edgefl_link
        window = window_of(link.followers[0])._replace(is_rectified=True)
        link.joined = int(link.can_join() and _has_window(x, window) and serves(x))
        return pooled(x, window) if link.joined else super().forward(x)


class NativeBatchNorm2d(nn.BatchNorm2d):
    """A norm over the batch that begins a block. In evaluation mode, or alone, torch computes it."""

    edgefl_link: FusedBlock | None = None
    edgefl_active: ActiveChannels = WHOLE

    def forward(self, x: Tensor) -> Tensor:
        link = self.edgefl_link
        if link is not None and link.can_join() and _is_worth(self, link, x) and self._can_join(x):
            return self._joined(x, link)
        return self._plain(x) if self.edgefl_active is not WHOLE else super().forward(x)

    def _can_join(self, x: Tensor) -> bool:
        return (
            self.training
            and self.momentum is not None
            and self.running_mean is not None
            and x.numel() > x.shape[1]
            and serves(x, self.weight, self.bias, self.running_mean, self.running_var)
        )

    def _joined(self, x: Tensor, link: FusedBlock) -> Tensor:
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None
        assert self.running_var is not None
        self.num_batches_tracked.add_(1)
        norm = Norm(0, self.eps, float(self.momentum or 0), isinstance(link.followers[0], nn.ReLU6))
        norm, link.joined = _with_pool(norm, link, x)
        active, running = self.edgefl_active, (self.running_mean, self.running_var)
        if torch.compiler.is_compiling():
            weight, bias = held(self.weight, active), held(self.bias, active)
            return library_operators.batch_norm_relu(
                x, weight, bias, *running, norm.eps, norm.momentum, norm.relu6, norm.halved
            )
        before = None if active.outs is None else [each.clone() for each in running]
        y: Tensor = NormReLU.apply(x, self.weight, self.bias, running, norm, active)
        if before is not None:
            keep_frozen(running, before, active)
        link.note(y)
        return y

    def _plain(self, x: Tensor) -> Tensor:
        """Compute the norm by torch, with frozen channels."""
        tracks, factor = self.training and self.running_mean is not None, float(self.momentum or 0)
        if tracks and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            factor = factor if self.momentum is not None else 1 / float(self.num_batches_tracked)
        running = [each for each in (self.running_mean, self.running_var) if each is not None]
        before = [each.clone() for each in running] if tracks else []
        weight, bias = held_or_none(self.weight, self.edgefl_active), held_or_none(self.bias, self.edgefl_active)
        is_training = self.training or not running
        y = F.batch_norm(x, self.running_mean, self.running_var, weight, bias, is_training, factor, self.eps)
        keep_frozen(running if tracks else [], before, self.edgefl_active)
        return y


class NativeGroupNorm(nn.GroupNorm):
    """A norm by groups that begins a block. Alone, it is computed by torch."""

    edgefl_link: FusedBlock | None = None
    edgefl_active: ActiveChannels = WHOLE

    def forward(self, x: Tensor) -> Tensor:
        link, active = self.edgefl_link, self.edgefl_active
        if link is not None and link.can_join() and _is_worth(self, link, x) and serves(x, self.weight, self.bias):
            norm, link.joined = _with_pool(Norm(self.num_groups, self.eps), link, x)
            if torch.compiler.is_compiling():
                weight, bias = held(self.weight, active), held(self.bias, active)
                return library_operators.group_norm_relu(x, weight, bias, norm.groups, norm.eps, norm.halved)
            y: Tensor = NormReLU.apply(x, self.weight, self.bias, None, norm, active)
            link.note(y)
            return y
        parameters = held_or_none(self.weight, active), held_or_none(self.bias, active)
        return F.group_norm(x, self.num_groups, *parameters, self.eps)


def window_of(pool: nn.Module) -> PoolWindow:
    """Return the window of a max pool without dilation that returns no indices."""
    kernel, stride, padding = (_pair(getattr(pool, name)) for name in ("kernel_size", "stride", "padding"))
    return PoolWindow(kernel, stride, padding, bool(pool.ceil_mode))


def is_halving(pool: nn.Module) -> bool:
    """Return whether a norm's kernels can end with this pool."""
    return window_of(pool) == PoolWindow((2, 2), (2, 2), (0, 0))


def pooled(x: Tensor, window: PoolWindow) -> Tensor:
    """Return the max pool of x, or of ReLU(x)."""
    if torch.compiler.is_compiling():
        sizes = (list(window.kernel), list(window.stride), list(window.padding))
        return library_operators.max_pool(x, *sizes, window.ceil_mode, window.is_rectified)
    y: Tensor = MaxPool.apply(x, window)
    return y


def _has_window(x: Tensor, window: PoolWindow) -> bool:
    """Return whether x has a window to pool. Without a window, torch computes the pool and raises the error."""
    return x.dim() == 4 and min(extents(x.shape, window)[2:]) > 0


def keep_frozen(running: Sequence[Tensor], before: Sequence[Tensor], active: ActiveChannels) -> None:
    """Give the running statistics of frozen channels the values that they had before."""
    if active.outs is None:
        return
    for statistic, old in zip(running, before, strict=True):
        values = statistic.data  # autograd has already used these values and reads them no more
        moved = values.cpu().numpy()[active.outs]
        kept = old.cpu().numpy()
        kept[active.outs] = moved
        values.copy_(old if old.device.type == "cpu" else torch.from_numpy(kept))


def _is_worth(norm: NativeBatchNorm2d | NativeGroupNorm, link: FusedBlock, x: Tensor) -> bool:
    """Return whether x has planes, and the kernels compute its block faster than torch.

    A block with frozen channels always counts as faster.
    """
    if x.dim() != 4 or norm.edgefl_active is not WHOLE:
        return x.dim() == 4
    by_groups = isinstance(norm, nn.GroupNorm)
    return kernel_choice.norm_block(by_groups, len(link.followers) > 1, x.shape[2] * x.shape[3])


def _with_pool(norm: Norm, link: FusedBlock, x: Tensor) -> tuple[Norm, int]:
    """Return the norm with its pool, if there is one whose window fits, and the number of followers in the block."""
    is_halved = len(link.followers) > 1 and x.shape[2] > 1 and x.shape[3] > 1
    return norm._replace(halved=is_halved), 1 + is_halved


def _pair(value: int | tuple[int, ...]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])
