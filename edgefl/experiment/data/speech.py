"""Google Speech Commands: a folder per word, a wav file per clip, log-mel features as images.

Warden, arXiv:1804.03209, describes the layout. A clip is the file WORD/SPEAKER_nohash_N.wav. It has 16 kHz, 16 bit, one
channel and at most a second. Folders whose name begins with "_" hold noise and are left out. testing_list.txt names the
clips of the official test part. The clips of validation_list.txt stay in the pool, because every client carves its own
validation part.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.archive import entries
from edgefl.experiment.data.checked_reader import damage_named
from edgefl.experiment.data.dataset import Array, DataSet, Shape
from edgefl.experiment.data.logmel import FRAMES, MELS, logmel
from edgefl.experiment.data.wav import read_clip

TESTING_LIST = "testing_list.txt"
_LIMIT_BYTES = 1 << 24  # most bytes of a list and of a clip


@dataclass(frozen=True)
class SpeechSet:
    """Speech Commands, in a folder or in the published archive. `clips` is the number of clips of the published set."""

    name: str = "speech_commands"
    clips: int = 105_829
    files: tuple[str, ...] = (TESTING_LIST,)

    @property
    def input_shape(self) -> Shape:
        """Return the shape of one example."""
        return 1, FRAMES, MELS

    def read(self, source: Path) -> DataSet:
        """Read features uint8 [N, 1, 49, 40], scaled to [-1, 1] as FedSPU does. Groups are speakers, classes are words.

        Raises  DataError naming the clip that is damaged, the value and what was expected.
        """
        features: dict[str, Array] = {}
        testing: set[str] = set()
        converted = 0
        for path, stream in entries(source, _is_wanted):
            what = f"{source}: {path}"
            if path.endswith(".wav"):
                clip = read_clip(_read_all(stream, what), what)
                converted += clip.is_converted
                features[_clip(path)] = logmel(clip.samples)
            else:
                testing.update(_read_all(stream, what).decode("utf-8", "replace").split())
        if not features:
            raise DataError(
                f"{source}: no WORD/*.wav; expected a folder of recordings for each word, as in Speech Commands"
            )
        said = f"{converted} of {len(features)} clips were mixed to one channel and resampled to 16 kHz"
        return self._assemble(features, testing).with_notes(*([said] if converted else []))

    def _assemble(self, features: dict[str, Array], testing: set[str]) -> DataSet:
        clips = sorted(features)
        words = sorted({PurePosixPath(clip).parent.name for clip in clips})
        speakers = sorted({_speaker(clip) for clip in clips})
        word_ids = {word: i for i, word in enumerate(words)}
        speaker_ids = {speaker: i for i, speaker in enumerate(speakers)}

        def part(names: list[str]) -> tuple[Array, Array, Array]:
            x = np.array([features[clip] for clip in names], np.uint8).reshape(-1, 1, FRAMES, MELS)
            y = np.array([word_ids[PurePosixPath(clip).parent.name] for clip in names], np.int32)
            return x, y, np.array([speaker_ids[_speaker(clip)] for clip in names], np.int32)

        x, y, groups = part([clip for clip in clips if clip not in testing])
        held_out = [clip for clip in clips if clip in testing]
        x_test, y_test, groups_test = part(held_out) if held_out else (None, None, None)
        partial = None if len(clips) == self.clips else f"{len(clips)} of {self.clips} clips"
        return DataSet(
            self.name, x, y, len(words), 2 / 255, -1.0, groups, partial, x_test, y_test, groups_test
        )  # fmt: skip


def read_wav(stream: BinaryIO, what: str) -> Array:
    """Return float64 [16000] in [-1, 1): a clip of at most a second, filled up with silence.

    Raises  DataError, naming `what`, unless it is a whole wav file.
    """
    return read_clip(_read_all(stream, what), what).samples


def _read_all(stream: BinaryIO, what: str) -> bytes:
    with damage_named(what):
        data = stream.read(_LIMIT_BYTES + 1)
    if len(data) > _LIMIT_BYTES:
        raise DataError(f"{what}: more than {_LIMIT_BYTES} bytes; expected a clip of a second or a list of clips")
    return data


def _is_wanted(path: str) -> bool:
    name = PurePosixPath(path)
    return name.name == TESTING_LIST or (
        name.suffix == ".wav" and not name.parent.name.startswith("_") and bool(name.parent.name)
    )


def _clip(path: str) -> str:
    return "/".join(PurePosixPath(path).parts[-2:])


def _speaker(clip: str) -> str:
    return PurePosixPath(clip).stem.split("_nohash_")[0]
