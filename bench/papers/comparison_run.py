"""`python -m bench papers comparison`, held-out, weak, adapted or fair: carries out missing runs of the study, and
prints its tables.

Every finished run is a record of its own in results/STUDY, so that machines and processes may share the work: `--part
1/2` takes every second method. A run that was killed goes on from its last checkpoint.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.papers import comparison
from bench.papers.comparison import COMPARISON, SEEDS, THINNED, WORKLOADS, Study, place
from bench.papers.comparison_table import Known, print_table
from bench.papers.pieces import Piece, known, piece
from bench.papers.search import Tried, best_of, next_trial
from bench.papers.table import Lines, Run
from edgefl.errors import EdgeflError, RunError, StuckError
from edgefl.experiment import tuned_values
from edgefl.experiment.federation import Federation
from edgefl.experiment.run_json import open_run
from edgefl.experiment.tuned_values import combinations
from edgefl.methods.method_label import Variant, label_of
from edgefl.methods.method_label import folder as folder_of
from edgefl.study.capacity_tiers import tiers_of
from edgefl.study.simulation.engine import Threads
from edgefl.study.simulation.journal import Journal, read_metrics
from edgefl.study.simulation.round_loop import simulate
from edgefl.study.summary import Summary, kind_of, summarise
from edgefl.study.tuning import FOLDER, on_validation, tune

RESULTS = Path(__file__).with_name("results")
RUNS = Path("edgefl-runs/papers")
Show = Callable[[str, Known], None]  # prints what there is of a place


def main(arguments: Sequence[str], study: Study = COMPARISON, show: Show = print_table) -> int:
    """Run the command, and return 1 if a run could not be carried out."""
    options = _parser(study).parse_args(arguments)
    runner = Maker(study, options.results, options.dir, options.data_dir, options.workers)
    part, parts = options.part
    try:
        for workload in options.workloads:
            for label in [] if options.show else options.methods[part - 1 :: parts]:
                runner.method(workload, label, options.seeds)
            show(workload, found(study, options.results, workload))
    except (EdgeflError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        return 1
    return 0


class Maker:
    """A maker of runs that have no record yet.

    results  where records are, and are written
    folder   of the runs' own directories
    """

    def __init__(self, study: Study, results: Path, folder: Path, data_dir: Path | None, workers: int) -> None:
        self.study, self.results, self.folder = study, results, folder
        self.data_dir, self.workers = data_dir, workers

    def method(self, workload: str, name: str, seeds: Sequence[int]) -> None:
        """Carry out the runs of a method: the runs that choose its rate and its adapting, and then the seeds."""
        if (rate := chosen(self.study, self.results, workload, name)) is None:
            if self.study.trials:
                piece(self.results, search_name(self.study, workload, name), partial(self._searched, workload, name))
            else:
                run = comparison.tuned(self.study, workload, name)
                piece(self.results, run.name, partial(self._tuned, run))
            rate = chosen(self.study, self.results, workload, name)
        assert rate is not None  # it has just been chosen
        if self.study.methods[name].adapting:
            run = comparison.adapted(self.study, workload, name, rate)
            piece(self.results, run.name, partial(self._adapted, run))
        adapting = adapted(self.study, self.results, workload, name, rate)
        for seed in seeds:
            run = comparison.run(self.study, workload, name, rate, seed, adapting)
            piece(self.results, run.name, partial(self._summed, run))

    def _searched(self, workload: str, name: str) -> Piece:
        """Carry out a method's search, and return all trials and the chosen values."""
        method, tried = self.study.methods[self.study.methods[name].like or name], list[Tried]()
        rates, trials = place(workload).rates[1:], self.study.trials
        while (values := next_trial(method.rate, rates, method.own, tried, trials)) is not None:
            runs = [comparison.searched(self.study, workload, name, values, seed) for seed in comparison.TUNING_SEEDS]
            tried.append(mean_of(values, [self._trial(run) for run in runs]))
        settings = comparison.searched(self.study, workload, name, {}, comparison.TUNING_SEEDS[0]).experiment.to_json()
        found = {"chosen": best_of(tried).values, "reached": shortened([each._asdict() for each in tried])}
        return {"experiment": settings, "seeds": list(comparison.TUNING_SEEDS), **found}

    def _trial(self, run: Run) -> dict[str, Any]:
        """Return the scores of a trial on validation samples, or {} if training diverges."""
        federation = on_validation(run.federation(run.experiment, self.data_dir))
        try:
            log_records = self._log_records(run, federation)
        except StuckError:
            return {}
        evaluation = log_records[-1]["evaluation"]
        return dict(evaluation[kind_of(evaluation)])

    def _tuned(self, run: Run) -> Piece:
        experiment, path = run.experiment, self.folder / run.name
        open_run(path, experiment.to_json())
        federation, settings = run.federation(experiment, self.data_dir), experiment.settings(self.workers)
        tune(experiment, federation, settings, path, lambda trial, at: None, lambda log_record: None, Threads)
        record = tuned_values.read(path)
        assert record is not None  # it has just been written
        return {"experiment": experiment.to_json(), **record["methods"][experiment.methods[0]]}

    def _adapted(self, run: Run) -> Piece:
        """Choose as `_tuned` does. Adapting changes no round, so all trials continue from the rounds of the first."""
        experiment, folder = run.experiment, self.folder / run.name / FOLDER
        open_run(self.folder / run.name, experiment.to_json())
        (label,), short = experiment.methods, experiment.tune_rounds
        method, own = Variant.of(label)
        labels = [label_of(method, {**dict(own), **each}) for each in combinations(experiment.tune, label)]
        first, *others = (folder / folder_of(each) for each in labels)
        if short > 1 and not all(each.exists() for each in others):
            settings = replace(experiment.settings(self.workers), rounds=short, eval_every=short, stop_after=short - 1)
            journal = Journal(first)
            try:
                algorithm = replace(experiment, rounds=short).algorithms()[label]
                simulate(algorithm, run.federation(experiment, self.data_dir), settings, journal)
            finally:
                journal.close()
        for each in others:
            if first.exists() and not each.exists():
                part = each.with_name(f"{each.name}.part")
                shutil.rmtree(part, ignore_errors=True)
                shutil.copytree(first, part).rename(each)
        return self._tuned(run)

    def _summed(self, run: Run) -> Piece:
        return {"experiment": run.experiment.to_json(), "summary": shortened(vars(self._summary(run)))}

    def _summary(self, run: Run) -> Summary:
        federation = run.federation(run.experiment, self.data_dir)
        tiers = tiers_of(run.experiment, federation.graph, federation.data.loss)
        return summarise(run.experiment.methods[0], self._log_records(run, federation), tiers, {})

    def _log_records(self, run: Run, federation: Federation) -> Lines:
        """Return the log records of a run, after as many of its rounds as are due.

        A refresh of all clients costs a tenth of the training. So only the last evaluation has one, or no evaluation if
        all clients stop before.
        """
        experiment = run.experiment
        open_run(self.folder / run.name, experiment.to_json())
        ((method, algorithm),) = experiment.algorithms().items()
        settings = experiment.settings(self.workers)
        journal = Journal(self.folder / run.name / folder_of(method))
        try:
            if settings.refresh:
                simulate(algorithm, federation, replace(settings, refresh=0, stop_after=settings.rounds - 1), journal)
            simulate(algorithm, federation, settings, journal)
            return list(read_metrics(journal.path))
        finally:
            journal.close()


