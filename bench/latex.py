"""python -m bench latex: whether the LaTeX tables of a run compile, by pdflatex of Debian's texlive-latex-base.

    python -m bench latex RUN --keep table.pdf     the tables of a run, and the page to look at
    python -m bench latex                          tables with a row of every character that LaTeX takes for a command

It is not in .ci/run, as texlive takes 100 MB. The exit code is 1 if the page does not compile, or if a line of it is
too wide.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import edgefl
from edgefl.study.result_table import ResultPage, new_result_table
from edgefl.study.table_formats import as_latex

PROGRAM = "pdflatex"
DOCUMENT = "\\documentclass{article}\n\\begin{document}\n\\input{table.tex}\n\\end{document}\n"
HARD = "".join(map(chr, range(32, 127))) + "±ÀßœøéµΩ…\u2013\x1b"
OVERFULL = re.compile(r"Overfull \\hbox \(([\d.]+)pt too wide\)")


def main(arguments: list[str]) -> int:
    """Compile the tables, and print how that ended."""
    parser = argparse.ArgumentParser(prog="python -m bench latex", description=__doc__)
    parser.add_argument("run", nargs="?", type=Path, help="directory of a run; default: made-up tables")
    parser.add_argument("--keep", type=Path, metavar="FILE.pdf", help="keep the page")
    options = parser.parse_args(arguments)
    if shutil.which(PROGRAM) is None:
        print(f"{PROGRAM} is not here; expected it: apt-get install texlive-latex-base", file=sys.stderr)
        return 2
    table = hard_table() if options.run is None else edgefl.open_run(options.run).table(format="latex")
    with tempfile.TemporaryDirectory(prefix="edgefl-latex-") as folder:
        found = compiled(table, Path(folder))
        if options.keep is not None and (Path(folder) / "page.pdf").exists():
            shutil.copy(Path(folder) / "page.pdf", options.keep)
    print(found or "compiles")
    return int(bool(found))


def hard_table() -> str:
    """Return a table of every printable character and of some that LaTeX does not know."""
    rows = [[f"{i}: {HARD[i : i + 8]}", "-1.0±.2 %"] for i in range(0, len(HARD), 8)]
    rows += [["--", "[1]"], ["[2pt]", "*"], ["\\input{/etc/passwd}", "$x$"]]
    title = " ".join(name for name, _ in rows)
    return as_latex(ResultPage((new_result_table(title, ["name", "number"], rows),), (HARD,)))


def compiled(table: str, folder: Path) -> str:
    """Return why the table does not compile in a page of its own.

    It is empty if it compiles and no line is too wide.
    """
    (folder / "table.tex").write_text(table, "utf-8")
    (folder / "page.tex").write_text(DOCUMENT, "utf-8")
    line = [PROGRAM, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "page.tex"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, errors="replace", timeout=120)
    if done.returncode:
        wrong = next((each for each in done.stdout.splitlines() if each.startswith("!")), "! without a word")
        return f"does not compile: {wrong}"
    wide = [float(points) for points in OVERFULL.findall(done.stdout)]
    return f"{len(wide)} lines are too wide, the widest by {max(wide):.0f} points" if wide else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
