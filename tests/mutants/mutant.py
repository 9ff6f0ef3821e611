"""A mutant: one place of a source file, and the mistake that is put there. Nothing is read or run here."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """A mutant.

    name      unique
    file      from the root of the repository
    original  stands in the file exactly once, unless `at` says where. In C++ a whole statement (with its last semicolon
              or brace) or expression
    mutated   in its place
    wrong     what is wrong then, in a line
    tests     arguments of pytest: the tests that should notice
    at        where the original begins, in characters, or None if it stands there exactly once
    """

    name: str
    file: str
    original: str
    mutated: str
    wrong: str
    tests: str
    at: int | None = None

    @property
    def is_native(self) -> bool:
        return self.file.startswith("csrc/") and not self.file.endswith(".py")

    def start(self, text: str) -> int:
        """Return where the original stands in the text of its file. Raises ValueError if the text does not fit."""
        if self.at is not None:
            if not text.startswith(self.original, self.at):
                raise ValueError(f"{self.name}: {self.file} has no {self.original!r} at {self.at}")
            return self.at
        count = text.count(self.original)
        if count != 1:
            raise ValueError(f"{self.name}: {self.file} has {self.original!r} {count} times; expected once")
        return text.index(self.original)

    def applied(self, text: str) -> str:
        """Return the text of its file with the mistake in it."""
        at = self.start(text)
        return text[:at] + self.mutated + text[at + len(self.original) :]
