"""The U-Net of `python -m bench segmentation`, as a Graph, and the pictures with a label for each pixel.

Source  Ronneberger et al. 2015 (U-Net), with two steps down, padded convolutions and repeated cells on the way up
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import Concat, Conv2d, MaxPool2d, Operation, ReLU, Upsample

KINDS, SIZE = 11, 28  # the background and the ten kinds of Fashion-MNIST, and the cells along a side of a picture
WIDTH = 16
NOISE = 0.25  # standard deviation of the noise, where white is 1
BRIGHT = 26  # least value of 255 of a pixel that belongs to the garment


def u_net(width: int = WIDTH, size: int = SIZE) -> Graph:
    """Return the graph: a picture [1, size, size] becomes logits [KINDS, size, size]. `size` is a multiple of 4."""
    nodes: list[Node] = []

    def add(name: str, op: Operation, *inputs: str) -> str:
        nodes.append(Node(name, op, inputs or (nodes[-1].name if nodes else INPUT,)))
        return name

    def block(name: str, before: int, after: int) -> str:
        add(f"{name}.conv1", Conv2d(before, after, (3, 3), padding=(1, 1)))
        add(f"{name}.relu1", ReLU())
        add(f"{name}.conv2", Conv2d(after, after, (3, 3), padding=(1, 1)))
        return add(f"{name}.relu2", ReLU())

    fine = block("down1", 1, width)
    add("pool1", MaxPool2d((2, 2), (2, 2)))
    coarse = block("down2", width, 2 * width)
    add("pool2", MaxPool2d((2, 2), (2, 2)))
    block("middle", 2 * width, 4 * width)
    add("joined2", Concat(), coarse, add("larger2", Upsample((2, 2))))
    block("up2", 6 * width, 2 * width)
    add("joined1", Concat(), fine, add("larger1", Upsample((2, 2))))
    block("up1", 3 * width, width)
    add("head", Conv2d(width, KINDS, (1, 1)))
    return Graph((1, size, size), tuple(nodes))


def labelled(
    pictures: NDArray[np.uint8], kinds: NDArray[np.integer], draw: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the pictures [N, 1, size, size] with noise, and labels [N, size, size]: 0, or 1 and the garment's kind."""
    clean = pictures.reshape(len(pictures), 1, *pictures.shape[-2:])
    noisy = clean / 255 + NOISE * draw.standard_normal(clean.shape)
    labels = np.where(clean[:, 0] >= BRIGHT, 1 + kinds[:, None, None], 0)
    return noisy.astype(np.float32), labels.astype(np.int64)
