"""The words of a row while its arguments are read from Python: which array tells an extent, and every shape as C++."""

from __future__ import annotations

from typing import Any

from .rows import beside


class Reading:
    """A row whose arguments have been read into C++ variables. An extent is a variable with the name of its letter."""

    def __init__(self, row: Any) -> None:
        self.row = row
        self.arguments = {argument.name: argument for argument in row.arguments}
        self.arrays = [argument for argument in row.arguments if argument.extents is not None]
        derived = beside("signature").DERIVED
        self.plain = [array for array in self.arrays if derived.isdisjoint(array.extents)]
        self.derived = [array for array in self.arrays if not derived.isdisjoint(array.extents)]
        self.tellers = self._tellers()

    def _tellers(self) -> dict[str, Any]:
        """Return for each letter, and for *, the array that gives the extent: the first array that has it.

        A flat array gives an extent only if it has no other. An array whose number of dimensions a rule gives is
        left out.
        """
        found: dict[str, Any] = {}
        for array in (array for array in self.arrays if "Z" not in array.extents):
            for letter in filter(_is_letter, array.extents):
                if not array.is_optional and (not array.is_flat or len(array.extents) == 1):
                    found.setdefault(letter, array)
        return found

    def first_with(self, extent: str) -> Any:
        """Return the first array that has an extent."""
        return next(array for array in self.arrays if extent in array.extents)

    def tells(self, array: Any) -> list[str]:
        return [letter for letter in array.extents if self.tellers.get(letter) is array]

    def extent(self, word: str) -> str:
        """Return an extent as C++: a letter, a number, an integer, a quotient, or the number of selected ids."""
        if "/" in word:
            first, second = word.split("/")
            return f"{self.extent(first)} / {self.extent(second)}"
        argument = self.arguments.get(word)
        if argument is not None and argument.is_ids:
            if argument.type == "uint32":
                return f"{word}.size()"
            return f"efl::selected({word}, {self.extent(self._below(argument))})"
        return word

    def _below(self, argument: Any) -> str:
        outer = self.arguments.get(argument.below)
        return self._below(outer) if outer is not None and outer.is_ids else argument.below

    # ---- for expressions

    def name(self, word: str) -> str:
        argument = self.arguments.get(word)
        if argument is not None and argument.is_array:
            return f"{word}.data"
        return self.extent(word)

    def item(self, word: str, place: int) -> str:
        return f"{word}[{place}]"

    def shown(self, rule: Any) -> str:
        """Return the value that a refusal shows, as C++."""
        argument = self.arguments[rule.name]
        if argument.is_array and argument.is_optional:
            return f'{{{rule.name}.data ? "values" : "value None"}}'
        if argument.is_array:
            return f'{{"shape ", {rule.name}.shape}}'
        if argument.is_ids:
            return f'{{{self.extent(rule.name)}, " ids"}}'
        if argument.type == "pair":
            return f'{{"value ", Shape{{{rule.name}[0], {rule.name}[1]}}}}'
        return f'{{"value ", {rule.name}}}'


def _is_letter(extent: str) -> bool:
    return extent == "*" or (len(extent) == 1 and extent.isupper() and extent not in beside("signature").DERIVED)


def told(reading: Reading) -> list[str]:
    """Return the lines that check the dimensions of arrays and make variables of their extents."""
    lines = []
    for array in reading.arrays:
        letters = reading.tells(array)
        if letters and not array.is_flat:
            has_tail = array.extents[-1] == "*"
            fixed = len(array.extents) - has_tail
            if (fixed, has_tail) != (0, True):
                lines.append(f"given.expect_dims({array.name}, {fixed}, {8 if has_tail else fixed});")
        lines += [_told(array, letter) for letter in letters]
    return lines


def _told(array: Any, letter: str) -> str:
    if array.is_flat:
        return f"const efl_int64 {letter} = {array.name}.size();"
    if letter == "*":
        return f"const efl_int64 inner = efl::product({array.name}.shape, {len(array.extents) - 1});"
    return f"const efl_int64 {letter} = {array.name}.shape[{array.extents.index(letter)}];"


def shape_checks(reading: Reading, array: Any) -> list[str]:
    """Return the lines that compare an array with the extents of other arrays."""
    if set(reading.tells(array)) == set(array.extents) or "Z" in array.extents:  # Z: see named_rules.py
        return []
    if array.is_flat:
        factors = ["inner" if word == "*" else reading.extent(word) for word in array.extents]
        return [f"given.expect_size({array.name}, {' * '.join(factors)});"]
    same = next((a for a in reading.arrays if a is not array and a.extents == array.extents and reading.tells(a)), None)
    if same is not None and not same.is_optional and not same.is_flat:
        return [f"given.expect_shape({array.name}, {same.name}.shape);"] if not reading.tells(array) else []
    words = [reading.extent(word) for word in array.extents if word != "*"]
    shape = f"Shape{{{', '.join(words)}}}"
    if array.extents[-1] == "*":
        whole = reading.tellers["*"]
        shape = f"tailed({{{', '.join(words)}}}, {whole.name}.shape, {len(whole.extents) - 1})"
    return [f"given.expect_shape({array.name}, {shape});"]
