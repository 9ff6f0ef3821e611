"""Rewrites imports, dotted names and file paths by the map modules.tsv: `python scripts/renames/modules.py FILE ...`.

The map has one row per moved file: its former path, a tab, its present path. The named files are rewritten in place. So
the script also brings a program of one's own to the module paths of today. It moves no file.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

MAP = Path(__file__).with_name("modules.tsv")
PACKAGES = {"server": "edgefl.server"}  # folders that are imported by another name
DOTTED = re.compile(r"\bedgefl(?:\.[A-Za-z_]\w*)+")
PATH = re.compile(r"(?<![\w./-])((?:[\w-]+/)*\w+\.pyi?)\b(?!\()")
FOLDER = re.compile(r"(?<![\w./-])((?:edgefl|tests)(?:/\w+)+)(?=/|\b)(?!\.\w)")


def dotted(path: str) -> str:
    """Return the import name of a file of the repository: edgefl/kernels/__init__.py is edgefl.kernels."""
    parts = path.removesuffix(".py").split("/")
    parts[:1] = [PACKAGES.get(parts[0], parts[0])]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Renames:
    """The map, by path and by import name."""

    def __init__(self, rows: Mapping[str, str]) -> None:
        self.paths = dict(rows)
        self.modules = {dotted(a): dotted(b) for a, b in rows.items() if a.endswith(".py")}
        self.folders: dict[str, str] = {}
        for old, new in rows.items():
            if old.endswith("/__init__.py"):
                self.folders[old.rpartition("/")[0]] = new.rpartition("/")[0]

    @classmethod
    def read(cls, path: Path = MAP) -> Renames:
        """Read the map. Raises ValueError with the row if a row does not have two columns."""
        rows = {}
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if line.count("\t") != 1:
                raise ValueError(f"{path}:{number}: {line!r}; expected OLD PATH, a tab, NEW PATH")
            old, new = line.split("\t")
            rows[old] = new
        return cls(rows)

    def name(self, old: str) -> str:
        """Return the present import name for a dotted name: its longest prefix that is a former module is replaced."""
        parts = old.split(".")
        for length in range(len(parts), 1, -1):
            prefix = ".".join(parts[:length])
            if prefix in self.modules:
                return ".".join([self.modules[prefix], *parts[length:]])
        return old

    def mention(self, text: str, beside: str) -> str:
        """Return the present form of a path in prose, with as many folders as before. `beside` is the folder of its
        file.
        """
        if text in self.paths:
            return self.paths[text]
        ends = [old for old in self.paths if old.endswith("/" + text)]
        near = [old for old in ends if old.rpartition("/")[0].startswith(beside)] or ends
        exact = [old for old in ends if old == f"{beside}/{text}"] or near
        found = {self.paths[old] for old in exact}
        if len(found) != 1:
            return text
        (new,) = found
        return "/".join(new.split("/")[-text.count("/") - 1 :])

    def folder(self, text: str) -> str:
        """Return the present form of a folder in prose."""
        for old in sorted(self.folders, key=len, reverse=True):
            if text == old or text.startswith(old + "/"):
                return self.folders[old] + text[len(old) :]
        return text


def statements(source: str, module: str, is_package: bool) -> Iterator[tuple[ast.ImportFrom, str]]:
    """Yield every `from ... import` of edgefl's modules, with the absolute name that it imports from."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = node.module or ""
        if node.level:
            parents = module.split(".")[: None if is_package and node.level == 1 else is_package - node.level]
            base = ".".join([*parents, *([node.module] if node.module else [])])
        if base == "edgefl" or base.startswith("edgefl."):
            yield node, base


def imported(node: ast.ImportFrom, base: str, module: str, renames: Renames) -> tuple[list[str], dict[str, str]]:
    """Return the statements that replace one, and the names of modules that change in the file."""
    groups: dict[str, list[str]] = {}
    changed: dict[str, str] = {}
    for alias in node.names:
        full = f"{base}.{alias.name}"
        if full in renames.modules:
            new, _, name = renames.modules[full].rpartition(".")
        else:
            new, name = renames.modules.get(base, base), alias.name
        if name != alias.name and not alias.asname:
            changed[alias.name] = name
        text = f"{name} as {alias.asname}" if alias.asname and alias.asname != name else name
        if alias.asname == alias.name == name:  # a re-export, said so
            text = f"{name} as {name}"
        groups.setdefault(relative(new, module) if node.level else new, []).append(text)
    return [f"from {new} import {', '.join(names)}" for new, names in groups.items()], changed


def relative(name: str, module: str) -> str:
    """Return `name` relative to the package of `module`, in which both lie."""
    package = module.split(".")[:-1]
    parts = name.split(".")
    shared = 0
    while shared < min(len(package), len(parts)) and package[shared] == parts[shared]:
        shared += 1
    return "." * (len(package) - shared + 1) + ".".join(parts[shared:])


def python(source: str, path: str, renames: Renames) -> str:
    """Return a Python source with its imports rewritten, and then all other names and paths in it."""
    module, is_package = dotted(path), path.endswith("__init__.py")
    new_module = dotted(renames.paths.get(path, path)) + (".__init__" if is_package else "")
    lines = source.splitlines(keepends=True)
    names: dict[str, str] = {}
    for node, base in sorted(statements(source, module, is_package), key=lambda pair: -pair[0].lineno):
        first, last = node.lineno - 1, node.end_lineno or node.lineno
        made, changed = imported(node, base, new_module, renames)
        tail = re.search(r"\s*#.*$", lines[last - 1].rstrip("\n"))
        comment = tail.group() if tail else ""
        indent = lines[first][: node.col_offset]
        lines[first:last] = [indent + text + comment + "\n" for text in made]
        names |= changed
    return renamed("".join(lines), names, path)


def renamed(source: str, names: Mapping[str, str], path: str) -> str:
    """Rename modules that are used by name in a file."""
    if not names:
        return source
    tree = ast.parse(source)
    bound = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    lines = source.splitlines(keepends=True)
    loads = (n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    used = [n for n in loads if n.id in names]
    for old, new in names.items():
        if old in bound or new in bound:
            print(f"{path}: {old} -> {new} is also a variable there")
    for node in sorted(used, key=lambda n: (n.lineno, n.col_offset), reverse=True):
        raw = lines[node.lineno - 1].encode()
        start, end = node.col_offset, node.end_col_offset
        lines[node.lineno - 1] = (raw[:start] + names[node.id].encode() + raw[end:]).decode()
    return "".join(lines)


def text(source: str, path: str, renames: Renames) -> str:
    """Rename dotted names, paths and folders in any text."""
    beside = path.rpartition("/")[0]

    def name(match: re.Match[str]) -> str:
        around = match.string[match.start() - 1 : match.end() + 1]
        is_format = re.match(r"\.\d", match.string[match.end() :]) or around == '"edgefl.graph"'  # names in model files
        return match.group() if is_format else renames.name(match.group())

    source = DOTTED.sub(name, source)
    source = PATH.sub(lambda match: renames.mention(match.group(1), beside), source)
    return FOLDER.sub(lambda match: renames.folder(match.group(1)), source)


def rewritten(source: str, path: str, renames: Renames) -> str:
    """Return the whole of a file by the map. `path` is the file's own former path, from the top of the repository."""
    if path.endswith((".py", ".pyi")):
        source = python(source, path, renames)
    return text(source, path, renames)


def main(paths: list[str]) -> None:
    renames = Renames.read()
    for path in map(Path, paths):
        source = path.read_text("utf-8")
        found = rewritten(source, str(path), renames)
        if found != source:
            path.write_text(found, "utf-8")
            print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
