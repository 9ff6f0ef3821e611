"""Small torch models of the kinds that people bring: a function each, with the shape of an example it takes.

They are written as their users write them, with torch's modules and functions alone. They are so small that ten steps
of each take a moment. edgefl takes the models of TAKEN, and refuses the models of REFUSED, with the given words.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812  (the name every torch user writes)
from torch import Tensor, nn

from edgefl.learning.losses import MSE, BinaryCrossEntropy, Loss

CLASSES = 5
Shape = tuple[int, ...]


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 9), nn.Tanh(), nn.Linear(9, CLASSES))


def mlp_norms() -> nn.Module:
    """LayerNorm and GELU, as in the feed-forward part of a transformer."""
    return nn.Sequential(
        nn.Linear(12, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 10), nn.LayerNorm(10), nn.SiLU(),
        nn.Linear(10, CLASSES),
    )  # fmt: skip


def mlp_batch_norm() -> nn.Module:
    return nn.Sequential(
        nn.Linear(12, 16), nn.BatchNorm1d(16), nn.LeakyReLU(0.2), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.PReLU(8),
        nn.Linear(8, CLASSES),
    )  # fmt: skip


def softplus_regressor() -> nn.Module:
    """A network of positive features, as for counts."""
    return nn.Sequential(nn.Linear(12, 14), nn.Softplus(), nn.Linear(14, 6), nn.Softplus(2, 5), nn.Linear(6, CLASSES))


def logistic() -> nn.Module:
    return nn.Sequential(nn.Linear(12, CLASSES))


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 5), nn.Sigmoid(), nn.AvgPool2d(2), nn.Conv2d(4, 6, 3), nn.Sigmoid(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, CLASSES),
    )  # fmt: skip


class FunctionalNet(nn.Module):
    """The first network of torch's tutorial, without its dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 6, 3)
        self.fc1, self.fc2 = nn.Linear(54, 12), nn.Linear(12, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(self.conv2(x))
        return self.fc2(F.relu(self.fc1(x.view(-1, 54))))


def same_padding() -> nn.Module:
    """Build a model as from Keras, with padding 'same', of even kernels, too."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding="same"), nn.ReLU(), nn.Conv2d(6, 6, 4, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 2, padding="same", dilation=3), nn.SiLU(), nn.Flatten(),
        nn.Linear(8 * 16, CLASSES),
    )  # fmt: skip


def vgg_like() -> nn.Module:
    def block(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]

    return nn.Sequential(
        *block(3, 6), *block(6, 6), nn.MaxPool2d(2), *block(6, 8), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d((2, 2)),
        nn.Flatten(), nn.Linear(32, 12), nn.ReLU(inplace=True), nn.Linear(12, CLASSES),
    )  # fmt: skip


def all_convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU(), nn.Conv2d(6, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, CLASSES, 1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), norm(outputs)
        self.conv2, self.norm2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), norm(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        return self.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, 1, 1, bias=False), norm(6), nn.ReLU(inplace=True))
        self.layer1 = nn.Sequential(Residual(6, 6, 1, norm), Residual(6, 8, 2, norm))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.avgpool(self.layer1(self.stem(x)))
        return self.fc(torch.flatten(x, 1))


def resnet() -> nn.Module:
    return ResNet(nn.BatchNorm2d)


def resnet_group_norm() -> nn.Module:
    return ResNet(lambda channels: nn.GroupNorm(2, channels))


class Inverted(nn.Module):
    """MobileNetV2's block."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.adds = stride == 1 and inputs == outputs
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True), nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


def mobilenet_v1() -> nn.Module:
    def separable(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        return [
            nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False), nn.BatchNorm2d(inputs), nn.ReLU(),
            nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
        ]  # fmt: skip

    return nn.Sequential(
        nn.Conv2d(3, 4, 3, 2, 1), *separable(4, 8, 1), *separable(8, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, CLASSES),
    )  # fmt: skip


def mobilenet_v2() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU6(inplace=True), Inverted(4, 4, 1, 2),
        Inverted(4, 6, 2, 3), Inverted(6, 6, 1, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, CLASSES),
    )  # fmt: skip


