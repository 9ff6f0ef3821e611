"""One row of the tables of mutants."""

from __future__ import annotations

from tests.mutants.mutant import Mutant


def row(name: str, file: str, original: str, mutated: str, wrong: str) -> Mutant:
    """Return a mutant that seeds of simulations have to find."""
    return Mutant(name, file, original, mutated, wrong, "")
