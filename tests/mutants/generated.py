"""Mutants that operators make of a file, and a sample of them. A seed gives one sample of one state of the sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from random import Random

from tests.mutants import cpp_operators, python_operators
from tests.mutants.mutant import Mutant
from tests.mutants.noticing import noticing
from tests.mutants.python_operators import Edit
from tests.sources import ROOT

SHOWN = 60  # characters of a place that a line shows


def generated(file: str) -> list[Mutant]:
    """Return every mutant that the operators make of a file. Some of those of Python are the same program."""
    text = (ROOT / file).read_text("utf-8")
    operators = python_operators if file.endswith(".py") else cpp_operators
    data, tests = text.encode(), noticing(file)
    found, seen = [], Counter[str]()
    for edit in operators.edits(text):
        at = len(data[: edit.start].decode())
        name = f"{file}:{text.count(chr(10), 0, at) + 1} {edit.operator}"
        seen[name] += 1
        original = data[edit.start : edit.end].decode()
        wrong = f"{_short(original)} becomes {_short(edit.text)}"
        found.append(Mutant(f"{name} {seen[name]}", file, original, edit.text, wrong, tests, at))
    return found


def sample(files: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Return so many mutants, as many of each file as of another, or all of a file that has fewer."""
    drawn = [_drawn(file, Random(f"{seed} {file}")) for file in files]
    in_turn = (mutant for row in zip_longest(*drawn) for mutant in row if mutant is not None)
    return [mutant for mutant, _ in zip(in_turn, range(count), strict=False)]


def _drawn(file: str, random: Random) -> Iterator[Mutant]:
    """Yield mutants of a file that are other programs. In C++ no two overlap, so that one build has all of them."""
    text = (ROOT / file).read_text("utf-8")
    mutants = generated(file)
    random.shuffle(mutants)
    taken: list[range] = []
    for mutant in mutants:
        place = range(mutant.start(text), mutant.start(text) + len(mutant.original))
        if not mutant.is_native:
            start = len(text[: place.start].encode())
            edit = Edit("", start, start + len(mutant.original.encode()), mutant.mutated)
            if python_operators.changes(text, edit):
                yield mutant
        elif all(place.stop <= other.start or other.stop <= place.start for other in taken):
            taken.append(place)
            yield mutant


def _short(text: str) -> str:
    """Return a text on one line, shortened."""
    line = " ".join(text.split())
    return repr(line if len(line) <= SHOWN else f"{line[:SHOWN]}...")
