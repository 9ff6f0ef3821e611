"""Clips of any rate, depth and number of channels become 16 kHz and one channel."""

from __future__ import annotations

import io
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.data import optional_package
from edgefl.experiment.data.speech import SpeechSet
from edgefl.experiment.data.wav import read_clip


def content(samples: np.ndarray, rate: int) -> bytes:
    """A wav file as scipy writes it: bytes, 16 or 32 bits, or floating-point numbers."""
    wavfile = pytest.importorskip("scipy.io.wavfile", reason="scipy is not installed")
    file = io.BytesIO()
    wavfile.write(file, rate, samples)
    return file.getvalue()


def of_24_bits(value: int, rate: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setparams((1, 3, rate, 0, "NONE", ""))
        wav.writeframes(value.to_bytes(3, "little", signed=True) * 100)
    return file.getvalue()


CONSTANT = [  # what is in the file, and what its samples are
    ("8 bits", np.full(100, 192, np.uint8), 0.5),
    ("8 bits, negative", np.full(100, 64, np.uint8), -0.5),
    ("16 bits stereo", np.tile(np.array([16384, 8192], np.int16), (100, 1)), 0.375),
    ("16 bits, four channels", np.tile(np.array([16384, 0, 0, 0], np.int16), (100, 1)), 0.125),
    ("32 bits", np.full(100, 2**30, np.int32), 0.5),
    ("32-bit floats", np.full(100, 0.25, np.float32), 0.25),
    ("64-bit floats", np.full(100, -0.25, np.float64), -0.25),
    ("floats above 1", np.full(100, 1.5, np.float32), 1.0),
]


@pytest.mark.parametrize(("samples", "value"), [each[1:] for each in CONSTANT], ids=[each[0] for each in CONSTANT])
def test_every_depth_has_its_values(samples: np.ndarray, value: float) -> None:
    found = read_clip(content(samples, 16000), "a.wav")
    assert found.is_converted
    assert (found.samples[:100] == value).all()
    assert (found.samples[100:] == 0).all()


def test_24_bits_have_their_values() -> None:
    pytest.importorskip("scipy.io.wavfile", reason="scipy is not installed")
    assert (read_clip(of_24_bits(2**22, 16000), "a.wav").samples[:100] == 0.5).all()


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000, 96000])
def test_a_tone_stays_the_tone(rate: int) -> None:
    """440 Hz, from any rate, is what it would have been at 16 kHz."""
    times = np.arange(rate) / rate
    found = read_clip(content((0.5 * np.sin(2 * np.pi * 440 * times)).astype(np.float32), rate), "a.wav").samples
    expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    assert np.abs(found - expected)[100:-100].max() < 0.01


def test_an_ordinary_clip_is_taken_to_the_bit() -> None:
    found = read_clip(content(np.arange(-50, 50, dtype=np.int16), 16000), "a.wav")
    assert not found.is_converted
    assert (found.samples[:100] == np.arange(-50, 50) / 32768).all()


REFUSED: list[tuple[np.ndarray, int, str]] = [
    (np.zeros(8001, np.int16), 8000, "a.wav: 8001 samples at 8000 Hz; expected at most a second"),
    (np.array([0, np.nan], np.float32), 16000, "a.wav: sample 1 is not finite; expected finite samples"),
]


@pytest.mark.parametrize(("samples", "rate", "message"), REFUSED)
def test_what_is_no_clip_is_named(samples: np.ndarray, rate: int, message: str) -> None:
    with pytest.raises(DataError) as error:
        read_clip(content(samples, rate), "a.wav")
    assert str(error.value) == message


def test_without_scipy_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    data = content(np.zeros(10, np.int16), 8000)
    monkeypatch.setattr(optional_package, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"needs the package scipy; expected: pip install 'edgefl\[science\]'"):
        read_clip(data, "a.wav")


def test_conversions_are_said(tmp_path: Path) -> None:
    clips: dict[str, Any] = {"yes/ann_nohash_0.wav": 16000, "no/ann_nohash_0.wav": 8000}
    for name, rate in clips.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(content(np.zeros(100, np.int16), rate))
    assert SpeechSet().read(tmp_path).notes == ("1 of 2 clips were mixed to one channel and resampled to 16 kHz",)
