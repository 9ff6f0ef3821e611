"""DataRecord: a short record of the data that a run, or a device of a run, has trained on: counts, shape and SHA-256.

With the record a later change of the data is noticed. The data themselves are not kept. Other modules decide where a
record is stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from edgefl.experiment.data.split import Split
from edgefl.experiment.federation import Federation
from edgefl.learning import Samples

DIGITS = 16  # number of hexadecimal digits of a SHA-256 in a sentence


@dataclass(frozen=True)
class DataRecord:
    """A record of samples, and of which samples each client trains on, validates on and is tested on.

    samples  number of samples
    shape    shape of an input
    counts   samples for training, for validation and for testing, of all clients together. None: the run splits them
    sha256   SHA-256 in hexadecimal of inputs, targets, scale, shift and the clients' indices
    """

    samples: int
    shape: tuple[int, ...]
    counts: tuple[int, int, int] | None
    sha256: str

    @staticmethod
    def of(samples: Samples, clients: Iterable[Split] | None = None, common: Samples | None = None) -> DataRecord:
        """Record the samples that these clients own. `common` are test samples that no client owns."""
        found = hashlib.sha256()
        for each in (samples, common):
            if each is not None:
                found.update(json.dumps([float(each.scale), float(each.shift)]).encode())
                _add(found, each.x, each.y)
        training = validation = testing = 0
        for split in clients or ():
            training, validation = training + len(split.train), validation + len(split.validation)
            testing += len(split.test)
            _add(found, split.train, split.validation, split.test)
        counts = None if clients is None else (training, validation, testing)
        return DataRecord(len(samples), tuple(samples.x.shape[1:]), counts, found.hexdigest())

    @staticmethod
    def of_federation(federation: Federation) -> DataRecord:
        """Record all samples that the clients own, and the test samples that no client owns."""
        return DataRecord.of(federation.data, federation.clients, federation.common)

    @staticmethod
    def read(record: Mapping[str, Any]) -> DataRecord:
        """Read the values that `to_json` returned. Raises KeyError, TypeError or ValueError."""
        counts = record["counts"]
        if counts is not None:
            training, validation, testing = map(int, counts)
            counts = training, validation, testing
        return DataRecord(int(record["samples"]), tuple(map(int, record["shape"])), counts, str(record["sha256"]))

    def to_json(self) -> dict[str, Any]:
        """Return the record as a value that JSON can hold."""
        return asdict(self)

    def change_to(self, now: DataRecord) -> str | None:
        """Return a phrase about the changes since this record was made, or None if nothing has changed."""
        if now == self:
            return None
        if (now.samples, now.shape) != (self.samples, self.shape):
            return f"{self._size()} before, {now._size()} now"
        if now.counts != self.counts:
            return f"{_parts(self)} before, {_parts(now)} now"
        return f"{self._size()} with SHA-256 {self.sha256[:DIGITS]} before and {now.sha256[:DIGITS]} now"

    def _size(self) -> str:
        return f"{self.samples} samples of shape {list(self.shape)}"


def _parts(record: DataRecord) -> str:
    if record.counts is None:
        return "samples that the run splits"
    training, validation, testing = record.counts
    return f"{training} samples for training, {validation} for validation and {testing} for testing"


def _add(digest: Any, *arrays: np.ndarray) -> None:
    for array in map(np.ascontiguousarray, arrays):
        digest.update(_head(array.dtype.str, array.shape))
        digest.update(array.reshape(-1).view(np.uint8).data)


@lru_cache
def _head(dtype: str, shape: tuple[int, ...]) -> bytes:
    return json.dumps([dtype, shape]).encode()
