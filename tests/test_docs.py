"""README and docs/ are true: every command block runs as printed, and every link, file and cited section exists.

A page's blocks run in the order of the page, in one directory of their own. The line before a block may be `<!-- not
run: why -->`. It may also be `<!-- needs PACKAGE, ... -->`, and then the block is skipped without the package. Before a
text block it may be `<!-- prints -->`: the block above printed just this text. Or it may be `<!-- begins -->`: the
output of the block above begins with these lines, in which every number may differ, as processors round and time
differently.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import pytest

from edgefl.cli.cli import COMMANDS
from edgefl.kernels.table import FAMILIES
from edgefl.methods import METHODS
from edgefl.protocol.wire.connection import TABLE, WITH_MODEL, Stage
from edgefl.protocol.wire.handshake import Role
from edgefl.protocol.wire.messages import PROTOCOL, TYPES, Refused
from tests.papers_records import HAS_RECORDS
from tests.test_imports import ROOMS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = {"sh": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}
FENCE = re.compile(r"(?:^<!-- (?P<note>[^\n]*) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN, NEEDS, PRINTS, BEGINS = "not run: ", "needs ", "prints", "begins"
LIMIT_S = 240.0  # of one block on a busy machine
COLUMNS = 120
SOURCES = [
    path
    for folder in ("edgefl", "server", "tests", "bench", "csrc")
    for path in sorted((ROOT / folder).rglob("*.*"))
    if path.suffix in (".py", ".h", ".cc") and path != Path(__file__).resolve()
]


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: the line it begins in, its language, and the note before it."""

    line: int
    kind: str
    text: str
    note: str

    @property
    def runs(self) -> bool:
        return self.kind in PROGRAMS and not self.note.startswith(NOT_RUN)

    @property
    def lacks(self) -> str | None:
        """A package that it needs and that is not here."""
        needed = self.note.removeprefix(NEEDS).split(", ") if self.note.startswith(NEEDS) else []
        return next((package for package in needed if find_spec(package) is None), None)


def blocks(page: Path) -> list[Block]:
    content = page.read_text()
    return [
        Block(content.count("\n", 0, found.start("kind")) + 1, found["kind"], found["text"], found["note"] or "")
        for found in FENCE.finditer(content)
    ]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if any(each.runs for each in blocks(page))], ids=name)
def test_blocks_run_as_printed(page: Path, tmp_path: Path) -> None:
    printed = ""
    with alone():
        for block in blocks(page):
            where = f"{name(page)}, line {block.line}"
            if block.note == PRINTS:
                assert block.text == printed, f"{where}: the block above printed\n{printed}"
            elif block.note == BEGINS:
                shown = without_numbers(block.text)
                assert without_numbers(printed)[: len(shown)] == shown, f"{where}: the block above printed\n{printed}"
            elif block.runs and block.lacks is None:
                printed = run(block, where, tmp_path)
    if lacking := sorted({block.lacks for block in blocks(page) if block.lacks is not None}):
        pytest.skip(f"{name(page)}: blocks that need {', '.join(lacking)}, which is not installed")


def without_numbers(text: str) -> list[str]:
    """The lines of a text with 0 for every number, and without the spaces and rules that depend on widths."""
    lines = [re.sub(r"[-+]?\d[\d.,]*", "0", line) for line in text.splitlines()]
    return [" ".join(re.sub(r"─+", " ", line).split()) for line in lines if line.strip()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a   95.8 %  1,797\n", ["a 0 % 0"]),
        (" ───── \n\n+4.2 points [-1.2, x]", ["", "0 points [0 x]"]),
        ("12 accepted", ["0 accepted"]),
        ("3 refused", ["0 refused"]),
    ],
)
def test_numbers_alone_may_differ(text: str, expected: list[str]) -> None:
    assert without_numbers(text) == expected


