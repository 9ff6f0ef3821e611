"""The kinds of models in PFLlib's zoo, written here after their published architectures.

Sources  McMahan et al. 2017 (CNN, MLP), LeCun et al. 1998 (LeNet), Krizhevsky et al. 2012 (AlexNet), He et al. 2016
         (ResNet), Joulin et al. 2017 (fastText), Kim 2014 (TextCNN), Zeng et al. 2014 (HAR), Vaswani et al. 2017
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bench.collection.entry import Entry, ids, image, values


class Logistic(nn.Module):
    """Multinomial logistic regression of flattened images."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(784, 10)

    def forward(self, x: Tensor) -> Tensor:
        return functional.log_softmax(self.fc(torch.flatten(x, 1)), dim=1)


class Perceptron(nn.Module):
    """One hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc = nn.Linear(784, 100), nn.Linear(100, 10)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.fc1(torch.flatten(x, 1)))
        return functional.log_softmax(self.fc(hidden), dim=1)


class AnyRankPerceptron(nn.Module):
    """Two layers, which flatten images and take features as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.act = nn.Linear(784, 200), nn.Linear(200, 10), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 4:
            x = x.view(x.size(0), -1)
        result: Tensor = self.fc2(self.act(self.fc1(x)))
        return result


class FedAvgNet(nn.Module):
    """The CNN of FedAvg: two 5x5 convolutions with pools, and 512 hidden units."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv2d(1, 32, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.conv2 = nn.Sequential(nn.Conv2d(32, 64, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.fc1 = nn.Sequential(nn.Linear(1024, 512), nn.ReLU(inplace=True))
        self.fc = nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.fc(self.fc1(torch.flatten(self.conv2(self.conv1(x)), 1)))
        return result


class Functional(nn.Module):
    """LeNet-like CNN whose activations and pools are functions."""

    def __init__(self, channels: int, side: int, sizes: tuple[int, int, int, int], dropout: float = 0.0) -> None:
        super().__init__()
        first, second, hidden, last = sizes
        self.conv1, self.conv2 = nn.Conv2d(channels, first, 5), nn.Conv2d(first, second, 5)
        self.pool, self.drop = nn.MaxPool2d(2, 2), nn.Dropout(dropout)
        self.fc1 = nn.Linear(second * ((side - 4) // 2 // 2 - 2) ** 2, hidden)
        self.fc2, self.fc3 = nn.Linear(hidden, last), nn.Linear(last, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(functional.relu(self.conv1(x)))
        x = self.pool(functional.relu(self.conv2(x)))
        x = functional.relu(self.fc1(self.drop(x.view(-1, self.fc1.in_features))))
        return functional.log_softmax(self.fc3(functional.relu(self.fc2(x))), dim=1)


def alexnet() -> nn.Module:
    """AlexNet for images of 32 pixels."""
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 3, 2, 1), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        *(nn.Conv2d(64, 192, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(384, 256, 3, padding=1)),
        *(nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(), nn.Linear(1024, 512)),
        *(nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(512, 10)),
    )


class Residual(nn.Module):
    """A basic block of ResNet, with the norm that `norm` builds."""

    expansion = 1

    def __init__(self, inputs: int, outputs: int, stride: int, norm: type[nn.Module] = nn.BatchNorm2d) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1, self.relu = norm(outputs), nn.ReLU(inplace=True)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), norm(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += identity
        result: Tensor = self.relu(out)
        return result


def resnet(blocks: tuple[int, ...], widths: tuple[int, ...], norm: type[nn.Module] = nn.BatchNorm2d) -> nn.Module:
    """ResNet of basic blocks for images of 32 pixels."""
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 3, 1, 1, bias=False), norm(widths[0]), nn.ReLU(inplace=True)]
    inputs = widths[0]
    for stage, (number, width) in enumerate(zip(blocks, widths, strict=True)):
        for block in range(number):
            layers.append(Residual(inputs, width, 2 if stage and not block else 1, norm))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(inputs, 10))


class HarNet(nn.Module):
    """Convolutions along time of sensor windows, as images of one row."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv2d(9, 32, (1, 9)), nn.ReLU(), nn.MaxPool2d((1, 2), stride=2))
        self.conv2 = nn.Sequential(nn.Conv2d(32, 64, (1, 9)), nn.ReLU(), nn.MaxPool2d((1, 2), stride=2))
        self.fc = nn.Sequential(nn.Linear(64 * 26, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 6))

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv2(self.conv1(x))
        return functional.log_softmax(self.fc(torch.flatten(x, 1)), dim=1)


