"""The maps of scripts/renames: what they name is there, and they bring a program to the names of today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RENAMES = ROOT / "scripts" / "renames"
BEFORE = """from edgefl.algorithms.base import Plan, Tally
from edgefl.rounds import exchange
import edgefl.nn

def f(tally: Tally) -> object:
    return exchange.plan_of, edgefl.nn.convert, Plan
"""
NOW = """from edgefl.methods import Plan, Accumulator
from edgefl.methods.rounds import exchange
import edgefl.torch

def f(tally: Accumulator) -> object:
    return exchange.plan_of, edgefl.torch.convert, Plan
"""


def test_a_program_of_before_gets_the_names_of_now(tmp_path: Path) -> None:
    program = tmp_path / "mine.py"
    program.write_text(BEFORE)
    for script in ("modules.py", "classes.py"):
        subprocess.run([sys.executable, str(RENAMES / script), str(program)], cwd=ROOT, check=True)
    assert program.read_text() == NOW


def test_every_path_of_the_map_of_modules_is_there_or_moved_on() -> None:
    rows = [line.split("\t") for line in (RENAMES / "modules.tsv").read_text().splitlines()]
    package = [(old, new) for old, new in rows if new.startswith(("edgefl/", "server/"))]
    assert len(package) > 350
    assert [new for _, new in package if not (ROOT / new).exists()] == []
    assert [old for old, new in package if (ROOT / old).exists() and old != new] == []


def test_every_class_of_the_map_is_defined_in_its_room() -> None:
    rows = [line.split("\t") for line in (RENAMES / "classes.tsv").read_text().splitlines()]
    sources = {
        path: path.read_text("utf-8") for folder in ("edgefl", "server") for path in (ROOT / folder).rglob("*.py")
    }
    text = "\n".join(sources.values())
    assert len(rows) > 150
    assert [new for _, _, new in rows if f"class {new}" not in text] == []