class Squeeze(nn.Module):
    def __init__(self, channels: int, hidden: int, activation: nn.Module, gate: nn.Module) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(channels, hidden, 1), nn.Conv2d(hidden, channels, 1)
        self.activation, self.gate = activation, gate

    def forward(self, x: Tensor) -> Tensor:
        return self.gate(self.fc2(self.activation(self.fc1(self.pool(x))))) * x


class Excited(nn.Module):
    """A block of MobileNetV3 or EfficientNet: expand, depthwise, squeeze and excite, project."""

    def __init__(
        self, channels: int, hidden: int, kernel: int, activation: type[nn.Module], squeeze: nn.Module
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, hidden, 1, bias=False), nn.BatchNorm2d(hidden), activation(),
            nn.Conv2d(hidden, hidden, kernel, 1, kernel // 2, groups=hidden, bias=False), nn.BatchNorm2d(hidden),
            squeeze, activation(), nn.Conv2d(hidden, channels, 1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


def mobilenet_v3() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6), nn.Hardswish(),
        Excited(6, 12, 5, nn.Hardswish, Squeeze(12, 4, nn.ReLU(), nn.Hardsigmoid())), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(6, 10), nn.Hardswish(), nn.Linear(10, CLASSES),
    )  # fmt: skip


def efficientnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6), nn.SiLU(),
        Excited(6, 12, 3, nn.SiLU, Squeeze(12, 3, nn.SiLU(), nn.Sigmoid())), nn.Conv2d(6, 8, 1), nn.BatchNorm2d(8),
        nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES),
    )  # fmt: skip


class Dense(nn.Module):
    def __init__(self, inputs: int, growth: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(inputs + growth * i), nn.ReLU(), nn.Conv2d(inputs + growth * i, growth, 3, padding=1)
            )
            for i in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


def densenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), Dense(6, 3, 3), nn.BatchNorm2d(15), nn.ReLU(), nn.Conv2d(15, 6, 1),
        nn.AvgPool2d(2), Dense(6, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, CLASSES),
    )  # fmt: skip


class Fire(nn.Module):
    """SqueezeNet's."""

    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.one, self.three = nn.Conv2d(squeezed, expanded, 1), nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.one(x)), F.relu(self.three(x))], dim=1)


def squeezenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU(), Fire(6, 3, 4), nn.MaxPool2d(2), Fire(8, 3, 4),
        nn.Conv2d(8, CLASSES, 1), nn.ReLU(), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(),
    )  # fmt: skip


class Inception(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv2d(6, 4, 1)
        self.five = nn.Sequential(nn.Conv2d(6, 3, 1), nn.ReLU(), nn.Conv2d(3, 4, 5, padding=2))
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(6, 4, 1))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(torch.cat((self.one(x), self.five(x), self.pool(x)), dim=1))


def inception() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU(), Inception(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, CLASSES)
    )


class UNet(nn.Module):
    """Down and up again, with a class for each image at the end: the trunk of a segmentation network."""

    def __init__(self, up: nn.Module) -> None:
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.down2 = nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU())
        self.up, self.mix = up, nn.Sequential(nn.Conv2d(8, 4, 3, padding=1), nn.ReLU())
        self.pool, self.head = nn.MaxPool2d(2), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.down1(x)
        x = self.up(self.down2(self.pool(skip)))
        return self.head(self.mix(torch.cat([skip, x], 1)).mean((2, 3)))


def unet_transposed() -> nn.Module:
    return UNet(nn.ConvTranspose2d(6, 4, 2, 2))


def unet_upsampled() -> nn.Module:
    return UNet(nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(6, 4, 3, padding=1)))


def autoencoder() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 6, 3, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(6, 4, 3, 2, 1, output_padding=1), nn.ReLU(), nn.ConvTranspose2d(4, 1, 4, 2, 1), nn.Sigmoid(),
        nn.Flatten(), nn.Linear(64, CLASSES),
    )  # fmt: skip


def dilated() -> nn.Module:
    """Growing dilations, as in networks for dense prediction."""
    return nn.Sequential(
        nn.ZeroPad2d((1, 2, 0, 1)), nn.Conv2d(3, 4, 3, dilation=2), nn.PReLU(),
        nn.Conv2d(4, 6, 3, padding=2, dilation=2), nn.GELU(approximate="tanh"), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(6, CLASSES),
    )  # fmt: skip


