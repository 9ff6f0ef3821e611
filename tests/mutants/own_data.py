"""Mutants of the readers of one's own data, of splits by time, and of the models that follow a shape."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

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
        "edgefl/experiment/data/feature_columns.py",
        "wrong = ~np.isfinite(found).all(1) & ~lacks",
        "wrong = np.isinf(found).all(1) & np.isnan(found).all(1)",
        "a column with a number that float32 does not hold is trained on",
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
        "is_grey = all(one.is_grey for one in heads)",
        "is_grey = any(one.is_grey for one in heads)",
        "colours are lost where one image is grey",
        IMAGES,
    ),
)
