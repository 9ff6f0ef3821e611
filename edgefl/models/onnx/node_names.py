"""The names of a graph's nodes, from the names in an ONNX file.

Parameters keep the names of the file's constants where they follow torch's pattern, such as "features.0.weight". Other
nodes are named after the ONNX nodes, whose names often hold the path of a module, such as "/layer1/layer1.0/relu/Relu".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from edgefl.models.graph.operations import Operation
from edgefl.models.graph.structure_checks import INPUT, LONGEST_NAME, NODE_NAME

PART = re.compile(r"[^A-Za-z0-9_.]+")
LONGEST = LONGEST_NAME - 20  # leaves space for a number and for the last part of a parameter's name


class Unnamed(Protocol):
    """The part of a NodeDraft that its name follows from."""

    op: Operation
    label: str
    module: str
    origins: dict[str, str]


class Naming:
    """A choice of different names for nodes."""

    def __init__(self) -> None:
        self._taken = {INPUT}
        self._counts = Counter[str]()  # how many numbers each name has had

    def names(self, drafts: Mapping[str, Unnamed]) -> dict[str, str]:
        """Return the name of each node. Nodes whose parameters have names of the file are named first."""
        found = {}
        for name, draft in drafts.items():
            owner = _owner(draft)
            if owner and not self._own(owner, draft) & self._taken:
                found[name] = self._free(owner, draft)
        for name, draft in sorted(drafts.items(), key=lambda each: not each[1].op.parameters()):
            if name not in found:
                found[name] = self._free(_of_module(draft) or _owner(draft) or _of_label(draft), draft)
        return found

    def _own(self, name: str, draft: Unnamed) -> set[str]:
        return {name} | {f"{name}.{part}" for part in draft.op.parameters() if part}

    def _free(self, name: str, draft: Unnamed) -> str:
        candidate = name
        while (own := self._own(candidate, draft)) & self._taken:
            self._counts[name] += 1
            candidate = f"{name}_{self._counts[name]}"
        self._taken |= own
        return candidate


def _owner(draft: Unnamed) -> str:
    """Return the name that the node's parameters have in the file, or "" if they do not follow torch's pattern."""
    for part, origin in draft.origins.items():
        name = origin if not part else origin.removesuffix(f".{part}") if origin.endswith(f".{part}") else ""
        if name and len(name) <= LONGEST and NODE_NAME.fullmatch(name):
            return name
    return ""


def _of_module(draft: Unnamed) -> str:
    """Return the path of the node's module, with the operation where the module is more than the node."""
    path, title = _clean(draft.module), draft.op.title.lower()
    is_whole = bool(draft.op.parameters()) or title in path.rpartition(".")[2].lower()
    return path if is_whole or not path else f"{path}.{title}"


def _of_label(draft: Unnamed) -> str:
    """Return a name made of the ONNX node's name, or of the operation."""
    text = draft.label.partition(":")[0]  # edgefl itself writes "conv1:0"
    is_title = text.startswith(("/", "node_"))
    return draft.op.title.lower() if is_title else _clean(text) or draft.op.title.lower()


def _clean(text: str) -> str:
    """Return the text with only the signs that a node's name may have."""
    parts = (part for part in PART.sub("_", text).strip("_")[:LONGEST].split(".") if part)
    return ".".join(parts)
