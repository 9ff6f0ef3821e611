"""The forms in which a program has its data: each gives the arrays that a table here says, or one sentence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.array_data import as_array, own_data
from edgefl.experiment.program_data import arrays_in
from edgefl.learning import Samples

torch = pytest.importorskip("torch", reason="Datasets and tensors are torch's")
utils = pytest.importorskip("torch.utils.data", reason="Datasets and tensors are torch's")

X = np.arange(12, dtype=np.float32).reshape(6, 2)
Y = np.array([0, 1, 0, 1, 1, 0])
WHO = np.array([0, 0, 1, 1, 2, 2])


class Items(utils.Dataset):
    """A map-style Dataset of the arrays above, whose item `odd` is another one."""

    def __init__(self, odd: int = -1, instead: Any = None, count: int = 6) -> None:
        self.odd, self.instead, self.count = odd, instead, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int) -> Any:
        return self.instead if at == self.odd else (torch.tensor(X[at]), int(Y[at]))


class Stream(utils.IterableDataset):
    """A data set of torch that has no length."""

    def __iter__(self) -> Any:
        yield X[0], 0


def tensors(*arrays: np.ndarray) -> Any:
    return utils.TensorDataset(*map(torch.tensor, arrays))


def clients() -> list[tuple[np.ndarray, np.ndarray]]:
    return [(X[2 * who : 2 * who + 2], Y[2 * who : 2 * who + 2]) for who in range(3)]


XY, XYG = {"x": X, "y": Y}, {"x": X, "y": Y, "group": WHO}
FORMS: dict[str, tuple[Callable[[], Any], dict[str, np.ndarray]]] = {
    "(x, y)": (lambda: (X, Y), XY),
    "[x, y]": (lambda: [X, Y], XY),
    "[x, y] of lists": (
        lambda: [[[1.0, 2.0], [3.0, 4.0]], [0, 1]],
        {"x": np.array([[1, 2], [3, 4]]), "y": np.arange(2)},
    ),
    "(x, y, groups)": (lambda: (X, Y, WHO), XYG),
    "a dict": (lambda: XYG, XYG),
    "Samples": (lambda: Samples(X, Y.astype(np.int32)), {**XY, "scale": np.float32(1), "shift": np.float32(0)}),
    "a list of (x, y)": (clients, XYG),
    "a list of [x, y]": (lambda: [list(each) for each in clients()], XYG),
    "a list of tensors": (lambda: [tuple(map(torch.tensor, each)) for each in clients()], XYG),
    "a list of Datasets": (lambda: [tensors(*each) for each in clients()], XYG),
    "one client": (lambda: [(X, Y)], {**XY, "group": np.zeros(6)}),
    "a TensorDataset": (lambda: tensors(X, Y), XY),
    "a TensorDataset of three": (lambda: tensors(X, Y, WHO), XYG),
    "a Dataset": (Items, XY),
    "a part of a Dataset": (lambda: utils.Subset(Items(), [4, 2]), {"x": X[[4, 2]], "y": Y[[4, 2]]}),
    "Datasets one after another": (
        lambda: utils.ConcatDataset([Items(), Items()]),
        {"x": np.r_[X, X], "y": np.r_[Y, Y]},
    ),
}


@pytest.mark.parametrize(("make", "expected"), FORMS.values(), ids=FORMS)
def test_every_form_gives_the_arrays_that_it_has(make: Callable[[], Any], expected: dict[str, np.ndarray]) -> None:
    found = {name: as_array(name, value) for name, value in arrays_in(make()).items()}
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize("shuffle", [False, True])
def test_of_a_loader_its_dataset_is_taken_and_the_rest_is_named(shuffle: bool) -> None:
    with pytest.warns(UserWarning) as said:
        found = arrays_in(utils.DataLoader(Items(), batch_size=4, shuffle=shuffle))
    np.testing.assert_array_equal(found["x"], X)
    assert [str(each.message) for each in said] == [
        "only the dataset of the DataLoader is used; batch_size=4, shuffling and collate_fn are not: give batch=, and "
        "seed= for the order"
    ]


def test_texts_of_items_are_labels_by_name() -> None:
    class Named(Items):
        def __getitem__(self, at: int) -> Any:
            return X[at], ("run", "walk")[Y[at]]

    found = own_data(arrays_in(Named())).data
    assert found.class_names == ("run", "walk") and found.y.tolist() == Y.tolist()


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "another shape of a client": (
        lambda: [(X, Y), (X[:, :1], Y)],
        "data: client 1 has x of float32 (6, 1); expected float32 [N, 2] as of client 0",
    ),
    "another type of a client": (
        lambda: [(X, Y), (X.astype(np.uint8), Y)],
        "data: client 1 has x of uint8 (6, 2); expected float32 [N, 2] as of client 0",
    ),
    "values beside labels": (
        lambda: [(X, Y), (X, Y / 2)],
        "data: client 1 has y of float64 (6,); expected int64 [N] as of",
    ),
    "a client without samples": (
        lambda: [(X, Y), (X[:0], Y[:0])],
        "data: client 1 has x of shape (0, 2) and y of shape (0,); expected as many labels as samples, at least one",
    ),
    "fewer labels of a client": (
        lambda: [(X, Y[:5])],
        "data: client 0 has x of shape (6, 2) and y of shape (5,); expected",
    ),
    "groups of a client": (lambda: [tensors(X, Y, WHO)], "data: client 0 has x, y, group; expected x and y"),
    "an item of another shape": (
        lambda: Items(4, (torch.zeros(3), 0)),
        "data: x of item 4 is float32 (3,); expected float32 (2,) as of item 0",
    ),
    "an item of another type": (
        lambda: Items(4, (torch.zeros(2), 0.5)),
        "data: y of item 4 is float64 (); expected int64 ()",
    ),
    "an item of another length": (
        lambda: Items(4, (X[0], 0, 1)),
        "data: item 4 has 3 parts; expected 2, as item 0 has",
    ),
    "a dict": (
        lambda: Items(0, {"x": X[0]}),
        "data: item 0 is a dict of x; expected (x, y) or (x, y, group): name",
    ),
    "an item of one": (lambda: Items(0, (X[0],)), "data: item 0 is tuple of 1; expected (x, y) or (x, y, group)"),
    "text": (lambda: Items(0, ("a", 0)), "data: x of item 0 is str; expected numbers, as by transform=ToTensor()"),
    "no items": (lambda: Items(count=0), "data: Items of 0 items; expected at least one"),
    "one tensor": (lambda: tensors(X), "data: a TensorDataset of 1 tensors; expected x and y, or x, y and groups"),
    "a stream": (Stream, "data is Stream without a length; expected a Dataset with __len__ and items"),
    "a loader of a stream": (lambda: utils.DataLoader(Stream()), "data is Stream without a length; expected a Dataset"),
    "a loader that chooses": (
        lambda: utils.DataLoader(Items(), sampler=utils.SubsetRandomSampler([1, 2])),
        "data is a DataLoader with SubsetRandomSampler, which chooses samples; expected the chosen samples as a "
        "Dataset: torch.utils.data.Subset(dataset, indices)",
    ),
    "a loader that repeats": (
        lambda: utils.DataLoader(Items(), sampler=utils.RandomSampler(Items(), replacement=True)),
        "data is a DataLoader with RandomSampler, which chooses samples",
    ),
    "a loader that weighs": (
        lambda: utils.DataLoader(Items(), sampler=utils.WeightedRandomSampler([1.0] * 6, 6)),
        "data is a DataLoader with WeightedRandomSampler, which chooses samples",
    ),
    "another object": (
        lambda: {1},
        "data is set; expected a name, a file, (x, y), (x, y, groups), a list of (x, y) with",
    ),
    "a tuple of one": (lambda: (X,), "data is tuple of 1; expected a name"),
    "nothing": (list, "data is list of 0; expected a name"),
    "a sparse tensor": (
        lambda: [(torch.tensor(X).to_sparse(), torch.tensor(Y))],
        "data: x of client 0 is torch.float32, and no array (can't convert Sparse layout tensor",
    ),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((DataError, ValueError)) as error:
        arrays_in(make())
    assert str(error.value).startswith(message)


def test_items_for_which_memory_has_no_room_are_named() -> None:
    with pytest.raises(DataError, match=r"^data: x of \d+ items of float32 \(2,\) does not fit in memory"):
        arrays_in(Items(count=1 << 60))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_tensors_of_every_precision_are_arrays_of_their_values(dtype: str) -> None:
    found = as_array("x", torch.tensor([[1.5, -0.25]], dtype=getattr(torch, dtype), requires_grad=True))
    assert found.tolist() == [[1.5, -0.25]] and found.dtype.name == dtype.removeprefix("b").replace("float16", "float32"
        if dtype == "bfloat16" else "float16")  # fmt: skip


def test_dates_of_a_program_are_times() -> None:
    when = np.array(["2026-01-02", "2026-01-01"], "datetime64[D]")
    found = own_data({"x": X[:2], "y": Y[:2], "time": when})
    assert np.diff(found.data.times).tolist() == [-86400.0]
    assert found.name != own_data({"x": X[:2], "y": Y[:2], "time": when[::-1]}).name


def test_arrays_are_read_without_torch_and_pandas() -> None:
    script = """
import sys
import numpy as np
from edgefl.experiment.program_data import arrays_in
arrays_in([(np.zeros((2, 2)), np.zeros(2))])
print({"torch", "pandas"} & set(sys.modules))
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
