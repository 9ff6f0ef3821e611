"""LeNet5's training step as a LiteRT file: python -m bench.trainers.litert_signatures FOLDER, with TensorFlow.

This is a process of its own, because a device would get this file ready made. TensorFlow's converter refuses the
gradients of a ReLU and of a convolution's weight, which are written here in other operators. The gradient of a max
pool was not tried: the pools are maxima over axes. Cells that share a maximum share its gradient, if it is not the 0
of ReLU.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import tensorflow as tf

from bench.trainers import task

CONV_AXES, LINEAR_AXES = (2, 3, 1, 0), (1, 0)  # from torch's layouts to TensorFlow's


class SignedLeNet5(tf.Module):
    """LeNet5 whose `train` takes a step of SGD. Images have their channels last."""

    def __init__(self, weights: task.Arrays) -> None:
        super().__init__()
        self.values = {name: tf.Variable(_turned(name, value), name=name) for name, value in weights.items()}

    def logits(self, x: tf.Tensor) -> tf.Tensor:
        for name in ("conv1", "conv2"):
            x = _convolved(x, self.values[f"{name}.weight"]) + self.values[f"{name}.bias"]
            x = _pooled(_rectified(x))
        x = tf.reshape(tf.transpose(x, (0, 3, 1, 2)), (task.BATCH, 800))  # torch's order of features
        x = _rectified(x @ self.values["fc1.weight"] + self.values["fc1.bias"])
        return x @ self.values["fc.weight"] + self.values["fc.bias"]

    @tf.function(
        input_signature=[
            tf.TensorSpec((task.BATCH, *task.SHAPE[1:], task.SHAPE[0]), tf.float32),
            tf.TensorSpec((task.BATCH, task.CLASSES), tf.float32),
        ]
    )
    def train(self, x: tf.Tensor, targets: tf.Tensor) -> dict[str, tf.Tensor]:
        variables = list(self.values.values())
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(tf.reduce_sum(targets * tf.nn.log_softmax(self.logits(x)), 1))
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(task.LEARNING_RATE * gradient)
        return {"loss": loss}


def main(folder: Path) -> None:
    module = SignedLeNet5(task.read(folder).weights)
    with tempfile.TemporaryDirectory() as saved:
        tf.saved_model.save(module, saved, signatures={task.LITERT_SIGNATURE: module.train})
        converter = tf.lite.TFLiteConverter.from_saved_model(saved, signature_keys=[task.LITERT_SIGNATURE])
        converter.experimental_enable_resource_variables = True
        (folder / task.LITERT_FILE).write_bytes(converter.convert())


def _turned(name: str, value: object) -> tf.Tensor:
    return tf.transpose(value, {4: CONV_AXES, 2: LINEAR_AXES}.get(tf.rank(value).numpy()))


@tf.custom_gradient
def _convolved(x: tf.Tensor, weight: tf.Tensor) -> tuple[tf.Tensor, object]:
    """Convolve. The gradient of the weight is a convolution of images by gradients, summed over the batch."""

    def gradients(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        dx = tf.nn.conv2d_transpose(dy, weight, x.shape, 1, "VALID")
        turned = tf.nn.conv2d(tf.transpose(x, (3, 1, 2, 0)), tf.transpose(dy, (1, 2, 0, 3)), 1, "VALID")
        return dx, tf.transpose(turned, (1, 2, 0, 3))

    return tf.nn.conv2d(x, weight, 1, "VALID"), gradients


@tf.custom_gradient
def _rectified(x: tf.Tensor) -> tuple[tf.Tensor, object]:
    y = tf.nn.relu(x)
    return y, lambda dy: dy * tf.cast(y > 0, tf.float32)


def _pooled(x: tf.Tensor) -> tf.Tensor:
    _, height, width, channels = x.shape
    return tf.reduce_max(tf.reshape(x, (task.BATCH, height // 2, 2, width // 2, 2, channels)), (2, 4))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