def run(block: Block, where: str, folder: Path) -> str:
    """Return what a block printed. Fail with its errors. Nothing that it started outlives it."""
    process = subprocess.Popen(
        [*PROGRAMS[block.kind], block.text],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, errors = process.communicate(timeout=LIMIT_S)
    finally:
        with_children(process)
    assert process.returncode == 0, f"{where} ended with {process.returncode}:\n{block.text}\n{out}\n{errors}"
    assert "Traceback" not in errors, f"{where}:\n{errors}"
    return out


def environment(folder: Path) -> dict[str, str]:
    """The `edgefl` of this source tree first in the path, one thread per process."""
    program = folder / "bin" / "edgefl"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgefl "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "EDGEFL_NUM_THREADS": "1"}


def with_children(process: subprocess.Popen[str]) -> None:
    """Ends what is left of a block's session, such as a server in the background after a failure."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


@contextmanager
def alone() -> Iterator[None]:
    """The pages name ports, so one test at a time runs them on a machine."""
    with open(Path(tempfile.gettempdir()) / f"edgefl-pages-{os.getuid()}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_has_a_language_and_says_why_it_is_not_run(page: Path) -> None:
    for block in blocks(page):
        where = f"{name(page)}, line {block.line}"
        assert block.kind in (*PROGRAMS, "text"), f"{where}: a block of {block.kind!r}; expected sh, python or text"
        if block.kind in PROGRAMS and block.note and not re.fullmatch(f"{NEEDS}\\w+(, \\w+)*", block.note):
            assert len(block.note) > len(NOT_RUN) + 10, f"{where}: {block.note!r}; expected a reason"
            assert block.note.startswith(NOT_RUN), f"{where}: {block.note!r}; expected {NOT_RUN!r} and a reason"
    assert page.read_text().count("```") == 2 * len(blocks(page)), f"{name(page)} has a fence that is no block"


def is_left_out(path: str) -> bool:
    """Return whether this is an sdist, and the path is one of a record of the papers, which an sdist has not."""
    return not HAS_RECORDS and "bench/papers/results" in path


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not target.startswith("http"):
            path, _, anchor = target.partition("#")
            found = page.parent / path if path else page
            assert found.exists() or is_left_out(path), f"{name(page)} links to {target}"
            assert not anchor or anchor in anchors(found), f"{name(page)} links to {target}; there are {anchors(found)}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_file_that_is_named_is_there(page: Path) -> None:
    """Names in capitals stand for any: csrc/simd/NAME.h."""
    named = re.findall(r"`((?:edgefl|server|csrc|tests|bench)/[\w/.]+)`", page.read_text())
    there = (path for path in named if not re.search(r"[A-Z]{4}", path) and not is_left_out(path))
    gone = [path for path in there if not (ROOT / path).exists()]
    assert not gone, f"{name(page)} names {gone}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_prose_keeps_within_its_columns(page: Path) -> None:
    """Tables, pictures and blocks may be wider."""
    prose = FENCE.sub("", page.read_text()).splitlines()
    wide = [line for line in prose if len(line) > COLUMNS and not line.startswith(("|", "!["))]
    assert not wide, f"{name(page)} has lines of more than {COLUMNS} columns: {wide}"


def architecture() -> str:
    return (ROOT / "docs" / "architecture.md").read_text()


def test_the_architecture_lists_the_packages_in_the_order_of_their_imports() -> None:
    layers, _, _ = architecture().partition("## In which file")
    rows = "".join(row.split("|")[1] for row in layers.splitlines() if row.startswith("|"))
    listed = re.findall(r"`(?:edgefl[/.])(\w+)(?:/|\.py)?`", rows)
    assert listed == [room for room in ROOMS if room not in ("edgefl", "_finder", "__main__")]


def test_the_architecture_names_every_room_inside_the_larger_packages() -> None:
    packages = [ROOT / "edgefl" / package for package in ("kernels", "learning")]
    rooms = [init.parent for package in packages for init in package.glob("*/__init__.py")]
    rooms += [folder for folder in (ROOT / "csrc").iterdir() if folder.is_dir() and folder.name != "__pycache__"]
    assert [name(room) for room in rooms if f"`{name(room)}/`" not in architecture()] == []


def test_everything_that_the_architecture_names_is_there() -> None:
    """The page names a `Type`, or `path/file.py`, `function`, or `Class.method` and `module.function`, in any file."""
    text = " ".join(architecture().split())
    python = [path for path in SOURCES if path.suffix == ".py"]
    named = [([ROOT / path], what) for path, what in re.findall(r"`(\w+/[\w/]+\.py)`, `([\w.]+)`", text)]
    assert len(named) > 15
    named += [(python, what) for what in re.findall(r"`([A-Z][a-z]\w*(?:\.[a-z_]\w+)?)`", text)]
    for module, what in re.findall(r"`(exchange|update)\.(\w+)`", text):
        named.append(([path for path in python if path.stem == module], what))
    gone = [what for places, what in named if not any(defines(path, what) for path in places)]
    assert not gone, f"docs/architecture.md names {gone}"


@cache
def source_text(path: Path) -> str:
    return path.read_text()


def defines(path: Path, what: str) -> bool:
    """Return whether a file has each part of a dotted name as a function or class of its own."""
    text, parts = source_text(path), what.split(".")
    return all(part in text and re.search(rf"^\s*(?:def|class) {part}\b", text, re.MULTILINE) for part in parts)


def anchors(page: Path) -> set[str]:
    """The headings of a page as its links name them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_cited_section_is_in_the_specification() -> None:
    """The code cites docs/algorithms.md as ALGORITHMS 7.5, or 5, 7.5, 7.6 and 12.3."""
    sections = set(re.findall(r"^#+ (\d+(?:\.\d+)?)\b", (ROOT / "docs" / "algorithms.md").read_text(), re.MULTILINE))
    cited = {section: place for place, text in citations() for section in re.findall(r"\d+(?:\.\d+)?", text)}
    assert len(cited) > 20
    missing = {section: place for section, place in cited.items() if section not in sections}
    assert not missing, f"cited and not in docs/algorithms.md: {missing}"


def citations() -> Iterator[tuple[str, str]]:
    """Yield every "ALGORITHMS n.m, n and n" of the sources, with its file."""
    numbers = r"\d+(?:\.\d+)?(?: [a-m]\b)?"
    for path in SOURCES:
        for found in re.findall(rf"ALGORITHMS ({numbers}(?:(?:,| and) {numbers})*)", joined(path)):
            yield name(path), found


def joined(path: Path) -> str:
    """A source with its comments' lines joined."""
    return re.sub(r"\s*\n[\s#*/]*", " ", path.read_text())


def test_every_cited_part_of_the_architecture_is_there() -> None:
    """The code cites docs/architecture.md as ARCHITECTURE, "Deadlines and identity of runs"."""
    cited = {part: name(path) for path in SOURCES for part in re.findall(r'ARCHITECTURE, "([^"]+)"', joined(path))}
    assert cited
    assert {part: place for part, place in cited.items() if part not in architecture()} == {}


def test_every_citation_says_what_of_which_page() -> None:
    where = (ROOT / "CONTRIBUTING.md").read_text()
    assert all(page in where for page in ("(docs/algorithms.md)", "(docs/architecture.md)"))
    vague = r'ALGORITHMS(?! \d)|ARCHITECTURE(?!, ")|\b(?:ALGORITHMS|ARCHITECTURE)\.md'
    assert [name(path) for path in SOURCES if re.search(vague, joined(path))] == []


def test_the_kernels_page_has_a_row_for_every_family() -> None:
    page = (ROOT / "docs" / "kernels.md").read_text()
    table = page.partition("| family |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (\w+) \|", table, re.MULTILINE) == list(FAMILIES)


def test_the_readme_is_short_and_names_every_command_and_method() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 90
    listed = re.search(r"Methods: ((?:`[\w-]+`,? ?)+)\.", " ".join(lines))
    assert listed is not None
    assert re.findall(r"`([\w-]+)`", listed[1]) == list(METHODS)
    text = "\n".join([*lines, *(page.read_text() for page in PAGES)])
    assert [each for each in COMMANDS if f"edgefl {each}" not in text] == []


def test_the_protocol_lists_every_message_and_every_turn() -> None:
    text = (ROOT / "docs" / "protocol.md").read_text()
    assert f"is version {PROTOCOL}." in text
    rows = text.splitlines()
    for number, kind in TYPES.items():
        assert any(row.startswith(f"| {number} {kind.__name__} |") for row in rows), kind
    for state in get_args(Stage):
        turns = " | ".join(", ".join(_turns(state, role)) for role in ("device", "server"))
        assert f"| {state} | {turns} |" in rows


def _turns(state: Stage, role: Role) -> Iterator[str]:
    """Yield what a side may say in a state, and where it leads if it leads elsewhere, as the page has it."""
    for (at, sender, kind), after in TABLE.items():
        if (at, sender) == (state, role) and kind is not Refused:
            ready = f" or {WITH_MODEL[after]}" if after in WITH_MODEL and role == "server" else ""
            yield kind.__name__ + (f" → {after}{ready}" if after != state or ready else "")
