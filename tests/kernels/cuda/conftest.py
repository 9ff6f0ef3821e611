"""A device of the test's own on the stand-in, and what the stand-in has seen. On a real driver these tests skip."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from . import standin


class Seen:
    """A record of the driver's calls since `forget`, and a way to make calls fail."""

    def __init__(self) -> None:
        self._library = standin.controls()
        self.forget()

    def forget(self) -> None:
        self._library.standin_reset()

    @property
    def calls(self) -> list[str]:
        """Each with its size, where it has one."""
        return str(self._library.standin_log().decode()).splitlines()

    def count(self, name: str) -> int:
        return sum(call.split()[0] == name for call in self.calls)

    def fail(self, name: str, nth: int = 1, status: int = 719) -> None:
        self._library.standin_fail(name.encode(), nth, status)

    @property
    def live(self) -> int:
        """Allocations, streams, modules and graphs that are held."""
        return int(self._library.standin_live())

    @property
    def current(self) -> int:
        """Contexts that have been made current and not put away."""
        return int(self._library.standin_current())

    def room(self, size: int) -> None:
        self._library.standin_room(size)

    def integrated(self, on: bool) -> None:
        self._library.standin_integrated(int(on))


@pytest.fixture
def seen() -> Iterator[Seen]:
    if standin.is_real():
        pytest.skip("EDGEFL_LIBCUDA names a real driver: it writes down no calls")
    made = Seen()
    yield made
    made.forget()
    made.room(1 << 34)
    made.integrated(False)


@pytest.fixture
def cuda(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Yield the loaded module of the backend. Devices that the test makes use the stand-in."""
    module = standin.backend()
    for name, value in standin.environment().items():
        monkeypatch.setenv(name, value)
    seen.forget()
    return module
