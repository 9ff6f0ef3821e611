"""One wav file as a clip of 16 kHz and one channel. speech.py finds the files.

The standard library reads files of 16 kHz, 16 bits and one channel. scipy reads other files. Their channels are
averaged and the clip is resampled by a polyphase filter.
"""

from __future__ import annotations

import io
import math
import wave
from typing import NamedTuple

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.checked_reader import damage_named, damages
from edgefl.experiment.data.dataset import Array
from edgefl.experiment.data.logmel import RATE_HZ
from edgefl.experiment.data.optional_package import check_installed

HALF = {"uint8": 2**7, "int16": 2**15, "int32": 2**31}  # half the range of whole numbers (scipy: 24 bits as int32)


class Clip(NamedTuple):
    """A clip, float64 [16000] in [-1, 1], filled up with silence, and whether it was mixed or resampled."""

    samples: Array
    is_converted: bool


def read_clip(data: bytes, what: str) -> Clip:
    """Read the clip in a wav file of at most a second. Raises DataError, naming `what`, for any other file."""
    try:
        with wave.open(io.BytesIO(data)) as wav:
            form = (wav.getnchannels(), 8 * wav.getsampwidth(), wav.getframerate())
            claimed, frames = wav.getnframes(), wav.readframes(RATE_HZ + 1)
    except _stumbles() as error:
        if data[:4] != b"RIFF" or data[8:12] != b"WAVE" or "unknown format" not in str(error):
            raise DataError(f"{what}: not a wav file ({error or 'too short'}); expected PCM in a RIFF file") from error
        return _converted(data, what)
    if form != (1, 16, RATE_HZ):
        return _converted(data, what)
    if claimed > RATE_HZ or len(frames) != 2 * claimed:
        raise DataError(
            f"{what}: {claimed} samples stated, {len(frames) // 2} found; expected equal numbers, at most {RATE_HZ}"
        )
    return Clip(_filled_up(np.frombuffer(frames, "<i2") / 32768), False)


def _stumbles() -> tuple[type[Exception], ...]:
    """Return the types of error that the wave module raises for bytes that are not a wav file that it knows."""
    return (wave.Error, *damages())


def _converted(data: bytes, what: str) -> Clip:
    """Read a clip of another rate, depth or number of channels."""
    check_installed(f"{what}: a wav file that is not 16 kHz, 16 bits and one channel", "scipy")
    from scipy.io import wavfile
    from scipy.signal import resample_poly

    with damage_named(what):
        rate, found = wavfile.read(io.BytesIO(data))
    samples = _unit(found).reshape(len(found), -1).mean(1)
    if not np.isfinite(samples).all():
        raise DataError(f"{what}: sample {int(np.argmin(np.isfinite(samples)))} is not finite; expected finite samples")
    if rate < 1 or len(samples) > rate:
        raise DataError(f"{what}: {len(samples)} samples at {rate} Hz; expected at most a second")
    common = math.gcd(rate, RATE_HZ)
    samples = resample_poly(samples, RATE_HZ // common, rate // common) if rate != RATE_HZ else samples
    return Clip(_filled_up(samples[:RATE_HZ].clip(-1, 1)), True)


def _unit(found: Array) -> Array:
    """Return samples in [-1, 1]. Samples of type uint8 have their zero at 128."""
    half = HALF.get(found.dtype.name, 1)
    return (found.astype(np.float64) - (half if found.dtype == np.uint8 else 0)) / half


def _filled_up(samples: Array) -> Array:
    clip = np.zeros(RATE_HZ)
    clip[: len(samples)] = samples
    return clip
