"""Partitions by the names that command line and settings use, such as "dirichlet:0.1". The partitions are drawn in
partition.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgefl import rng
from edgefl.experiment.data import partition
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.data.split import Indices

DEFAULT_CLIENTS = (100,)  # number of clients for a user's own data, if the user gives no number (presets.py)
DEFAULT_PARTITION = "dirichlet:0.1"  # partition of a user's own data, if the user names no partition
PARTITIONS = (
    "iid, dirichlet:ALPHA, dirichlet:ALPHA:SIGMA, lognormal:SIGMA, dirichlet-classes:ALPHA, shards:BLOCKS, "
    "classes:K or group"
)
SCHEMES: dict[str, tuple[Callable[..., list[Indices]], tuple[type, ...]]] = {  # types of parameters
    "lognormal": (partition.lognormal, (float,)),
    "dirichlet": (partition.dirichlet, (float, float)),
    "dirichlet-classes": (partition.dirichlet_classes, (float,)),
    "shards": (partition.shards, (int,)),
    "classes": (partition.few_classes, (int,)),
}


def partition_samples(data: DataSet, how: str, clients: int, seed: int) -> list[Indices]:
    """Return the samples of every client, as sorted int32 indices into data.x, by the partition that `how` names.

    Raises  ValueError if `how` names no partition, or a partition that these data do not allow.
    """
    _check_clients(data, how, clients)
    stream = rng.stream(seed, rng.PARTITION)
    if how == "iid":
        return partition.iid(data.y, clients, stream)
    if how == "group":
        if data.groups is None:
            raise ValueError(f"partition=group with data={data.name}, which has no groups; expected {PARTITIONS}")
        return partition.by_group(data.groups, clients, stream)
    scheme, parameters = _scheme(how)
    if scheme is not partition.lognormal:
        _check_classes(how, data)
    return scheme(data.y, clients, stream, *parameters)


def partition_with_test(data: DataSet, how: str, clients: int, seed: int) -> tuple[list[Indices], list[Indices]]:
    """Return the samples of every client twice: int32 indices into data.x, and int32 indices into data.x_test. A client
    has the same classes in both, and both are partitioned in the same way (ALGORITHMS 11.6).

    Raises  ValueError unless `how` is classes:K, the data have labels and their publisher made a test part.
    """
    kind, _, per_client = how.partition(":")
    _check_classes(how, data)
    if kind != "classes" or not per_client.isdecimal() or data.x_test is None or data.y_test is None:
        test = 0 if data.y_test is None else len(data.y_test)
        raise ValueError(
            f"partition_test with partition={how} and {test} published test examples; "
            "expected classes:K and a published test part"
        )
    stream = rng.stream(seed, rng.PARTITION)
    lists = partition.class_lists(data.classes, clients, stream, int(per_client))
    train, test_part = (partition.round_robin(labels, lists, stream) for labels in (data.y, data.y_test))
    return train, test_part


def _check_clients(data: DataSet, how: str, clients: int) -> None:
    """Raise ValueError if there are more clients than groups, or than samples."""
    if how == "group" and data.groups is not None:
        most, things = len(data.group_sizes()[0]), "groups"
    else:
        most, things = len(data), "examples"
    if clients > most:
        default = " (the default)" if clients in DEFAULT_CLIENTS else ""
        everybody = ', or --clients all (clients="all")' if things == "groups" else ""
        expected = f"expected 1 <= clients <= {most} {things} of data={data.name}"
        raise ValueError(f"clients={clients}{default}; {expected}: give --clients N (clients=N in Python){everybody}")


def _check_classes(how: str, data: DataSet) -> None:
    """Raise ValueError if examples that have no class are to be partitioned by class."""
    if not data.has_classes:
        kind = "a label for each place, and no class" if data.has_labels else "values, not classes"
        wanted = "iid, lognormal:SIGMA or group (--partition, or partition= in Python)"
        default = " (the default)" if how == DEFAULT_PARTITION else ""
        raise ValueError(f"partition={how}{default} with data={data.name}, whose targets are {kind}; expected {wanted}")


def _scheme(how: str) -> tuple[Callable[..., list[Indices]], list[Any]]:
    """Return the function that "name:parameter:..." names, and its parameters. Dirichlet's second is optional."""
    kind, *texts = how.split(":")
    try:
        scheme, types = SCHEMES[kind]
        if not 1 <= len(texts) <= len(types):
            raise ValueError(len(texts))
        return scheme, [parse(text) for parse, text in zip(types, texts, strict=False)]
    except (KeyError, ValueError):
        raise ValueError(f"partition={how}; expected {PARTITIONS}") from None