def shortened(value: Any) -> Any:
    """Return JSON values with fractions of six digits."""
    if isinstance(value, dict):
        return {name: shortened(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shortened(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def mean_of(values: dict[str, Any], scores: Sequence[dict[str, Any]]) -> Tried:
    """Return a trial with the means over its seeds. It has none if a seed has no finite loss."""
    if any(each.get("loss") is None for each in scores):
        return Tried(values, None, None)
    accuracy, loss = (sum(each[name] for each in scores) / len(scores) for name in ("accuracy", "loss"))
    return Tried(values, accuracy, loss)


def search_name(study: Study, workload: str, name: str) -> str:
    """Return the name of the record of a method's search."""
    return f"{workload}-{folder_of(study.methods[study.methods[name].like or name].label)}-search"


def _search(study: Study, results: Path, workload: str, name: str) -> Piece | None:
    """Return the record of a method's search, of this study or of one that lends it, or None without a record.

    Raises RunError as `_record` does.
    """
    run = comparison.searched(study, workload, name, {}, comparison.TUNING_SEEDS[0])
    run, lent = run._replace(name=search_name(study, workload, name)), (results.with_name(each) for each in study.lent)
    return _record(results, run) or next((each for where in lent if (each := _same(where, run))), None)


def chosen(study: Study, results: Path, workload: str, name: str) -> float | None:
    """Return a method's rate, or None before this study, or a study that lends its rates, has chosen one."""
    if study.rate:
        return study.rate
    if study.trials:
        record = _search(study, results, workload, name)
        return None if record is None else float(record["chosen"][study.methods[name].rate])
    run, lent = comparison.tuned(study, workload, name), (results.with_name(each) for each in study.lent)
    record = _record(results, run) or next((each for where in lent if (each := _same(where, run))), None)
    return None if record is None else float(record["chosen"][study.methods[name].rate])


def adapted(study: Study, results: Path, workload: str, name: str, rate: float) -> dict[str, Any] | None:
    """Return the values of other options than the rate: {} for a method that chooses a rate alone, or None before the
    choice.
    """
    if study.trials:
        search = _search(study, results, workload, name)
        return None if search is None else {k: v for k, v in search["chosen"].items() if k != study.methods[name].rate}
    if not study.methods[name].adapting:
        return {}
    record = _record(results, comparison.adapted(study, workload, name, rate))
    return None if record is None else dict(record["chosen"])


def found(study: Study, results: Path, workload: str) -> Known:
    """Return by label the rate, and the summaries of the seeds that have been run, for a place."""
    everything: Known = {}
    for label in study.methods:
        rate = chosen(study, results, workload, label)
        if rate is not None:
            adapting = adapted(study, results, workload, label, rate)
            seeds = () if adapting is None else SEEDS
            runs = {seed: comparison.run(study, workload, label, rate, seed, adapting) for seed in seeds}
            each = {seed: _record(results, run) for seed, run in runs.items()}
            made = {seed: Summary(**record["summary"]) for seed, record in each.items() if record is not None}
            everything[label] = (rate, {seed: replace(summary, method=label) for seed, summary in made.items()})
    return everything


def _same(results: Path, run: Run) -> Piece | None:
    """Return the record of a run, or None where there is no record with just these settings."""
    record = known(results, run.name)
    return record if record is not None and record["experiment"] == run.experiment.to_json() else None


def _record(results: Path, run: Run) -> Piece | None:
    """Return the record of a run, or None without a record. Raises RunError if it is of a run with other settings."""
    record = _same(results, run)
    if record is None and known(results, run.name) is not None:
        raise RunError(f"{results / run.name}.json is of a run with other settings; expected its own; remove it")
    return record


def _parser(study: Study) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m bench papers {study.name}", description=__doc__)

    def some(names: Sequence[str]) -> Any:
        def read(text: str) -> list[str]:
            if unknown := [name for name in text.split(";") if name not in names]:
                raise argparse.ArgumentTypeError(f"{unknown[0]!r}; expected some of {'; '.join(names)}")
            return text.split(";")

        return read

    workloads, methods = list(WORKLOADS), list(study.methods)
    places = [*workloads, *THINNED]
    parser.add_argument(
        "--workloads", "--places", type=some(places), default=workloads, help=f"some of {'; '.join(places)}"
    )
    parser.add_argument("--methods", type=some(methods), default=methods, help=f"some of {'; '.join(methods)}")
    parser.add_argument("--seeds", type=_seeds, default=SEEDS, help="some seeds, separated by commas; default: all")
    parser.add_argument("--part", type=_part, default=(1, 1), help="I/N: every N-th method, from the I-th")
    parser.add_argument("--dir", type=Path, default=RUNS / study.name, help="of the runs; default: %(default)s")
    parser.add_argument("--data-dir", type=Path, help="where the data sets' files lie")
    where = "of the records; default: beside this file"
    parser.add_argument("--results", type=Path, default=RESULTS / study.name, help=where)
    parser.add_argument("--workers", type=int, default=1, help="clients trained at the same time; default: 1")
    parser.add_argument("--show", action="store_true", help="run nothing: the tables of what there is")
    return parser


def _seeds(text: str) -> tuple[int, ...]:
    if any(not each.isdecimal() or int(each) not in SEEDS for each in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r}; expected some of {', '.join(map(str, SEEDS))}")
    return tuple(map(int, text.split(",")))


def _part(text: str) -> tuple[int, int]:
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text!r}; expected I/N with 1 <= I <= N")
    return int(part), int(parts)
