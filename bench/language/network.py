"""The transformer of characters, as a Graph: blocks of attention to earlier characters and of two Linear layers, and
the samples that it is trained on.

Source  Radford et al. 2019 (GPT-2), with the norms before attention and before the Linear layers
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import (
    GELU,
    Add,
    AddParameter,
    Embedding,
    LayerNorm,
    Linear,
    Operation,
    SelfAttention,
)

CHARACTERS, LENGTH = 78, 64  # characters of the alphabet, and characters of a sample
WIDTH, BLOCKS, HEADS = 256, 7, 8
DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "shakespeare_roles.npz"


def transformer(width: int = WIDTH, blocks: int = BLOCKS, heads: int = HEADS, length: int = LENGTH) -> Graph:
    """Return the graph: ids [length] become logits [characters, length] of the next character."""
    nodes = [
        Node("embedding", Embedding(CHARACTERS, width), (INPUT,)),
        Node("positions", AddParameter((width, length)), ("embedding",)),
    ]

    def add(name: str, op: Operation, *inputs: str) -> str:
        nodes.append(Node(name, op, inputs or (nodes[-1].name,)))
        return name

    below = "positions"
    for number in range(blocks):
        name = f"block{number}"
        add(f"{name}.norm1", LayerNorm((width,)), below)
        add(f"{name}.attention", SelfAttention(width, heads, width // heads, causal=True))
        add(f"{name}.out", Linear(width, width))
        middle = add(f"{name}.sum1", Add(), below, f"{name}.out")
        add(f"{name}.norm2", LayerNorm((width,)))
        add(f"{name}.up", Linear(width, 4 * width))
        add(f"{name}.gelu", GELU())
        add(f"{name}.down", Linear(4 * width, width))
        below = add(f"{name}.sum2", Add(), middle, f"{name}.down")
    add("norm", LayerNorm((width,)))
    add("head", Linear(width, CHARACTERS))
    return Graph((length,), tuple(nodes))


def windows(text: NDArray[np.uint8], count: int, length: int = LENGTH) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first `count` samples of a text: ids [n, length], and the id that follows each id."""
    count = min(count, (len(text) - 1) // length)
    x = text[: count * length].reshape(count, length)
    y = text[1 : count * length + 1].reshape(count, length)
    return x.astype(np.int64), y.astype(np.int64)
