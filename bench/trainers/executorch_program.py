"""LeNet5 with its gradients as ExecuTorch's program: python -m bench.trainers.executorch_program FOLDER.

This is a process of its own, because a device would get this file ready made. The pools are maxima over axes, because
ExecuTorch 1.5.1 computes a wrong gradient of a max pool: below one, a convolution's gradients were 1e3 to 1e4 times as
large as PyTorch's.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from executorch.exir import EdgeCompileConfig, to_edge
from torch import Tensor, nn
from torch.export import export
from torch.export.experimental import _export_forward_backward
from torch.nn.functional import cross_entropy, relu

from bench.trainers import task


class TrainedLeNet5(nn.Module):
    """LeNet5 whose forward pass ends with the mean loss. The names of its parameters are the task's."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(800, 500)
        self.fc = nn.Linear(500, task.CLASSES)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        for conv in (self.conv1, self.conv2):
            x = _pooled(relu(conv(x)))
        return cross_entropy(self.fc(relu(self.fc1(x.flatten(1)))), y)


def _pooled(x: Tensor) -> Tensor:
    """Return the maxima of the windows. Cells that share a maximum share its gradient, if it is not the 0 of ReLU."""
    images, channels, height, width = x.shape
    return x.reshape(images, channels, height // 2, 2, width // 2, 2).amax((3, 5))


def main(folder: Path) -> None:
    given = task.read(folder)
    module = TrainedLeNet5()
    module.load_state_dict({name: torch.from_numpy(value) for name, value in given.weights.items()})
    x, y = given.batch(0)
    example = (torch.from_numpy(x), torch.from_numpy(y).long())
    joint = _export_forward_backward(export(module, example, strict=True))
    edge = to_edge(joint, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    (folder / task.EXECUTORCH_FILE).write_bytes(edge.to_executorch().buffer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
