"""Renames identifiers by the map words.tsv: `python scripts/renames/words.py` over the whole repository, once.

The map has one row per identifier: the files in which it has this meaning, with commas between them, or `*` for all
files, then a tab, the former identifier, a tab, and the present identifier. Whole tokens are renamed, also inside
f-strings. Strings that are stored or sent keep their text.
"""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

MAP = Path(__file__).with_name("words.tsv")


def read(path: Path = MAP) -> dict[str, dict[str, str]]:
    """Return the identifiers for every file, or `*`. Raises ValueError with the row if a row does not have three
    columns.
    """
    rows: dict[str, dict[str, str]] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if line.count("\t") != 2:
            raise ValueError(f"{path}:{number}: {line!r}; expected FILES, a tab, OLD NAME, a tab, NEW NAME")
        files, old, new = line.split("\t")
        for file in files.split(","):
            rows.setdefault(file, {})[old] = new
    return rows


def rewritten(source: str, names: Mapping[str, str]) -> str:
    """Return a Python source with its identifiers renamed."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for (row, column), old, new in reversed(list(edits(source, names))):
        at = starts[row - 1] + column
        source = source[:at] + new + source[at + len(old) :]
    return source


def edits(source: str, names: Mapping[str, str]) -> Iterator[tuple[tuple[int, int], str, str]]:
    """Yield where a token changes, what it was and what it becomes."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string in names:
            yield token.start, token.string, names[token.string]
        elif token.type == tokenize.STRING and re.match("[rR]?[fF]", token.string):
            new = re.sub(r"(?<!\{)\{([^{}]*)", lambda match: "{" + expression(match[1], names), token.string)
            if new != token.string:
                yield token.start, token.string, new
        elif token.type in (tokenize.STRING, tokenize.COMMENT):
            new = re.sub(r"`([\w.]+)`", lambda match: "`" + expression(match[1], names) + "`", token.string)
            if new != token.string:
                yield token.start, token.string, new


def expression(text: str, names: Mapping[str, str]) -> str:
    """Return a piece of Python inside a string, with its identifiers renamed."""
    return re.sub(r"(?<![\"'\w])[A-Za-z_]\w*(?![\w\"'])", lambda match: names.get(match[0], match[0]), text)


def main() -> None:
    rows = read()
    files = subprocess.check_output(["git", "ls-files", "*.py", "*.pyi"], text=True).splitlines()
    for path in map(Path, files):
        names = rows.get("*", {}) | rows.get(path.as_posix(), {})
        source = path.read_text("utf-8")
        found = rewritten(source, names)
        if found != source:
            path.write_text(found, "utf-8")


if __name__ == "__main__":
    main()
