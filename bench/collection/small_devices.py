"""Usual architectures of images and sensors on small devices, written here after their papers.

Sources  Banbury et al. 2021 (MLPerf Tiny), Bai et al. 2018 (TCN), Ordonez and Roggen 2016 (DeepConvLSTM), Lawhern et
         al. 2018 (EEGNet), Sainath and Parada 2015 (keyword spotting), Dai et al. 2017 (M5), Ravanelli and Bengio 2018
         (SincNet), Tolstikhin et al. 2021 (MLP-Mixer), Ronneberger et al. 2015 (U-Net)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from bench.collection.entry import Entry, image, values
from bench.collection.kinds_of_pfllib import resnet


def ds_cnn() -> nn.Module:
    """Depthwise separable CNN of 49 frames of 10 coefficients."""
    layers: list[nn.Module] = [nn.Conv2d(1, 64, (10, 4), 2, (5, 1)), nn.BatchNorm2d(64), nn.ReLU(), nn.Dropout(0.2)]
    for _ in range(4):
        layers += [nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.BatchNorm2d(64), nn.ReLU()]
        layers += [nn.Conv2d(64, 64, 1), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(*layers, nn.Dropout(0.4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12))


def mobilenet_v1() -> nn.Module:
    """MobileNetV1 of a quarter of the width."""
    layers, inputs = [nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6()], 8
    for outputs, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1)):
        layers += [nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False), nn.BatchNorm2d(inputs)]
        layers += [nn.ReLU6(), nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU6()]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 2))


def anomaly_autoencoder() -> nn.Module:
    """The autoencoder of 640 features of machine sounds."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((640, 128), (128, 128), (128, 128), (128, 8), (8, 128), (128, 128), (128, 128)):
        layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, 640))


class Chomped(nn.Module):
    """A causal convolution: the positions behind the last one are cut off."""

    def __init__(self, inputs: int, outputs: int, dilation: int, normed: bool) -> None:
        super().__init__()
        conv = nn.Conv1d(inputs, outputs, 3, padding=2 * dilation, dilation=dilation)
        self.conv, self.cut = weight_norm(conv) if normed else conv, 2 * dilation

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.conv(x)[:, :, : -self.cut])


class TemporalBlock(nn.Module):
    """Two causal convolutions with dropout, and a shortcut."""

    def __init__(self, inputs: int, outputs: int, dilation: int, normed: bool) -> None:
        super().__init__()
        self.first = Chomped(inputs, outputs, dilation, normed)
        self.second = Chomped(outputs, outputs, dilation, normed)
        self.drop, self.down = nn.Dropout(0.2), nn.Conv1d(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.drop(self.second(self.drop(self.first(x)))) + self.down(x))


class Temporal(nn.Module):
    """A temporal convolutional network, which classifies by the last position."""

    def __init__(self, normed: bool) -> None:
        super().__init__()
        blocks = [TemporalBlock(6 if not level else 16, 16, 2**level, normed) for level in range(3)]
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.fc(self.blocks(x)[:, :, -1])
        return result


class ConvLstm(nn.Module):
    """DeepConvLSTM: four convolutions along time, two LSTM layers, the last state."""

    def __init__(self) -> None:
        super().__init__()
        convs = [nn.Conv1d(9 if not level else 32, 32, 5) for level in range(4)]
        self.convs, self.drop = nn.ModuleList(convs), nn.Dropout(0.5)
        self.lstm, self.fc = nn.LSTM(32, 32, num_layers=2, batch_first=True), nn.Linear(32, 6)

    def forward(self, x: Tensor) -> Tensor:
        for conv in self.convs:
            x = functional.relu(conv(x))
        states, _ = self.lstm(x.transpose(1, 2))
        result: Tensor = self.fc(self.drop(states[:, -1]))
        return result


class StandardisedHar(nn.Module):
    """A CNN of sensors that standardises its input by buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1, 1, 6).view(1, 6, 1))
        self.register_buffer("std", torch.linspace(0.5, 2, 6).view(1, 6, 1))
        self.layers = nn.Sequential(
            *(nn.Conv1d(6, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2)),
            *(nn.Conv1d(32, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(), nn.AdaptiveAvgPool1d(1)),
            *(nn.Flatten(), nn.Linear(32, 6)),
        )

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers((x - self.mean) / self.std)
        return result


def sensor_cnn() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv1d(9, 32, 7, padding=3), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(32, 64, 5, padding=2), nn.ReLU()),
        *(nn.MaxPool1d(2), nn.Conv1d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten()),
        *(nn.Dropout(0.3), nn.Linear(64, 6)),
    )


def keyword_cnn() -> nn.Module:
    """Two convolutions over a spectrogram, a low-rank layer and a head."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, (20, 8)), nn.ReLU(), nn.MaxPool2d((1, 3)), nn.Conv2d(32, 32, (10, 4)), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(32 * 13 * 8, 32, bias=False), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 12)),
    )


def raw_audio() -> nn.Module:
    """M5 of a quarter of the width: convolutions over the waveform."""
    layers: list[nn.Module] = [nn.Conv1d(1, 32, 80, 16), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(4)]
    for inputs, outputs in ((32, 32), (32, 64), (64, 64)):
        layers += [nn.Conv1d(inputs, outputs, 3), nn.BatchNorm1d(outputs), nn.ReLU(), nn.MaxPool1d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 10), nn.LogSoftmax(dim=1))


