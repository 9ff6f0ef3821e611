"""Many mutants of C++ in one build: each original beside its mutant, and an environment variable that chooses.

    expression   (efl_mutant(7) ? (mutated) : (original))
    statement    if (efl_mutant(7)) { mutated } else { original }

The product's sources know nothing of it. This module rewrites a copy, and the compiler is told to include the header
first.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.mutants.mutant import Mutant

VARIABLE = "EDGEFL_MUTANT"  # the number of the mutant that a process runs. Without it no mutant runs
HEADER = f"""#pragma once
#include <cstdlib>
inline const int efl_chosen_mutant = [] {{
    const char* number = std::getenv("{VARIABLE}");
    return number ? std::atoi(number) : 0;
}}();
static inline bool efl_mutant(int number) {{ return efl_chosen_mutant == number; }}
"""


def switched(text: str, mutants: Mapping[int, Mutant]) -> str:
    """Return the text of a file with all of its mutants, by number.

    Raises ValueError if an original does not stand there exactly once, or if two originals overlap.
    """
    places = sorted((mutant.start(text), number) for number, mutant in mutants.items())
    done, parts = 0, []
    for at, number in places:
        mutant = mutants[number]
        if at < done:
            raise ValueError(f"{mutant.name}: overlaps the mutant before it in {mutant.file}; expected places apart")
        parts += [text[done:at], choice(number, mutant)]
        done = at + len(mutant.original)
    return "".join([*parts, text[done:]])


def choice(number: int, mutant: Mutant) -> str:
    """Return either form, on as many lines as the original."""
    if mutant.original.endswith((";", "}")):
        return f"if (efl_mutant({number})) {{ {mutant.mutated} }} else {{ {mutant.original} }}"
    return f"(efl_mutant({number}) ? ({mutant.mutated}) : ({mutant.original}))"
