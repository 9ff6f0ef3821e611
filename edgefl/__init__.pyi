"""The types of what `import edgefl` gives; see __init__.py, which imports nothing of it before it is asked for."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from edgefl.learning.predictor import Predictor as _Predictor
from edgefl.study.run import Run as Run
from edgefl.study.run import open_run as open_run
from edgefl.study.runner import Engines as _Engines

__version__: str
PLACES: dict[str, str]

def load(path: str | os.PathLike[str]) -> _Predictor: ...
def simulate(
    method: Any = None,
    *,
    model: Any = None,
    data: Any = None,
    directory: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    preset: str | None = None,
    workers: int | None = None,
    on_round: Callable[[dict[str, Any]], object] | Sequence[Callable[[dict[str, Any]], object]] = (),
    progress: bool | None = None,
    engine: _Engines = ...,
    accept_data: bool = ...,
    label: str = ...,
    group: str = ...,
    time: str = ...,
    drop: str | Sequence[str] = ...,
    axes: str = ...,
    image_size: int = ...,
    missing: str = ...,
    fewest: int = ...,
    pool: bool = ...,
    standardise: bool = ...,
    partition: str = ...,
    clients: int | Literal["all"] = ...,
    rounds: int = ...,
    per_round: int = ...,
    keep: float | Sequence[float] = ...,
    epochs: int = ...,
    batch: int = ...,
    lr: float = ...,
    seed: int = ...,
    seeds: int = ...,
    partition_test: bool = ...,
    split: Literal["random", "time"] = ...,
    devices: str | os.PathLike[str] = ...,
    deadline_s: float = ...,
    evaluate_first: bool = ...,
    train_share: float = ...,
    validation_share: float = ...,
    values: str = ...,
    eval_every: int | None = ...,
    checkpoint_every: int = ...,
    aggregation: str = ...,
    bound: str = ...,
    loss: Any = ...,
    refresh: int = ...,
    train: str = ...,
    train_scores: bool = ...,
    held_out: int = ...,
    diagnose: bool = ...,
    tune: Mapping[str, Sequence[Any]] = ...,
    tune_rounds: int = ...,
    max_examples: int | None = ...,
    buffer: int = ...,
    staleness: str = ...,
    max_staleness: int = ...,
    **options: Any,
) -> Run: ...
