"""The house's own measures, which may not grow: rooms, arrows and floors of the import graph, names, lengths.

A file or a function over the limit is split by concept. DATA lists files that are tables: rows, not a train of thought.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from graphlib import TopologicalSorter

from tests.test_imports import MODULES, needed, room_of

MOST_ROOMS = 12  # folders of edgefl/; the server's folder lies beside them
MOST_ARROWS = 80
MOST_FLOORS = 11
MOST_LINES = 350
MOST_FUNCTION_LINES = 40
DATA = {"edgefl.kernels.table"}  # one row per operation


def test_edgefl_has_at_most_twelve_rooms() -> None:
    rooms = {module.split(".")[1] for module, path in MODULES.items() if path.name == "__init__.py" and "." in module}
    assert len(rooms - {"server"}) <= MOST_ROOMS


def test_arrows_and_floors_between_the_rooms_do_not_grow() -> None:
    below: dict[str, set[str]] = {room_of(module): set() for module in MODULES if module != "edgefl"}
    for module, path in MODULES.items():
        below.get(room_of(module), set()).update(map(room_of, needed(module, path) - {"edgefl"}))
    below = {room: others - {room} for room, others in below.items()}
    floors: dict[str, int] = {}
    for room in TopologicalSorter(below).static_order():
        floors[room] = 1 + max((floors[other] for other in below[room]), default=0)
    assert sum(map(len, below.values())) <= MOST_ARROWS
    assert max(floors.values()) <= MOST_FLOORS


def test_every_class_name_stands_for_one_class() -> None:
    owners = defaultdict(set)
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                owners[node.name].add(module)
    assert {name: sorted(found) for name, found in owners.items() if len(found) > 1} == {}


def test_every_room_says_what_is_in_it() -> None:
    packages = {module: path for module, path in MODULES.items() if path.name == "__init__.py"}
    assert [m for m, path in packages.items() if not ast.get_docstring(ast.parse(path.read_text("utf-8")))] == []


def test_files_are_short_enough_to_read() -> None:
    lines = {module: path.read_text("utf-8").count("\n") for module, path in MODULES.items()}
    assert {module: count for module, count in lines.items() if count > MOST_LINES and module not in DATA} == {}
    assert [module for module in DATA if lines[module] <= MOST_LINES] == []  # a table that is short is no exception


def test_functions_are_short_enough_to_read() -> None:
    found = {}
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MOST_FUNCTION_LINES:
                    found[f"{module}.{node.name}"] = length
    assert found == {}
