"""The settings that `edgefl.simulate` takes by name, with their types, for editors and type checkers.

scripts/settings.py writes this file from the fields of Experiment (experiment_fields.py) and of the methods.
docs/settings.md says what the settings mean. Nothing imports this file while a program runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypedDict

from edgefl.learning.losses import Loss

HyperParameter = bool | int | float | str | Sequence[float]


class SimulateSettings(TypedDict, total=False):
    """Settings of an experiment, and hyper-parameters of the methods. A setting that is left out has its default."""

    tune: Mapping[str, Sequence[HyperParameter]]
    options: Mapping[str, HyperParameter]  # hyper-parameters, also of methods that are not edgefl's own
    rounds: int
    seed: int
    seeds: int
    label: str
    group: str
    time: str
    drop: str | Sequence[str]
    axes: str
    image_size: int
    missing: Literal["refuse", "mean", "drop"]
    standardise: bool
    clients: int | Literal["all"]
    per_round: int
    partition: str
    fewest: int
    pool: bool
    partition_test: bool
    split: Literal["random", "time"]
    train_share: float
    validation_share: float
    train: str | Sequence[str] | None
    keep: float | Sequence[float]
    epochs: int
    batch: int
    lr: float
    loss: str | Loss | Callable[..., object]
    values: Literal["float32", "float16", "bfloat16", "int8"]
    tune_rounds: int
    eval_every: int | None
    evaluate_first: bool
    refresh: int
    held_out: int
    diagnose: bool
    train_scores: bool
    aggregation: str
    bound: str
    max_examples: int | None
    buffer: int
    staleness: str
    max_staleness: int
    devices: str | os.PathLike[str]
    deadline_s: float
    checkpoint_every: int

    # hyper-parameters
    accept_on: Literal["validation", "test"]
    accuracy: float
    adaptive: bool
    alpha: float
    beta: float
    betas: float | Sequence[float]
    bn_frozen: Literal["track", "freeze"]
    budget: float | Sequence[float]
    chunk: int
    clip: float
    decay_every: int
    delta: Literal["exact", "cut"]
    density: float
    distance: float
    distribution: Literal["erk", "uniform"]
    draws: Literal["own", "shared"]
    drifts: Literal["all", "participants"]
    eps: float
    es: bool
    es_patience: int
    es_set: Literal["carve", "test"]
    es_ties: Literal["continue", "stop"]
    es_tolerance: float
    eval_point: Literal["none", "post_local"]
    every: int
    exclude_just_pruned: bool
    first_client: int
    first_state: Literal["init", "current_global"]
    fixed_time: float
    floor: bool
    ft: int | Literal["full", "body", "head"]
    ft_epochs: int
    ft_lr: float
    ft_part: Literal["full", "body", "head"]
    fusion: float
    growth: Literal["gradient", "random"] | float
    half_life: int
    head_epochs: int
    head_init: Literal["torch", "uniform"]
    head_layers: int
    head_step: Literal["eq5", "eq3"]
    initial_rounds: int
    lam: float
    lr_decay: float
    lr_floor: float
    masks: Literal["same", "different"]
    memory: float | Sequence[float]
    micro_batch: int
    momentum: float
    mu: float
    nesterov: bool
    optimizer: Literal["sgd", "adam", "adamw"]
    personal: float
    personal_epochs: int
    prune_rate: float
    rescale: bool
    reset: bool
    rho: float
    round_seconds: float
    saved: Literal["fp32", "fp16"]
    scale: bool
    schedule: Literal["exponential", "step", "cosine", "constant"]
    search: Literal["dst", "rsm", "set", "snip"]
    server: Literal["sgd", "adam"]
    server_lr: float
    share: float
    shares: Literal["all", "participants"]
    tau: int
    times: Literal["macs", "equal"]
    traffic: float | Sequence[float]
    warmup: int
    weight: Literal["samples", "batches"] | Literal["samples", "uniform"]
    weight_decay: float
    width: Literal["sampled", "fixed"]