def shuffled_groups() -> nn.Module:
    """Grouped convolutions, as in ResNeXt."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, groups=4), nn.GroupNorm(4, 8), nn.ReLU(),
        nn.Conv2d(8, 6, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, CLASSES),
    )  # fmt: skip


def audio() -> nn.Module:
    """Raw sound: strided 1-d convolutions with batch norm, as M5."""
    return nn.Sequential(
        nn.Conv1d(1, 6, 8, 4), nn.BatchNorm1d(6), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(6, 8, 3), nn.BatchNorm1d(8),
        nn.ReLU(), nn.MaxPool1d(2), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, CLASSES),
    )  # fmt: skip


def sensors() -> nn.Module:
    """Accelerometer and gyroscope: six channels over time."""
    return nn.Sequential(
        nn.Conv1d(6, 8, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(8, 8, 5, padding="same"), nn.ReLU(),
        nn.AvgPool1d(2), nn.Flatten(), nn.Linear(8 * 6, 10), nn.ReLU(), nn.Linear(10, CLASSES),
    )  # fmt: skip


def keyword_separable() -> nn.Module:
    """Depthwise separable convolutions along time."""
    return nn.Sequential(
        nn.Conv1d(6, 8, 3, padding=1), nn.BatchNorm1d(8), nn.Hardswish(),
        nn.Conv1d(8, 8, 5, padding=4, dilation=2, groups=8), nn.Conv1d(8, 6, 1), nn.BatchNorm1d(6), nn.Hardswish(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(6, CLASSES),
    )  # fmt: skip


class Temporal(nn.Module):
    """A block of a temporal convolutional network."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)
        self.conv2 = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + F.relu(self.conv2(F.relu(self.conv1(x)))))


def temporal() -> nn.Module:
    return nn.Sequential(nn.Conv1d(6, 6, 1), Temporal(6, 1), Temporal(6, 2), nn.Flatten(), nn.Linear(144, CLASSES))


class Highway(nn.Module):
    """A gate between what a layer makes of its input and another view of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.other, self.gate = nn.Linear(12, 9), nn.Linear(12, 9), nn.Linear(12, 9)
        self.head = nn.Linear(9, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.first(x)) * torch.sigmoid(self.gate(x)) + self.other(x))


class WideAndDeep(nn.Module):
    """The input beside what a deep part makes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.deep = nn.Sequential(nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 6), nn.ReLU())
        self.head = nn.Linear(18, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([self.deep(x), x], dim=1))


def mixed_gate() -> nn.Module:
    """A gated linear unit of convolutions."""

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value, self.gate = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(3, 6, 3, padding=1)
            self.fc = nn.Linear(6, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(F.adaptive_avg_pool2d(self.value(x) * self.gate(x).sigmoid(), 1).flatten(1))

    return Gated()


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.GRU] | type[nn.LSTM], num_layers: int = 1) -> None:
        super().__init__()
        self.recurrent, self.head = kind(6, 8, num_layers, batch_first=True), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.recurrent(x)
        return self.head(out[:, -1])


def gru() -> nn.Module:
    return Recurrent(nn.GRU)


def lstm() -> nn.Module:
    return Recurrent(nn.LSTM)


class SensorGRU(nn.Module):
    """Convolutions along time over sensors' channels, a GRU over what they give, and the mean of its states."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.gru = nn.Conv1d(6, 10, 5, 2, 2), nn.GRU(10, 7, batch_first=True)
        self.head = nn.Linear(7, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.gru(F.relu(self.conv(x)).transpose(1, 2))
        return self.head(y.mean(dim=1))


class Encoder(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.layer, self.head = nn.TransformerEncoderLayer(8, 2, 16, dropout, batch_first=True), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x).mean(1))


class VisionTransformer(nn.Module):
    """Patches, two layers of a Transformer with the norm first, and the mean over the patches."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 4, 12, 0.0, "gelu", batch_first=True, norm_first=True)
        self.patches, self.head = nn.Conv2d(3, 8, 2, 2), nn.Linear(8, CLASSES)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8), enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


