"""Changes of parameters as whole numbers of a fixed step, so that sums of them have no order.

A change is clipped to an interval, divided by the step, and rounded up or down by chance, so that the mean of the
rounded change is the change. The chance is a function of seed, client, round and payload: server and device round
alike, and a replay rounds as the run did.

    stream  rng.stream(seed, FIXED, client, round, extra = CRC-32 of the payload's name), one number of [0, 1) a value,
            parameters in the order of their names
    whole   floor(change / step + number), where change is limited to [-clip, clip]

Source  unbiased rounding by chance: Alistarh et al., "QSGD" (NeurIPS 2017), section 3
"""

from __future__ import annotations

import math
from binascii import crc32
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgefl import rng
from edgefl.methods.weighted_mean import values_at

if TYPE_CHECKING:
    from edgefl.models.graph import Params
    from edgefl.models.neurons.model_spec import Kind
    from edgefl.models.neurons.update import Update

Whole = NDArray[np.int64]
SMALLEST, LARGEST = -1022, 1000  # exponents of two of a step and of a clip that float64 has


@dataclass(frozen=True)
class FixedPoint:
    """The whole numbers for the changes of one kind of parameter.

    step  change that the number 1 stands for, a power of two
    clip  largest change. It is a multiple of the step
    """

    step: float
    clip: float

    def __post_init__(self) -> None:
        is_power = self.step > 0 and math.isfinite(self.step) and math.frexp(self.step)[0] == 0.5
        if not is_power:
            raise ValueError(f"step={self.step}; expected a power of two above 0")
        if not (math.isfinite(self.clip) and self.clip >= self.step and (self.clip / self.step).is_integer()):
            raise ValueError(f"clip={self.clip}; expected a multiple of step={self.step}, at least one step")

    @property
    def most(self) -> int:
        """The largest whole number, and the negative of the smallest one."""
        return int(self.clip / self.step)

    def bits(self, weights: int) -> int:
        """Return the bits in which every sum fits whose clients have declared `weights` in all, in two's complement.

        It depends on declared numbers alone, never on data, so that honest clients cannot wrap a sum.
        """
        return bits_of(self.most, weights)


def bits_of(most: int, weights: int) -> int:
    """Return the bits in two's complement of every sum of whole numbers up to `most`, times weights of this sum."""
    return (2 * most * weights).bit_length()


class RoundedChanges(NamedTuple):
    """The changes of a client's payload as whole numbers, and how many of its values were clipped."""

    values: Mapping[str, Whole]
    clipped: int


LEARNED = FixedPoint(2.0**-16, 2.0)
STATISTICS = FixedPoint(2.0**-10, 128.0)
BY_KIND: Mapping[Kind, FixedPoint] = {"learn": LEARNED, "stat": STATISTICS}
"""The fixed points of learned parameters and of running statistics, which are means and variances of activations."""


class RoundingName(NamedTuple):
    """The name of the chance by which a round rounds: the seed of the run, the round, and the payload."""

    seed: int
    round: int
    payload: str

    def stream(self, client: int) -> rng.Stream:
        return rng.stream(self.seed, rng.FIXED, client, self.round, crc32(self.payload.encode()))


def rounded_changes(
    update: Update, old: Params, kinds: Mapping[str, Kind], name: RoundingName, client: int
) -> RoundedChanges:
    """Return the changes of a client's values as whole numbers, by parameter, in the shapes of the blocks.

    update  values of the client
    old     values that the client was sent, whole parameters. Values of a parameter that it lacks are changes
    kinds   kind of each parameter
    """
    chance, found, clipped = name.stream(client), {}, 0
    for parameter, block in sorted(update.blocks.items()):
        fixed = BY_KIND[kinds[parameter]]
        change = block.values.astype(np.float64)
        if parameter in old:
            change -= values_at(old[parameter], block.index)
        clipped += int(np.count_nonzero(np.abs(change) > fixed.clip))
        numbers = np.clip(change, -fixed.clip, fixed.clip) / fixed.step
        numbers += chance.uniform(numbers.size).reshape(numbers.shape)
        found[parameter] = np.floor(numbers).astype(np.int64)
    return RoundedChanges(found, clipped)
