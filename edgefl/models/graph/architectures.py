"""The built-in models as Graphs. A Graph is an architecture without values, and Graph.init draws the parameters.

The models come from FedSPU's public code (fedspu_*), FedSpa section 5 (lenet5, vgg11, resnet18), PFLEGO fig. 10
(pflego_*), and the public code of FedDyn and FedDC that FedUmf's appendix uses (feddyn_mlp). The models for a user's
own data follow the shape of the data (default_models.py).
GroupNorm has 2 groups, as the papers give no number (sequential.py). The last layer of every model is the Linear "fc".
"""

from __future__ import annotations

from collections.abc import Callable

from edgefl.errors import GraphError, expected_name
from edgefl.models.graph import default_models
from edgefl.models.graph.default_models import default_name as default_name
from edgefl.models.graph.graph import Graph
from edgefl.models.graph.operations import Add, Conv2d, Flatten, GlobalAvgPool, ReLU, Shape
from edgefl.models.graph.sequential import Layers


def build(name: str, input_shape: Shape, classes: int, vocabulary: int | None = None) -> Graph:
    """Return the named model for samples of `input_shape`, which leaves out the batch, with `classes` outputs.

    name        one of NAMES
    vocabulary  number of ids of words, for a model that reads ids of words
    Raises GraphError if the name is not in NAMES, or if the input does not fit the model, for example if it is too
    small for the windows of the model.
    """
    if name not in NAMES:
        raise GraphError(f"model {name!r}; {expected_name(name, NAMES)}")
    model = Layers(input_shape)
    if name in default_models.BUILDERS:
        default_models.BUILDERS[name](model, vocabulary)
    else:
        _BUILDERS[name](model)
    if len(model.shape) > 1:
        model.add("flatten", Flatten())
    model.linear("fc", classes)
    return Graph(input_shape, tuple(model.nodes))


def _fedspu_emnist(model: Layers) -> None:
    model.conv_bn(1, 20, 3, pad=1)
    model.conv_bn(2, 20, 3, pad=1)


def _fedspu_cifar(model: Layers) -> None:
    model.conv_bn(1, 6, 3, pad=1)
    model.conv_bn(2, 16, 3, pad=1)
    model.add("flatten", Flatten())
    for index, features in ((1, 120), (2, 84)):
        model.linear(f"fc{index}", features, bias=False)
        model.add(f"relu{index + 2}", ReLU())


def _fedspu_speech(model: Layers) -> None:
    model.conv_bn(1, 50, 2, stride=2, pad=2)
    model.conv_bn(2, 50, 2, stride=2, pad=2)


def _digits_cnn(model: Layers) -> None:
    """Add the layers of a model of our own for the 8x8 digits that come with the package."""
    model.conv_bn(1, 32, 3, pad=1)
    model.conv_bn(2, 64, 3, pad=1)


def _lenet5(model: Layers) -> None:
    """Add layers with the sizes of Caffe's LeNet.

    ReLU follows every hidden layer, as the paper does not say where it is.
    """
    for index, channels in ((1, 20), (2, 50)):
        model.conv(f"conv{index}", channels, 5)
        model.add(f"relu{index}", ReLU())
        model.pool(f"pool{index}")
    model.add("flatten", Flatten())
    model.linear("fc1", 500)
    model.add("relu3", ReLU())


def _vgg11(model: Layers) -> None:
    pooled_after = (1, 2, 4, 6, 8)
    for index, channels in enumerate((64, 128, 256, 256, 512, 512, 512, 512), start=1):
        model.conv(f"conv{index}", channels, 3, pad=1)
        model.group_norm(f"gn{index}")
        model.add(f"relu{index}", ReLU())
        if index in pooled_after:
            model.pool(f"pool{index}")