class CausalText(nn.Module):
    """A block of a small GPT over what embeds a text, and its last place."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.feed = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.head = nn.Linear(8, CLASSES)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(12))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        x = x + self.attention(y, y, y, attn_mask=self.mask[:10, :10], need_weights=False)[0]
        return self.head((x + self.feed(x))[:, -1])


class Text(nn.Module):
    """The mean of words, as in fastText."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(WORDS, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embedding(x.long()).mean(1))


class TextCNN(nn.Module):
    """Windows of several widths over words, and the largest of each over time."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 6, padding_idx=0)
        self.convs = nn.ModuleList(nn.Conv1d(6, 4, width) for width in (2, 3))
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embedding(x).transpose(1, 2)
        found = [F.relu(conv(x)) for conv in self.convs]
        return self.fc(torch.cat([F.max_pool1d(y, y.size(2)).squeeze(2) for y in found], dim=1))


class PositionalText(nn.Module):
    """Words with learned positions, a feed-forward block at each, and the first place as the summary."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(WORDS, 8), nn.Parameter(torch.randn(1, length, 8) * 0.3)
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 12), nn.Linear(12, 8)
        self.mix, self.head = nn.Conv1d(8, 8, 5, padding=2), nn.Linear(8, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.position
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        return self.head(self.mix(x.mT).mT[:, 0])


class Summarised(nn.Module):
    """Words beside what all of them say together, which every place is told."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.all, self.each = nn.Embedding(WORDS, 6), nn.Linear(6, 6), nn.Linear(6, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        together = torch.tanh(self.all(x.mean(dim=1)))
        return self.head(F.silu(self.each(x + together.unsqueeze(1))).max(dim=1).values)


class CountedPositions(nn.Module):
    """Positions from a table of their own, as in BERT and GPT, and all places side by side."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 6), nn.Embedding(length, 6)
        self.norm, self.fc, self.head = nn.LayerNorm(6), nn.Linear(6, 5), nn.Linear(5 * length, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        batch, length = ids.shape
        x = self.norm(self.words(ids) + self.places(torch.arange(length, device=ids.device)))
        return self.head(torch.tanh(self.fc(x)).reshape(batch, -1))


class Scaled(nn.Module):
    """ConvNeXt's block with its layer scale, written with channels last."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv, self.norm = nn.Conv2d(channels, channels, 3, padding=1, groups=channels), nn.LayerNorm(channels)
        self.pwconv1, self.pwconv2 = nn.Linear(channels, 2 * channels), nn.Linear(2 * channels, channels)
        self.gamma = nn.Parameter(torch.full((channels,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.dwconv(x).permute(0, 2, 3, 1)
        y = self.gamma * self.pwconv2(F.gelu(self.pwconv1(self.norm(y))))
        return x + y.permute(0, 3, 1, 2)


def convnext_scaled() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 2, 2), Scaled(6), nn.Conv2d(6, 8, 2, 2), Scaled(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.LayerNorm(8), nn.Linear(8, CLASSES),
    )  # fmt: skip


class Permuted(nn.Module):
    """ConvNeXt's block, which normalises over channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.depth, self.norm = nn.Conv2d(6, 6, 7, padding=3, groups=6), nn.LayerNorm(6)
        self.up, self.down = nn.Linear(6, 12), nn.Linear(12, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.depth(x).permute(0, 2, 3, 1)
        return x + self.down(F.gelu(self.up(self.norm(y)))).permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 2, 2), Permuted(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, CLASSES)
    )


class Mixed(nn.Module):
    """A block of an MLP-Mixer: over the patches, then over the channels."""

    def __init__(self, patches: int, channels: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.tokens = nn.Sequential(nn.Linear(patches, 10), nn.GELU(), nn.Linear(10, patches))
        self.channels = nn.Sequential(nn.Linear(channels, 12), nn.GELU(), nn.Linear(12, channels))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.block, self.norm = nn.Conv2d(3, 6, 2, 2), Mixed(16, 6), nn.LayerNorm(6)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.block(x)).mean(dim=1))


def frames_mlp() -> nn.Module:
    """A feed-forward network at each of ten moments, and one over all of them."""
    return nn.Sequential(
        nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 4), nn.Flatten(), nn.Linear(40, CLASSES)
    )