def eegnet() -> nn.Module:
    """EEGNet of 8 electrodes and 128 samples."""
    return nn.Sequential(
        *(nn.Conv2d(1, 8, (1, 64), padding=(0, 32), bias=False), nn.BatchNorm2d(8)),
        *(nn.Conv2d(8, 16, (8, 1), groups=8, bias=False), nn.BatchNorm2d(16), nn.ELU(), nn.AvgPool2d((1, 4))),
        *(nn.Dropout(0.25), nn.Conv2d(16, 16, (1, 16), padding=(0, 8), groups=16, bias=False)),
        *(nn.Conv2d(16, 16, 1, bias=False), nn.BatchNorm2d(16), nn.ELU(), nn.AvgPool2d((1, 8)), nn.Dropout(0.25)),
        *(nn.Flatten(), nn.Linear(64, 4)),
    )


class SincFilters(nn.Module):
    """SincNet's first layer: band-pass filters, each a function of two trained frequencies."""

    def __init__(self, filters: int, length: int) -> None:
        super().__init__()
        self.low = nn.Parameter(torch.linspace(0.02, 0.3, filters).unsqueeze(1))
        self.band = nn.Parameter(torch.full((filters, 1), 0.05))
        self.register_buffer("steps", 2 * math.pi * (torch.arange(length) - (length - 1) / 2).unsqueeze(0))
        self.register_buffer("window", torch.hamming_window(length, periodic=False).unsqueeze(0))

    def forward(self, x: Tensor) -> Tensor:
        low = torch.abs(self.low)
        high = low + torch.abs(self.band)
        filters = (torch.sin(high * self.steps) - torch.sin(low * self.steps)) / self.steps * self.window
        return functional.conv1d(x, filters.unsqueeze(1), stride=4)


def sincnet() -> nn.Module:
    return nn.Sequential(
        *(SincFilters(16, 32), nn.BatchNorm1d(16), nn.LeakyReLU(0.2), nn.MaxPool1d(3)),
        *(nn.Conv1d(16, 16, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(64, 8)),
    )


class MixerBlock(nn.Module):
    """A block of MLP-Mixer: an MLP over positions and an MLP over channels."""

    def __init__(self, positions: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.over_positions = nn.Sequential(nn.Linear(positions, 32), nn.GELU(), nn.Linear(32, positions))
        self.over_channels = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.over_positions(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        result: Tensor = x + self.over_channels(self.norm2(x))
        return result


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm, self.fc = nn.Conv2d(3, 32, 8, 8), nn.LayerNorm(32), nn.Linear(32, 10)
        self.blocks = nn.Sequential(MixerBlock(16, 32), MixerBlock(16, 32))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        result: Tensor = self.fc(self.norm(self.blocks(x)).mean(dim=1))
        return result


def _twice(inputs: int, outputs: int) -> nn.Module:
    convs = [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    convs += [nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*convs)


class UNet(nn.Module):
    """A U-Net of two levels. `bilinear` enlarges by interpolation and not by a transposed convolution."""

    def __init__(self, bilinear: bool) -> None:
        super().__init__()
        self.down1, self.down2, self.bottom = _twice(1, 8), _twice(8, 16), _twice(16, 32)
        up = [nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True) for _ in range(2)]
        ups = [nn.Sequential(up[level], nn.Conv2d(32 >> level, 16 >> level, 1)) for level in range(2)]
        transposed = [nn.ConvTranspose2d(32 >> level, 16 >> level, 2, 2) for level in range(2)]
        self.ups, self.pool = nn.ModuleList(ups if bilinear else transposed), nn.MaxPool2d(2)
        self.up2, self.up1, self.out = _twice(32, 16), _twice(16, 8), nn.Conv2d(8, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down1(x)
        second = self.down2(self.pool(first))
        x = self.bottom(self.pool(second))
        x = self.up2(torch.cat([self.ups[0](x), second], dim=1))
        x = self.up1(torch.cat([self.ups[1](x), first], dim=1))
        result: Tensor = self.out(x)
        return result


def video_cnn() -> nn.Module:
    """Two 3-d convolutions over eight frames."""
    return nn.Sequential(
        *(nn.Conv3d(3, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2)),
        *(nn.Conv3d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(16, 5)),
    )


ENTRIES = (
    Entry("own/ds_cnn", ds_cnn, values(1, 49, 10)),
    Entry("own/resnet8", lambda: resnet((1, 1, 1), (16, 32, 64)), image(32)),
    Entry("own/mobilenet_v1", mobilenet_v1, image(96)),
    Entry("own/ad_autoencoder", anomaly_autoencoder, values(640), "values"),
    Entry("own/tcn", lambda: Temporal(False), values(6, 40)),
    Entry("own/tcn_weight_norm", lambda: Temporal(True), values(6, 40)),
    Entry("own/deep_conv_lstm", ConvLstm, values(9, 40)),
    Entry("own/har_cnn", sensor_cnn, values(9, 128)),
    Entry("own/har_standardised", StandardisedHar, values(6, 64)),
    Entry("own/kws_cnn", keyword_cnn, values(1, 41, 40)),
    Entry("own/raw_audio", raw_audio, values(1, 4000)),
    Entry("own/eegnet", eegnet, values(1, 8, 128)),
    Entry("own/sincnet", sincnet, values(1, 400)),
    Entry("own/mlp_mixer", Mixer, image(32)),
    Entry("own/unet", lambda: UNet(False), image(32, 1)),
    Entry("own/unet_bilinear", lambda: UNet(True), image(32, 1)),
    Entry("own/video_cnn", video_cnn, values(3, 8, 16, 16)),
)
