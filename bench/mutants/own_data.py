"""Mutants of the readers of one's own data, of splits by time, and of the models that follow a shape."""

from __future__ import annotations

from bench.mutants.mutant import Mutant

TABLE, IMAGES, ARRAYS = (
    "tests/experiment/data/test_csv_table.py",
    "tests/experiment/data/test_images.py",
    "tests/experiment/data/test_own_arrays.py",
)
OWN = "tests/experiment/test_array_data.py"

MUTANTS = (
    Mutant(
        "label-as-input",
        "edgefl/experiment/data/csv_table.py",
        "if name not in {label, group, time, *dropped}]",
        "if name not in {group, time, *dropped}]",
        "a model sees the label that it is to learn",
        TABLE,
    ),
    Mutant(
        "infinite-cell",
        "edgefl/experiment/data/csv_table.py",
        'expected = "a finite number; or the column among',
        'return values; expected = "a finite number; or the column among',
        "a column with a NaN is trained on",
        TABLE,
    ),
    Mutant(
        "newest-train",
        "edgefl/experiment/data/split.py",
        'np.argsort(times[client_samples], kind="stable")',
        'np.argsort(-times[client_samples], kind="stable")',
        "the newest samples train and the oldest test",
        OWN,
    ),
    Mutant(
        "small-groups-stay",
        "edgefl/experiment/data/dataset.py",
        "ids[sizes >= fewest]",
        "ids[sizes >= 1]",
        "no group is too small",
        OWN,
    ),
    Mutant(
        "channels-stay-last",
        "edgefl/experiment/data/npz.py",
        '"NHWC": (0, 3, 1, 2)',
        '"NHWC": (0, 3, 2, 1)',
        "images with channels last are mirrored at their diagonal",
        ARRAYS,
    ),
    Mutant(
        "grey-only",
        "edgefl/experiment/data/images.py",
        "if all(mode in GREY for mode, _ in heads)",
        "if any(mode in GREY for mode, _ in heads)",
        "colours are lost where one image is grey",
        IMAGES,
    ),
)