class LastMoment(nn.Module):
    """Convolutions along time of frames that come as [time, features], and the last moment."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.conv = nn.Linear(6, 8), nn.Conv1d(8, 8, 3, padding=1)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.embed(x))
        x = self.norm(x + self.conv(x.permute(0, 2, 1)).permute(0, 2, 1))
        return self.head(x[:, -1])


def with_dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, CLASSES))


class LogSoftmax(nn.Module):
    """A log-softmax as it is written for nll_loss."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(12, 9), nn.Linear(9, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(self.fc2(torch.relu(self.fc1(x))), dim=1)


def ceiled() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(3, 2, ceil_mode=True), nn.Flatten(), nn.Linear(36, CLASSES))


def mlp_dropout() -> nn.Module:
    return nn.Sequential(
        nn.Dropout(0.1), nn.Linear(12, 20), nn.ReLU(), nn.Dropout(0.5), nn.Linear(20, 9), nn.BatchNorm1d(9), nn.GELU(),
        nn.Dropout(0.2), nn.Linear(9, CLASSES),
    )  # fmt: skip


def vgg_dropout() -> nn.Module:
    """Build a network with the head that VGG and AlexNet have."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, padding=1),
        nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((3, 3)), nn.Flatten(), nn.Dropout(), nn.Linear(72, 12),
        nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(12, CLASSES),
    )  # fmt: skip


class TutorialNet(nn.Module):
    """torch's MNIST example, with its dropout of planes and of features."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.drop = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 6, 3), nn.Dropout2d(0.25)
        self.fc1, self.fc2 = nn.Linear(96, 12), nn.Linear(12, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2))
        x = F.dropout(F.relu(self.fc1(torch.flatten(x, 1))), 0.5, training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)


def sensors_dropout() -> nn.Module:
    """Build a network that drops whole channels of a sequence, and takes maxima over all of the time."""
    return nn.Sequential(
        nn.Conv1d(6, 8, 5), nn.ReLU(), nn.Dropout1d(0.3), nn.MaxPool1d(3, 2, ceil_mode=True), nn.Conv1d(8, 6, 3),
        nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(6, CLASSES),
    )  # fmt: skip


def pooled_pyramid() -> nn.Module:
    """Means at several scales, of windows that do not divide the plane."""

    class Pyramid(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, padding=1)
            self.scales = nn.ModuleList(nn.AdaptiveAvgPool2d(size) for size in (1, 2, 3))
            self.fc = nn.Linear(4 * 14, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            x = F.relu(self.conv(x))
            return self.fc(torch.cat([torch.flatten(pool(x), 1) for pool in self.scales], 1))

    return Pyramid()


class Ghost(nn.Module):
    """GhostNet's: half of the channels are cheap views of the others."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        half = outputs // 2
        self.primary = nn.Sequential(nn.Conv2d(inputs, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU())
        self.cheap = nn.Sequential(
            nn.Conv2d(half, half, 3, padding=1, groups=half, bias=False), nn.BatchNorm2d(half), nn.ReLU()
        )

    def forward(self, x: Tensor) -> Tensor:
        first = self.primary(x)
        return torch.cat([first, self.cheap(first)], dim=1)


def ghostnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6), nn.ReLU(), Ghost(6, 8), Ghost(8, 8),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8, CLASSES),
    )  # fmt: skip


class Shuffle(nn.Module):
    """ShuffleNet's: the channels of the groups are partitioned out."""

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        return x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, channels, height, width)


def shufflenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 1), nn.ReLU(), nn.Conv2d(8, 8, 1, groups=2), Shuffle(), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(8, CLASSES),
    )  # fmt: skip


def regressor() -> nn.Module:
    """Two numbers for an example, trained with MSE."""
    return nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))


def multi_label() -> nn.Module:
    """Build a network that decides which of seven things are in an image, with a decision for each."""
    body = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 6, 3), nn.ReLU()]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 7))


FEATURES, IMAGE, GREY, SMALL_GREY, SEQUENCE, SOUND = (12,), (3, 8, 8), (1, 12, 12), (1, 8, 8), (6, 24), (1, 96)
FRAMES, IDS, WORDS = (10, 6), (10,), 20