def _resnet18(model: Layers) -> None:
    """Add the CIFAR form of ResNet-18.

    Its 3x3 stem has no pooling, and a block that changes the shape has a 1x1 convolution.
    """
    model.conv("conv1", 64, 3, pad=1, bias=False)
    model.group_norm("gn1")
    model.add("relu1", ReLU())
    for stage, channels in enumerate((64, 128, 256, 512), start=1):
        _residual_block(model, f"layer{stage}.0", channels, stride=1 if stage == 1 else 2)
        _residual_block(model, f"layer{stage}.1", channels, stride=1)
    model.add("pool", GlobalAvgPool())


def _residual_block(model: Layers, name: str, channels: int, stride: int) -> None:
    start, start_shape = model.last, model.shape
    model.conv(f"{name}.conv1", channels, 3, stride=stride, pad=1, bias=False)
    model.group_norm(f"{name}.gn1")
    model.add(f"{name}.relu1", ReLU())
    model.conv(f"{name}.conv2", channels, 3, pad=1, bias=False)
    model.group_norm(f"{name}.gn2")
    trunk, shortcut = model.last, start
    if start_shape != model.shape:
        op = Conv2d(start_shape[0], channels, (1, 1), (stride, stride), bias=False)
        model.add(f"{name}.shortcut", op, start)
        model.group_norm(f"{name}.shortcut_gn")
        shortcut = model.last
    model.add(f"{name}.add", Add(), trunk, shortcut)
    model.add(f"{name}.relu2", ReLU())


def _pflego_mlp(model: Layers) -> None:
    model.add("flatten", Flatten())
    model.linear("fc1", 200)
    model.add("relu1", ReLU())


def _feddyn_mlp(model: Layers) -> None:
    """Add the hidden layers of a network of 784, 100, 100 and 10 neurons for MNIST."""
    model.add("flatten", Flatten())
    for index in (1, 2):
        model.linear(f"fc{index}", 100)
        model.add(f"relu{index}", ReLU())


def _pflego_cifar(model: Layers) -> None:
    """Add layers whose padding lets 4096 features reach fc1, as in the figure of the paper.

    The other shapes in the paper contradict each other.
    """
    for index in (1, 2):
        model.conv(f"conv{index}", 64, 5, pad=2)
        model.add(f"relu{index}", ReLU())
        model.pool(f"pool{index}", 3, pad=1)
    model.add("flatten", Flatten())
    for index, features in ((1, 384), (2, 192)):
        model.linear(f"fc{index}", features)
        model.add(f"relu{index + 2}", ReLU())


def _pflego_omniglot(model: Layers) -> None:
    for index in range(1, 5):
        model.conv(f"conv{index}", 64, 3, pad=1)
        model.add(f"relu{index}", ReLU())
        model.pool(f"pool{index}")


_BUILDERS: dict[str, Callable[[Layers], None]] = {
    "fedspu_emnist": _fedspu_emnist,
    "fedspu_cifar": _fedspu_cifar,
    "fedspu_speech": _fedspu_speech,
    "lenet5": _lenet5,
    "vgg11": _vgg11,
    "resnet18": _resnet18,
    "pflego_mlp": _pflego_mlp,
    "pflego_cifar": _pflego_cifar,
    "pflego_omniglot": _pflego_omniglot,
    "feddyn_mlp": _feddyn_mlp,
    "digits_cnn": _digits_cnn,
}
PUBLISHED = tuple(_BUILDERS)
NAMES = (*PUBLISHED, *default_models.BUILDERS)

EXAMPLES: dict[str, tuple[Shape, int]] = {  # input shape and classes of the data of the publication
    "fedspu_emnist": ((1, 28, 28), 62),
    "fedspu_cifar": ((3, 32, 32), 10),
    "fedspu_speech": ((1, 32, 32), 35),
    "lenet5": ((1, 28, 28), 26),
    "vgg11": ((3, 32, 32), 10),
    "resnet18": ((3, 32, 32), 100),
    "pflego_mlp": ((1, 28, 28), 10),
    "pflego_cifar": ((3, 32, 32), 10),
    "pflego_omniglot": ((1, 28, 28), 55),
    "feddyn_mlp": ((1, 28, 28), 10),
    "digits_cnn": ((1, 8, 8), 10),
}
