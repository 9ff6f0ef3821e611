"""The house's own measures, which may not grow: rooms, edges and layers of the import graph, names, lengths.

The tests that read every module are together here, because a process parses the modules for some seconds.
A file or a function over the limit is split by concept. DATA lists files that are tables: rows, not a train of thought.
"""

from __future__ import annotations

from collections import defaultdict
from graphlib import TopologicalSorter

from tests.sources import MODULES, ROOT, contents
from tests.test_imports import ROOMS, needed, room_of
from tests.test_public_docstrings import HEADLESS, first_line

MOST_ROOMS = 12  # folders of edgefl/, without the server's folder
MOST_EDGES = 80
MOST_LAYERS = 11
MOST_LINES = 350
MOST_FUNCTION_LINES = 40
DATA = {"edgefl.kernels.table"}  # one row per operation


def test_edgefl_has_at_most_twelve_rooms() -> None:
    rooms = {module.split(".")[1] for module, path in MODULES.items() if path.name == "__init__.py" and "." in module}
    assert len(rooms - {"server"}) <= MOST_ROOMS


def room_graph() -> dict[str, set[str]]:
    """Return which others every room, and every file beside the rooms, imports from, without edgefl/__init__.py."""
    graph: dict[str, set[str]] = {room: set() for room in ROOMS if room != "edgefl"}
    for module in MODULES:
        if module != "edgefl":
            graph[room_of(module)] |= {room_of(other) for other in needed(module)} - {room_of(module), "edgefl"}
    return graph


def layers_of(graph: dict[str, set[str]]) -> int:
    """Return how often all nodes can be removed that need no remaining node. Raises CycleError for a circle."""
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    layers = 0
    while sorter.is_active():
        sorter.done(*sorter.get_ready())
        layers += 1
    return layers


def test_edges_and_layers_of_the_rooms_do_not_grow() -> None:
    graph = room_graph()
    assert sum(map(len, graph.values())) <= MOST_EDGES
    assert layers_of(graph) <= MOST_LAYERS


def test_the_architecture_gives_the_figures_of_the_import_graph() -> None:
    graph, page = room_graph(), (ROOT / "docs" / "architecture.md").read_text()
    figures = f"{len(graph)} nodes in {layers_of(graph)} layers with {sum(map(len, graph.values()))} edges"
    assert figures in " ".join(page.split()), f"docs/architecture.md gives other figures than {figures}"


def test_every_module_opens_with_a_sentence_that_stands_alone() -> None:
    lines = {module: first_line(contents(module).docstring or "") for module in MODULES}
    wrong = [
        f"{module}: {line or 'no docstring'}" for module, line in lines.items() if not line or HEADLESS.match(line)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_class_name_stands_for_one_class() -> None:
    owners = defaultdict(set)
    for module in MODULES:
        for name in contents(module).classes:
            owners[name].add(module)
    assert {name: sorted(found) for name, found in owners.items() if len(found) > 1} == {}


def test_every_room_says_what_is_in_it() -> None:
    packages = [module for module, path in MODULES.items() if path.name == "__init__.py"]
    assert [module for module in packages if not contents(module).docstring] == []


def test_files_are_short_enough_to_read() -> None:
    lines = {module: path.read_text("utf-8").count("\n") for module, path in MODULES.items()}
    assert {module: count for module, count in lines.items() if count > MOST_LINES and module not in DATA} == {}
    assert [module for module in DATA if lines[module] <= MOST_LINES] == []  # a table that is short is no exception


def test_functions_are_short_enough_to_read() -> None:
    found = {
        f"{module}.{name}": length
        for module in MODULES
        for name, length in contents(module).functions
        if length > MOST_FUNCTION_LINES
    }
    assert found == {}
