"""The model of a device: the speed of arithmetic and of transfers, the energy for both, and the hours at which the
device is available. The functions are pure functions of counts, without clock, file or client.

A round of a client is a download, training and an upload, one after another. A message that carries no part of a model
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
    """A model of a device: its speed, its connection, its energy and its availability.

    macs_per_second        multiply-adds of float32 per second, as whole training steps execute them
    down_bytes_per_second  payload bytes per second to the device, and up_bytes_per_second from it
    joules_per_mac         energy of a multiply-add above the idle power. joules_per_down_byte and joules_per_up_byte
                           are the energy of a byte
    latency_s              seconds before the first byte of each message that carries a part of a model
    joules_per_message     energy of each such message, whatever its length: waking a radio, and keeping the radio awake
                           afterwards
    idle_watts             power without work, counted from the beginning of a round to the end of the device's upload
    overhead_s_per_step    seconds of a training step beside its multiply-adds
    memory_bytes           memory for training. 0: not stated
    drop_out               probability that the device is gone when a round begins for which it was chosen
    available              pairs (from, to) in seconds of a day, over midnight where `to` is less. Empty: always
                           available
    title                  description for people
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
            raise ValueError(f"drop_out = {self.drop_out}; expected a probability from 0 to 1")
        for begin, end in self.available:
            if not (0 <= begin < DAY_S and 0 <= end <= DAY_S and begin != end):
                raise ValueError(
                    f"available has [{begin}, {end}]; expected two different seconds of a day, from 0 to {DAY_S:g}"
                )

    def seconds(self, macs: float, down: float, up: float, steps: int = 0) -> float:
        """Return the seconds of a round with `macs` multiply-adds, `down` and `up` payload bytes, and `steps` training
        steps.
        """
        link = down / self.down_bytes_per_second + up / self.up_bytes_per_second
        training = macs / self.macs_per_second + steps * self.overhead_s_per_step
        return _messages(down, up) * self.latency_s + link + training

    def throughput(self, examples: int) -> Throughput:
        """Return the throughput that a device of this profile would measure on `examples` training samples."""
        mac_s = 1 / self.macs_per_second
        return Throughput(mac_s, mac_s, self.overhead_s_per_step, 0.0, self.memory_bytes or None, examples)

    def joules(self, macs: float, down: float, up: float, steps: int = 0) -> float:
        """Return the joules of a round with `macs` multiply-adds, `down` and `up` payload bytes, and `steps` training
        steps.
        """
        link = down * self.joules_per_down_byte + up * self.joules_per_up_byte
        radio = _messages(down, up) * self.joules_per_message
        return self.idle_watts * self.seconds(macs, down, up, steps) + macs * self.joules_per_mac + link + radio

    def opens(self, at: float) -> float:
        """Return the first moment from `at` on at which the device is available, in seconds since the first midnight.

        The beginnings are compared as the sums computed here, so that a device is available at the very moment that is
        returned.
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
    """Return the number of a round's messages that carry a part of a model."""
    return (down > 0) + (up > 0)
