"""The description of a published data set: its files, digests and reader. catalog.py lists the known data sets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgefl.experiment.data.dataset import DataSet, Shape


@dataclass(frozen=True)
class Download:
    """One published file. The digest is "md5:..." or "sha256:...", as its publisher gives it."""

    url: str
    digest: str

    @property
    def file(self) -> str:
        return self.url.rsplit("/", 1)[-1]


class DataSetReader(Protocol):
    """The protocol of an object that reads a data set from a folder or an archive that holds `files`."""

    @property
    def name(self) -> str: ...
    @property
    def files(self) -> tuple[str, ...]: ...
    @property
    def input_shape(self) -> Shape: ...
    def read(self, source: Path) -> DataSet: ...


@dataclass(frozen=True)
class PublishedDataSet:
    """A data set, its usual folders below a root, and its downloads. `archive` is the one file that is read."""

    reader: DataSetReader
    folders: tuple[str, ...]
    downloads: tuple[Download, ...]
    archive: str | None = None
