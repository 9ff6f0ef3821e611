"""Mutants of what a study counts: of other samples, of another evaluation or as other work."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "budget-overdrawn",
        "edgefl/study/comparison.py",
        "next((point for point in reversed(curve) if point[key] <= budget), None)",
        "next((point for point in curve if point[key] >= budget), None)",
        "at a budget the first evaluation after it counts",
        "tests/study/test_study_comparison.py",
    ),
    Mutant(
        "infinite-cell",
        "edgefl/experiment/data/feature_columns.py",
        "wrong = ~np.isfinite(found).all(1) & ~lacks",
        "wrong = np.isinf(found).all(1) & np.isnan(found).all(1)",
        "a column with a number that float32 does not hold is trained on",
        "tests/experiment/data/test_csv_table.py",
    ),
    Mutant(
        "newest-train",
        "edgefl/experiment/data/split.py",
        'np.argsort(times[client_samples], kind="stable")',
        'np.argsort(-times[client_samples], kind="stable")',
        "the newest samples train and the oldest test",
        "tests/experiment/test_array_data.py",
    ),
    Mutant(
        "target-of-the-end",
        "edgefl/study/accuracy_targets.py",
        "for point in curve if point",
        "for point in reversed(curve) if point",
        "what was spent until an accuracy is all that was spent",
        "tests/study/test_devices_of_a_study.py",
    ),
    Mutant(
        "work-search",
        "edgefl/learning/running/operation_meter.py",
        "self.search += self._flops(schedule)",
        "self.training += self._flops(schedule)",
        "the search for a mask counts as training",
        "tests/learning/test_product_flops.py",
    ),
)
