"""The types of what `edgefl.simulate` takes: methods, models and data in all forms that run_request.py reads.

Objects of torch and pandas are described by what edgefl uses of them, so neither package is needed to check types.
Nothing imports this file while a program runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy.typing as npt

from edgefl.experiment.data.dataset import DataSet
from edgefl.learning import Samples
from edgefl.learning.predictor import Predictor
from edgefl.methods import Algorithm
from edgefl.models.graph import Model
from edgefl.study.trained_model import TrainedModel


class TorchModule(Protocol):
    """A torch.nn.Module."""

    training: bool

    def parameters(self, recurse: bool = True) -> Iterator[object]: ...


class TorchDataset(Protocol):
    """A torch.utils.data.Dataset, whose items are (x, y) or (x, y, group)."""

    def __getitem__(self, index: int, /) -> object: ...

    def __len__(self) -> int: ...


class TorchLoader(Protocol):
    """A torch.utils.data.DataLoader, whose batches are (x, y) or (x, y, group)."""

    batch_size: int | None

    def __iter__(self) -> Iterator[object]: ...


class DataFrame(Protocol):
    """A pandas.DataFrame, whose columns the settings `label`, `group`, `time` and `drop` name."""

    def itertuples(self, index: bool = True, name: str | None = "Pandas") -> Iterable[object]: ...


PathLike: TypeAlias = str | os.PathLike[str]
Methods: TypeAlias = str | Algorithm | type[Algorithm] | Iterable["Methods"]
Models: TypeAlias = PathLike | Model | TrainedModel | Predictor | TorchModule
ClientData: TypeAlias = tuple[npt.ArrayLike, npt.ArrayLike] | TorchDataset | TorchLoader
Data: TypeAlias = (
    PathLike
    | tuple[npt.ArrayLike, npt.ArrayLike]
    | tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]
    | Sequence[ClientData]
    | Mapping[str, npt.ArrayLike]
    | DataSet
    | Samples
    | TorchDataset
    | TorchLoader
    | DataFrame
)
