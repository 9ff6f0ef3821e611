"""One simulation to be made, as a value, and the command that makes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """The arguments of a simulation. Equal cases are simulated alike, to the bit, by one version of the code.

    hours     virtual hours of faults
    training  a name in savings.STEPS
    kept      numbers of the planned faults that come, in order. None: all faults come
    often     times as many faults as usual
    transport a name in tls.TRANSPORTS
    buffer    replies that close an asynchronous round. 0: rounds wait for their clients
    """

    seed: int
    hours: float
    devices: int
    method: str
    training: str = "stub"
    kept: tuple[int, ...] | None = None
    often: float = 1.0
    transport: str = "plain"
    buffer: int = 0

    @property
    def command(self) -> str:
        """The command that repeats the simulation."""
        found = f"python -m tests vopr --seed {self.seed} --hours {self.hours!r} --devices {self.devices}"
        found += f" --method {self.method} --training {self.training}"
        found += "" if self.transport == "plain" else f" --transport {self.transport}"
        found += f" --buffer {self.buffer}" if self.buffer else ""
        found += "" if self.often == 1 else f" --often {self.often!r}"
        if self.kept is None:
            return found
        return f"{found} --faults {','.join(map(str, self.kept)) or 'none'}"


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of faults that an argument `--faults` has. Raises ValueError for another text."""
    return () if text == "none" else tuple(sorted({int(each) for each in text.split(",")}))
