"""MNN's process, in an environment that has it: python -m bench.trainers.mnn_trainer FOLDER.

Unless `lazy_eval` is on, MNN's optimiser returns False and nothing is trained.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

from MNN import expr, nn, optim

from bench.trainers import task, turns

PARAMETERS = (
    "fc.bias",
    "fc.weight",
    "fc1.bias",
    "fc1.weight",
    "conv2.bias",
    "conv2.weight",
    "conv1.bias",
    "conv1.weight",
)


class LeNet5(nn.Module):
    """Caffe's LeNet-5: its sizes, with ReLU after every hidden layer."""

    def __init__(self, weights: task.Arrays) -> None:
        super().__init__()
        self.conv1 = nn.conv(1, 20, [5, 5])
        self.conv2 = nn.conv(20, 50, [5, 5])
        self.fc1 = nn.linear(800, 500)
        self.fc = nn.linear(500, task.CLASSES)
        self._start_from(weights)

    def forward(self, x: expr.Var) -> expr.Var:
        for conv in (self.conv1, self.conv2):
            x = expr.max_pool(expr.relu(conv(x)), [2, 2], [2, 2])
        x = expr.reshape(expr.convert(x, expr.NCHW), [0, -1])
        return self.fc(expr.relu(self.fc1(x)))

    def _start_from(self, weights: task.Arrays) -> None:
        """Load the weights. MNN's parameters come last layer first, and biases are matrices of one row."""
        shapes = [each.shape for each in self.parameters]
        values = [weights[name] for name in PARAMETERS]
        if [value.size for value in values] != [each.size for each in self.parameters]:
            raise RuntimeError(f"MNN's parameters have shapes {shapes}; expected those of {', '.join(PARAMETERS)}")
        loaded = [expr.const(value, shape, expr.NCHW) for value, shape in zip(values, shapes)]
        for value in loaded:
            value.fix_as_trainable()
        self.load_parameters(loaded)


def main(folder: Path) -> None:
    turns.pin()
    expr.lazy_eval(True)
    expr.set_thread_number(1)
    given = task.read(folder)
    module = LeNet5(given.weights)
    module.train(True)
    sgd = optim.SGD(module, task.LEARNING_RATE, 0.0, 0.0)
    ready = [_variables(*given.batch(index)) for index in range(task.BATCHES)]

    def train(batches: list[int]) -> float:
        for step, batch in enumerate(batches, start=1):
            x, targets = ready[batch % task.BATCHES]
            loss = nn.loss.cross_entropy(expr.softmax(module.forward(x), -1), targets)
            if step == len(batches):
                last = float(loss.read())  # after the step it would be the new weights' loss
            if not sgd.step(loss):
                raise RuntimeError("MNN's SGD.step returned False: nothing was trained; expected True")
        return last

    turns.serve(version("MNN"), train)


def _variables(x: object, y: object) -> tuple[expr.Var, expr.Var]:
    """Return the examples and one-hot targets."""
    images = expr.const(x, [task.BATCH, *task.SHAPE], expr.NCHW)
    return images, expr.one_hot(expr.const(y, [task.BATCH], expr.NCHW, expr.int), task.CLASSES, 1.0, 0.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
