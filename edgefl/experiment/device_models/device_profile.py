"""What a device is modelled by: how fast it multiplies and transfers, what that costs, when it is there. Pure functions
of counts; no clock, no file, no client.

A round of a client is a download, training, an upload, one after another. A message that carries no part of a model
costs nothing, so a method without a server has no transfers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from edgefl.methods.throughput import Throughput

DAY_S = 86_400.0
ABOVE_ZERO = ("macs_per_second", "down_bytes_per_second", "up_bytes_per_second")


@dataclass(frozen=True)
class Profile:
    """A model of a device.

    macs_per_second         multiply-adds of float32, as whole training steps execute them
    down_bytes_per_second   of payload; up_bytes_per_second likewise
    joules_per_mac          above what it draws anyway; joules_per_down_byte and joules_per_up_byte likewise
    latency_s               of each message that carries a part of a model, before its first byte
    joules_per_message      of each such message, whatever its length: waking a radio, and keeping it awake afterwards
    idle_watts              drawn anyway, counted from the beginning of its round to the end of its upload
    overhead_s_per_step     of a training step, beside its multiply-adds
    memory_bytes            for training; 0: not said
    drop_out                chance that it is gone when a round that it was chosen for begins
    available               (from, to) in seconds of a day, over midnight where `to` is less; none: always
    title                   what it is, for people
    """

    macs_per_second: float
    down_bytes_per_second: float
    up_bytes_per_second: float
    joules_per_mac: float
    joules_per_down_byte: float
    joules_per_up_byte: float
    latency_s: float = 0.0
    joules_per_message: float = 0.0
    idle_watts: float = 0.0
    overhead_s_per_step: float = 0.0
    memory_bytes: int = 0
    drop_out: float = 0.0
    available: tuple[tuple[float, float], ...] = ()
    title: str = ""

    def __post_init__(self) -> None:
        for name in NUMBERS:
            value, is_rate = getattr(self, name), name in ABOVE_ZERO
            if not math.isfinite(value) or value < 0 or (is_rate and value == 0):
                raise ValueError(f"{name} = {value}; expected a finite number {'above 0' if is_rate else '>= 0'}")
        if self.drop_out > 1:
            raise ValueError(f"drop_out = {self.drop_out}; expected a chance from 0 to 1")
        for begin, end in self.available:
            if not (0 <= begin < DAY_S and 0 <= end <= DAY_S and begin != end):
                raise ValueError(
                    f"available has [{begin}, {end}]; expected two different seconds of a day, from 0 to {DAY_S:g}"
                )

    def seconds(self, macs: float, down: float, up: float, steps: int = 0) -> float:
        """Of a round with so many multiply-adds, bytes down and up, and training steps."""
        link = down / self.down_bytes_per_second + up / self.up_bytes_per_second
        training = macs / self.macs_per_second + steps * self.overhead_s_per_step
        return _messages(down, up) * self.latency_s + link + training

    def throughput(self, examples: int) -> Throughput:
        """Of its training on so many samples, as a device that measures itself would say it."""
        mac_s = 1 / self.macs_per_second
        return Throughput(mac_s, mac_s, self.overhead_s_per_step, 0.0, self.memory_bytes or None, examples)

    def joules(self, macs: float, down: float, up: float, steps: int = 0) -> float:
        """Of the same round."""
        link = down * self.joules_per_down_byte + up * self.joules_per_up_byte
        radio = _messages(down, up) * self.joules_per_message
        return self.idle_watts * self.seconds(macs, down, up, steps) + macs * self.joules_per_mac + link + radio

    def opens(self, at: float) -> float:
        """The first moment from `at` on, in seconds since the first midnight, at which it is there.

        Beginnings are compared as they are added up here, so that what opens at a moment is there at it.
        """
        if not self.available:
            return at
        today, later = math.floor(at / DAY_S), []
        for day in (today - 1, today, today + 1):
            for begin, end in self.available:
                opening, closing = day * DAY_S + begin, day * DAY_S + end + DAY_S * (end < begin)
                if opening <= at < closing:
                    return at
                if opening > at:
                    later.append(opening)
        return min(later)


NUMBERS = tuple(each.name for each in fields(Profile) if each.type in ("float", "int"))


def _messages(down: float, up: float) -> int:
    """How many of a round's messages carry a part of a model."""
    return (down > 0) + (up > 0)