TAKEN: dict[str, tuple[Callable[[], nn.Module], Shape]] = {
    "logistic regression": (logistic, FEATURES),
    "MLP": (mlp, FEATURES),
    "MLP with LayerNorm and GELU": (mlp_norms, FEATURES),
    "MLP with batch norm": (mlp_batch_norm, FEATURES),
    "MLP of positive features": (softplus_regressor, FEATURES),
    "log_softmax at the end": (LogSoftmax, FEATURES),
    "highway": (Highway, FEATURES),
    "wide and deep": (WideAndDeep, FEATURES),
    "LeNet with sigmoids": (lenet, (1, 14, 14)),
    "torch's tutorial": (FunctionalNet, GREY),
    "padding same": (same_padding, IMAGE),
    "VGG-like": (vgg_like, IMAGE),
    "all convolutional": (all_convolutional, IMAGE),
    "ResNet": (resnet, IMAGE),
    "ResNet with GroupNorm": (resnet_group_norm, IMAGE),
    "MobileNet": (mobilenet_v1, IMAGE),
    "MobileNetV2": (mobilenet_v2, IMAGE),
    "MobileNetV3": (mobilenet_v3, IMAGE),
    "EfficientNet-like": (efficientnet, IMAGE),
    "DenseNet-like": (densenet, IMAGE),
    "SqueezeNet-like": (squeezenet, IMAGE),
    "Inception-like": (inception, IMAGE),
    "U-Net, transposed": (unet_transposed, IMAGE),
    "U-Net, upsampled": (unet_upsampled, IMAGE),
    "autoencoder": (autoencoder, SMALL_GREY),
    "dilated": (dilated, IMAGE),
    "ResNeXt-like": (shuffled_groups, IMAGE),
    "gated convolution": (mixed_gate, IMAGE),
    "raw sound": (audio, SOUND),
    "sensors": (sensors, SEQUENCE),
    "separable along time": (keyword_separable, SEQUENCE),
    "temporal convolution": (temporal, SEQUENCE),
    "ConvNeXt-like": (convnext, IMAGE),
    "MLP-Mixer-like": (Mixer, IMAGE),
    "MLP of frames": (frames_mlp, FRAMES),
    "last moment": (LastMoment, FRAMES),
    "dropout": (with_dropout, FEATURES),
    "MLP with dropout": (mlp_dropout, FEATURES),
    "VGG-like with dropout": (vgg_dropout, IMAGE),
    "torch's tutorial with dropout": (TutorialNet, GREY),
    "sensors with dropout": (sensors_dropout, SEQUENCE),
    "pooling with ceil_mode": (ceiled, IMAGE),
    "pooling at several scales": (pooled_pyramid, IMAGE),
    "GhostNet-like": (ghostnet, IMAGE),
    "ShuffleNet-like": (shufflenet, IMAGE),
    "ConvNeXt with layer scale": (convnext_scaled, IMAGE),
    "text with Embedding": (Text, IDS),
    "text convolution": (TextCNN, IDS),
    "text with positions": (lambda: PositionalText(*IDS), IDS),
    "text with a summary": (Summarised, IDS),
    "text with counted positions": (lambda: CountedPositions(*IDS), IDS),
    "GRU": (gru, FRAMES),
    "LSTM": (lstm, FRAMES),
    "GRU of sensors": (SensorGRU, SEQUENCE),
    "Transformer encoder": (Encoder, (10, 8)),
    "ViT-like": (VisionTransformer, IMAGE),
    "causal attention": (CausalText, (10, 8)),
    "regression": (regressor, FEATURES),
    "multi-label": (multi_label, IMAGE),
}


class Noisy(nn.Module):
    """A layer whose results get uniform noise."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(FEATURES[0], CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y + torch.rand_like(y)


TEXTS = tuple(name for name, (_, shape) in TAKEN.items() if shape is IDS)
"""Those that take ids of words."""

LOSSES: dict[str, Loss] = {"regression": MSE(), "multi-label": BinaryCrossEntropy()}  # of the others: cross-entropy

REFUSED: dict[str, tuple[Callable[[], nn.Module], Shape, str]] = {
    "noise": (Noisy, FEATURES, "torch.rand_like: edgefl has no operation for it: write nn.Dropout"),
}