class PackedLstm(nn.Module):
    """Two LSTM layers over packed sequences of one length, and the last hidden state."""

    def __init__(self, vocabulary: int = 60, width: int = 16, length: int = 10) -> None:
        super().__init__()
        self.length = length
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True, dropout=0.2)
        self.drop, self.fc = nn.Dropout(0.2), nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        lengths = torch.full((x.shape[0],), self.length)
        packed = pack_padded_sequence(self.embedding(x), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return functional.log_softmax(self.fc(self.drop(states[:, -1])), dim=1)


class FastText(nn.Module):
    """The mean of word vectors, and two Linear layers."""

    def __init__(self, vocabulary: int = 60) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 32, padding_idx=0)
        self.fc1, self.fc = nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return functional.log_softmax(self.fc(self.fc1(self.embedding(x).mean(1))), dim=1)


class TextConvolutions(nn.Module):
    """Convolutions of several lengths over word vectors, and the maximum over time."""

    def __init__(self, vocabulary: int = 60, length: int = 20) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 32)
        self.convs = nn.ModuleList(
            nn.Sequential(nn.Conv1d(32, 16, size), nn.ReLU(), nn.MaxPool1d(length - size + 1)) for size in (3, 4, 5)
        )
        self.drop, self.fc = nn.Dropout(0.5), nn.Linear(48, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embedding(x).permute(0, 2, 1)
        x = torch.cat([conv(x).squeeze(2) for conv in self.convs], 1)
        return functional.log_softmax(self.fc(self.drop(x)), dim=1)


class SinusoidTransformer(nn.Module):
    """Word vectors with fixed sine positions, two encoder layers, the mean over time and a head."""

    def __init__(self, vocabulary: int = 60, width: int = 32) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(vocabulary, width)
        steps, powers = torch.arange(40.0).unsqueeze(1), torch.arange(0, width, 2) * (-math.log(1e4) / width)
        pe = torch.zeros(1, 40, width)
        pe[0, :, 0::2], pe[0, :, 1::2] = torch.sin(steps * powers.exp()), torch.cos(steps * powers.exp())
        self.register_buffer("pe", pe)
        layer = nn.TransformerEncoderLayer(width, 2, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.fc = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embedding(x) * math.sqrt(self.width)
        x = self.encoder(x + self.pe[:, : x.size(1)])
        result: Tensor = self.fc(x.mean(1))
        return result


class HeadSplit(nn.Module):
    """A model as a base and a head, as personalised methods divide it."""

    def __init__(self) -> None:
        super().__init__()
        self.base = FedAvgNet()
        self.head, self.base.fc = self.base.fc, nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.base(x))
        return result


def review_mlp() -> nn.Module:
    """Three layers over bag-of-words features of product reviews."""
    return nn.Sequential(
        *(nn.Linear(500, 100), nn.ReLU(), nn.Linear(100, 50), nn.ReLU(), nn.Dropout(0.1)), nn.Linear(50, 2)
    )


TEXT = ids(10, 60)
ENTRIES = (
    Entry("pfllib/logistic", Logistic, image(28, 1)),
    Entry("pfllib/dnn", Perceptron, image(28, 1)),
    Entry("pfllib/fedavg_mlp", AnyRankPerceptron, image(28, 1)),
    Entry("pfllib/fedavg_cnn", FedAvgNet, image(28, 1)),
    Entry("pfllib/digit_cnn", lambda: Functional(1, 28, (10, 20, 50, 50), 0.5), image(28, 1)),
    Entry("pfllib/cifar_net", lambda: Functional(3, 32, (6, 16, 120, 84)), image(32)),
    Entry("pfllib/lenet", lambda: Functional(1, 28, (32, 64, 120, 84)), image(28, 1)),
    Entry("pfllib/alexnet", alexnet, image(32)),
    Entry("pfllib/resnet4", lambda: resnet((1,), (16,)), image(32)),
    Entry("pfllib/resnet10", lambda: resnet((1, 1, 1, 1), (16, 32, 64, 128)), image(32)),
    Entry("pfllib/har_cnn", HarNet, values(9, 1, 128)),
    Entry("pfllib/lstm", PackedLstm, TEXT),
    Entry("pfllib/fasttext", FastText, TEXT),
    Entry("pfllib/textcnn", TextConvolutions, ids(20, 60)),
    Entry("pfllib/transformer", SinusoidTransformer, TEXT),
    Entry("pfllib/head_split", HeadSplit, image(28, 1)),
    Entry("pfllib/amazon_mlp", review_mlp, values(500)),
)
