"""python scripts/operations.py: writes the operations of every family into docs/kernels.md. `--check` writes nothing; 1
if the page lists others than the table of operations.

The other columns of the page's table are written by hand. Needs Python alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "kernels.md"
HEAD = "| family | operations |"

sys.path.insert(0, str(ROOT / "csrc"))
from generator.rows import families  # noqa: E402


def filled(page: str) -> str:
    """The page with the second column of its table as the rows say. ValueError if a family has no line."""
    before, head, table = page.partition(HEAD)
    lines, rest = table.split("\n\n", 1)
    title, rule, *rows = lines.split("\n")
    by_family = {row.split("|")[1].strip(): row for row in rows}
    if sorted(by_family) != sorted(families()):
        raise ValueError(
            f"{PAGE.name} has lines for {sorted(by_family)}; expected one for each of {sorted(families())}"
        )
    return "\n".join([f"{before}{head}{title}", rule, *map(_filled, by_family.items())]) + "\n\n" + rest


def _filled(line: tuple[str, str]) -> str:
    family, row = line
    names = ", ".join(f"`{operation.name}`" for operation in families()[family])
    return "|".join(["", f" {family} ", f" {names} ", *row.split("|")[3:]])


if __name__ == "__main__":
    found = PAGE.read_text("utf-8")
    if "--check" in sys.argv:
        sys.exit(filled(found) != found)
    PAGE.write_text(filled(found), "utf-8")
