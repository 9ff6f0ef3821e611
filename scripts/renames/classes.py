"""Renames classes by the map classes.tsv, where they are defined and wherever they are imported.

The map has one row per class: its module, a tab, its former name, a tab, its present name. A name is renamed in a file
only if the file's imports lead to that class, so two classes with one former name are told apart. `python
scripts/renames/classes.py FILE ...` rewrites the named files in place.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Mapping
from pathlib import Path

from modules import dotted  # scripts/renames/modules.py, beside this file

MAP = Path(__file__).with_name("classes.tsv")
Key = tuple[str, str]  # module and class


def read(path: Path = MAP) -> dict[Key, str]:
    """Read the map. Raises ValueError with the row if a row does not have three columns."""
    rows = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if line.count("\t") != 2:
            raise ValueError(f"{path}:{number}: {line!r}; expected MODULE, a tab, OLD NAME, a tab, NEW NAME")
        module, old, new = line.split("\t")
        rows[module, old] = new
    return rows


class Sources:
    """The modules of the packages, to follow a name to the class that it stands for."""

    def __init__(self, root: Path) -> None:
        self.trees: dict[str, tuple[ast.Module, bool]] = {}
        for top in ("edgefl", "server", "tests", "bench"):
            for path in (root / top).rglob("*.py"):
                name = dotted(path.relative_to(root).as_posix())
                self.trees[name] = ast.parse(path.read_text("utf-8")), path.name == "__init__.py"
        self.imports = {module: bindings(tree, module, package) for module, (tree, package) in self.trees.items()}

    def origin(self, module: str, name: str, depth: int = 0) -> Key:
        """Return the module that defines what `module` calls `name`, and the name there."""
        found = self.imports.get(module, {}).get(name)
        return (module, name) if found is None or depth > 8 else self.origin(*found, depth + 1)


def bindings(tree: ast.Module, module: str, is_package: bool) -> dict[str, Key]:
    """Return what the imports of a module bind: a name, and where it comes from."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: None if is_package and node.level == 1 else is_package - node.level]
                base = ".".join([*parents, *([node.module] if node.module else [])])
            found |= {alias.asname or alias.name: (base, alias.name) for alias in node.names}
    return found


def rewritten(source: str, path: str, rows: Mapping[Key, str], sources: Sources) -> str:
    """Return a Python source with the classes of the map under their new names."""
    module, is_package = dotted(path), path.endswith("__init__.py")
    tree = ast.parse(source)
    bound = bindings(tree, module, is_package)
    names = {old: new for (owner, old), new in rows.items() if owner == module and old not in bound}
    aliased: dict[Key, str] = {}  # imported under another name: only the import changes
    for name, (base, original) in bound.items():
        new = rows.get(sources.origin(base, original))
        if new is None or original != sources.origin(base, original)[1]:
            continue
        if name == original:
            names[name] = new
        else:
            aliased[base, original] = new
    attributes = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            target = ".".join(bound[owner]) if owner in bound else owner
            new = rows.get(sources.origin(target, node.attr))
            if new:
                attributes[node.end_lineno, node.end_col_offset - len(node.attr.encode())] = new
    return replaced(source, tree, names, aliased, attributes)


def replaced(
    source: str, tree: ast.Module, names: Mapping[str, str], aliased: Mapping[Key, str], attributes: Mapping[tuple, str]
) -> str:
    """Return the source with name tokens, imports under other names, attributes of modules, and prose replaced."""
    if not (names or aliased or attributes):
        return source
    lines = source.splitlines(keepends=True)
    edits: list[tuple[int, int, int, str]] = []
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    inside = {row for node in found for row in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    for name, new in aliased.items():
        for row in inside:
            lines[row - 1] = re.sub(rf"\b{name[1]} as ", f"{new} as ", lines[row - 1])
    tokens = list(tokenize.generate_tokens(io.StringIO("".join(lines)).readline))
    for before, token in zip([tokens[0], *tokens], tokens):
        row, column = token.start
        if token.type == tokenize.NAME:
            key = row, len(lines[row - 1][:column].encode())
            if key in attributes:
                edits.append((row, column, len(token.string), attributes[key]))
            elif token.string in names and before.string != ".":
                edits.append((row, column, len(token.string), names[token.string]))
        elif token.type in (tokenize.COMMENT, tokenize.STRING) and len(names):
            text = prose(token.string, names, token.type == tokenize.STRING, row in exported(tree))
            if text != token.string:
                edits.append((row, column, -len(token.string), text))
    text = "".join(lines)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for row, column, length, new in sorted(edits, reverse=True):
        at = starts[row - 1] + column
        text = text[:at] + new + text[at + abs(length) :]
    return text


def exported(tree: ast.Module) -> set[int]:
    """Return the rows of __all__."""
    found = [n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__"]
    return {row for node in found for row in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def prose(text: str, names: Mapping[str, str], is_string: bool, is_exported: bool) -> str:
    """Rename classes inside comments, docstrings and quoted annotations. A word that opens a sentence is left alone."""
    if is_string and not text.lstrip("rRfFbB").startswith('"""'):
        inner = text.strip("\"'")
        return text.replace(inner, names[inner]) if inner in names and is_exported else text
    for old, new in names.items():
        certain = len(re.findall("[A-Z][a-z]", old)) > 1
        lead = "" if certain else r"(?:(?<=[a-z,;:>=(`|\[] )|(?<=[(`\[|]))"
        text = re.sub(rf"{lead}(?<![\w.]){old}\b(?!\.py)", new, text)
    return text


def main(paths: list[str]) -> None:
    rows, sources = read(), Sources(Path())
    for path in map(Path, paths):
        source = path.read_text("utf-8")
        found = rewritten(source, path.as_posix(), rows, sources)
        if found != source:
            path.write_text(found, "utf-8")
            print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
