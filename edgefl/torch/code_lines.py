"""Lines of a user's code, by which a refusal says where an operation comes from."""

from __future__ import annotations

import linecache
import re

import torch
from torch import fx
from torch.nn import functional

LIBRARY = linecache.__file__.replace("linecache", "contextlib")
NOT_OF_USERS = (*(str(file).replace("\\", "/").rpartition("/")[0] for file in (torch.__file__, __file__)), LIBRARY)
LONGEST_LINE = 80


def is_of_user(file: str) -> bool:
    """Return whether a file is not one of torch's or of this room's, nor of the interpreter's own."""
    return not file.replace("\\", "/").startswith(("<", *NOT_OF_USERS))


def shown_line(file: str, number: int) -> str:
    """Return a line of code in words: its file, its number and its text."""
    text = linecache.getline(file, number).strip()[:LONGEST_LINE]
    name = file.replace("\\", "/").rpartition("/")[2]
    return f"{name}, line {number}" + (f" (`{text}`)" if text else "")


def line_of(node: fx.Node) -> str:
    """Return the innermost line of the user's code that made a node of an exported graph, in words.

    The text is empty if the node has no such line.
    """
    frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    mine = [(file, int(number)) for file, number in frames if is_of_user(file)]
    return shown_line(*mine[-1]) if mine else ""


def module_of(node: fx.Node) -> tuple[str, str]:
    """Return the name and the class of the innermost module that made a node of an exported graph."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    if not stack:
        return "", ""
    path, kind = stack[-1]
    return str(path), str(kind if isinstance(kind, str) else kind.__name__).rpartition(".")[2]


def packet(node: fx.Node) -> str:
    """Return the name of a node's ATen operation, without overload and without the underscore of in-place forms."""
    name = getattr(node.target, "__name__", str(node.target)).partition(".")[0]
    return name.rstrip("_") or name


def torch_name(node: fx.Node) -> str:
    """Return the name by which torch's users know the operation of a node."""
    name = packet(node)
    if name == "wrap_with_set_grad_enabled":
        return "torch.no_grad"
    for space, prefix in ((functional, "torch.nn.functional"), (torch, "torch"), (torch.Tensor, "torch.Tensor")):
        if hasattr(space, name):
            return f"{prefix}.{name}"
    return f"aten.{name}"
