"""Speech Commands: words, speakers and the official test list from a folder or archive, and log-mel spectra."""

import io
import tarfile
import wave
from pathlib import Path

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.data.catalog import load, shape_of
from edgefl.experiment.data.logmel import HI, LO, RATE_HZ, logmel
from edgefl.experiment.data.speech import SpeechSet, read_wav


def tone(hz: float, seconds: float = 1.0, amplitude: float = 0.5) -> np.ndarray:
    return amplitude * np.sin(2 * np.pi * hz * np.arange(int(seconds * RATE_HZ)) / RATE_HZ)


def write_wav(path: Path, samples: np.ndarray, *, channels: int = 1, rate: int = RATE_HZ) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as wav:
        wav.setparams((channels, 2, rate, 0, "NONE", ""))
        wav.writeframes((samples * 32767).astype("<i2").tobytes())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    clips = ["yes/aa_nohash_0.wav", "yes/bb_nohash_1.wav", "no/bb_nohash_0.wav", "_background_noise_/hum.wav"]
    for i, clip in enumerate(clips):
        write_wav(tmp_path / "speech" / clip, tone(300 * (i + 1), 0.5 if i else 1.0))
    (tmp_path / "speech" / "testing_list.txt").write_text("yes/bb_nohash_1.wav\n")
    (tmp_path / "speech" / "validation_list.txt").write_text("no/bb_nohash_0.wav\n")
    return tmp_path / "speech"


def test_words_speakers_and_the_official_test_part(folder: Path) -> None:
    data = SpeechSet().read(folder)
    assert data.x.shape == (2, 1, 49, 40) and data.classes == 2
    assert shape_of("speech_commands") == (1, 49, 40)
    assert data.y.tolist() == [0, 1]  # no/bb, yes/aa
    assert data.groups is not None and data.groups.tolist() == [1, 0]
    assert data.y_test is not None and data.y_test.tolist() == [1]
    assert data.groups_test is not None and data.groups_test.tolist() == [1]
    assert data.partial == "3 of 105829 clips"


def test_without_lists_there_is_no_test_part(folder: Path) -> None:
    (folder / "testing_list.txt").unlink()
    data = load(str(folder))
    assert len(data) == 3 and data.x_test is None and data.name == "speech"


def test_whole_set_is_not_called_partial(folder: Path) -> None:
    assert SpeechSet(clips=3).read(folder).partial is None


def test_archive_gives_the_same_as_the_folder(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "speech.tar.gz", "w:gz") as archive:
        archive.add(folder, arcname=".")
    packed, unpacked = SpeechSet().read(tmp_path / "speech.tar.gz"), SpeechSet().read(folder)
    assert packed.x.tobytes() == unpacked.x.tobytes() and packed.y.tolist() == unpacked.y.tolist()


def test_tone_is_in_the_filter_of_its_frequency() -> None:
    edges = 700 * (10 ** (np.linspace(2595 * np.log10(1 + 20 / 700), 2595 * np.log10(1 + 8000 / 700), 42) / 2595) - 1)
    for m in (5, 20, 38):
        assert int(logmel(tone(edges[m + 1]))[24].argmax()) == m


def test_silence_is_zero_and_full_scale_fits() -> None:
    assert logmel(np.zeros(RATE_HZ)).max() == 0
    loud = np.sign(tone(1000))
    assert 200 < logmel(loud).max() < 255 and LO < 0 < HI


def test_halving_the_amplitude_takes_away_two_ln_two() -> None:
    steps = 2 * np.log(2) * 255 / (HI - LO)
    difference = logmel(tone(1000, amplitude=0.5)).max() - logmel(tone(1000, amplitude=0.25)).max()
    assert abs(int(difference) - steps) <= 1


def test_short_clip_is_followed_by_silence(folder: Path) -> None:
    data = SpeechSet().read(folder)
    assert data.x[0, 0, :23].max() > 100 and data.x[0, 0, 27:].max() == 0  # no/bb lasts half a second


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: d[:-10], "8000 samples stated, 7995 found"),
        (lambda d: b"RIFX" + d[4:], "not a wav file"),
        (lambda d: b"", "not a wav file"),
    ],
)
def test_damaged_clip_is_named(folder: Path, damage, message: str) -> None:
    clip = folder / "no" / "bb_nohash_0.wav"
    clip.write_bytes(damage(clip.read_bytes()))
    with pytest.raises(DataError, match=f"bb_nohash_0.wav: {message}"):
        SpeechSet().read(folder)


def test_clip_longer_than_a_second_is_named(folder: Path) -> None:
    write_wav(folder / "no" / "cc_nohash_0.wav", tone(200, 1.5))
    with pytest.raises(DataError, match="24000 samples stated"):
        SpeechSet().read(folder)


def test_folder_without_clips_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no WORD/\*\.wav"):
        SpeechSet().read(tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b"RIFF\x10\x00\x00\x00WAVEfmt \xff\xff\xff\x7f",
        b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x80>\x00\x00\x00}\x00\x00\x02\x00\x10\x00"
        b"LIST\xf0\xff\xff\xffdata",
        b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x00\x00\x80>\x00\x00\x00}\x00\x00\x02\x00\x00\x00"
        b"data\x04\x00\x00\x00abcd",
        b"",
        b"RIFF",
    ],
)
def test_a_clip_that_the_wav_reader_stumbles_over_is_named(data: bytes) -> None:
    with pytest.raises(DataError, match=r"a\.wav: "):
        read_wav(io.BytesIO(data), "a.wav")
