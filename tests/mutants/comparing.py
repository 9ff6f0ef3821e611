"""Mutants of comparisons: rows with options of their own, evaluations after a refresh, statistics and budgets."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PAIRED = "tests/study/test_paired_differences.py"
VARIANT, REFRESH, COMPARED, TUNED = (
    "tests/methods/test_method_label.py",
    "tests/study/simulation/test_simulate_refresh.py",
    "tests/study/test_study_comparison.py",
    "tests/study/test_tuning.py",
)

MUTANTS = (
    Mutant(
        "own-options-lose",
        "edgefl/methods/__init__.py",
        "{**renamed(name, options), **own}",
        "{**own, **renamed(name, options)}",
        "what all methods share goes before a row's own options",
        VARIANT,
    ),
    Mutant(
        "refresh-of-this-round",
        "edgefl/study/simulation/evaluation.py",
        "refreshes(self._task, state, round + 1, clients)",
        "refreshes(self._task, state, round, clients)",
        "a refresh takes the neurons of the round that is over",
        REFRESH,
    ),
    Mutant(
        "refresh-trains-all",
        "edgefl/methods/fedspu.py",
        "FitOptions(neurons, delta",
        "FitOptions(None, delta",
        "after a refresh a client of FedSPU trains its frozen neurons too",
        REFRESH,
    ),
    Mutant(
        "training-scores-of-tests",
        "edgefl/study/simulation/evaluation_jobs.py",
        'return split.test if part == "test" else split.train',
        "return split.test",
        "training scores are of the test samples",
        REFRESH,
    ),
    Mutant(
        "mean-of-some-seeds",
        "edgefl/study/comparison.py",
        "return sum(found) / len(found) if found and len(found) == len(self.values) else None",
        "return sum(found) / len(found) if found else None",
        "the mean over seeds leaves out those that have no figure",
        COMPARED,
    ),
    Mutant(
        "budget-overdrawn",
        "edgefl/study/comparison.py",
        "next((point for point in reversed(curve) if point[key] <= budget), None)",
        "next((point for point in curve if point[key] >= budget), None)",
        "at a budget the first evaluation after it counts",
        COMPARED,
    ),
    Mutant(
        "interval-of-one-degree-more",
        "edgefl/study/paired_differences.py",
        "two_sided(len(found) - 1, LEVEL)",
        "two_sided(len(found), LEVEL)",
        "the interval of a paired difference has one degree of freedom too many",
        PAIRED,
    ),
    Mutant(
        "untested-clients-are-pairs",
        "edgefl/study/paired_differences.py",
        "if None not in both]",
        "if both]",
        "a client that one method did not test makes the difference none",
        PAIRED,
    ),
    Mutant(
        "edge-where-the-option-ends",
        "edgefl/study/grid_edges.py",
        "return None  # the option accepts no value beyond",
        "pass",
        "a value beyond which the option has none is warned of",
        "tests/study/test_grid_edges.py",
    ),
    Mutant(
        "markup-in-headings",
        "edgefl/study/table_formats.py",
        "{escape(heading)}</th>",
        "{heading}</th>",
        "a method's name with markup is no text in a table of the report",
        "tests/study/report/test_report_page.py",
    ),
    Mutant(
        "thinned-curves-lose-peaks",
        "edgefl/study/report/mean_curves.py",
        "max(stretch, key=lambda point: point.y)",
        "min(stretch, key=lambda point: point.y)",
        "a curve of many rounds loses the peak of one of them",
        "tests/study/report/test_report_charts.py",
    ),
    Mutant(
        "dense-both-ways",
        "edgefl/study/density_costs.py",
        'return (record["down"] > 0) + (record["up"] > 0)',
        "return 2",
        "messages that were never sent count as dense ones",
        COMPARED,
    ),
    Mutant(
        "diverged-refusals",
        "edgefl/study/summary.py",
        "return sorted(lost | refused)",
        "return sorted(lost)",
        "a client whose reply had no numbers has not diverged",
        COMPARED,
    ),
    Mutant(
        "tuned-by-tests",
        "edgefl/study/tuning.py",
        "replace(split, test=split.validation)",
        "split",
        "test samples choose the learning rate",
        TUNED,
    ),
    Mutant(
        "tuned-to-the-worst",
        "edgefl/study/tuning.py",
        "best = max(finite",
        "best = min(finite",
        "the worst value is chosen",
        TUNED,
    ),
    Mutant(
        "tuned-and-forgotten",
        "edgefl/experiment/settings.py",
        "**tuned.get(name, {})",
        "",
        "runs do not get what was chosen",
        TUNED,
    ),
)
