"""PFLlib and edgefl on one set of files: `python -m bench papers pfllib --pfllib FOLDER --python PY`.

FOLDER is an unchanged checkout of TsingZ0/PFLlib. Its generator has written dataset/FashionMNIST_pat (two classes a
client) and dataset/FashionMNIST_dir (Dirichlet .1). PY is the Python of an environment with the packages that it
imports. There are 20 clients, all of them in every round, PFLlib's CNN, batches of 10, one epoch and lr .005. Both
sides have one thread, and they take turns. `--rounds` chooses one of the tables in TABLES, and `--tenth` chooses the
table of 100 rounds in which every client has a tenth of its training samples. `--side edgefl` runs edgefl alone,
without PY. Every run is a piece: a repeated command makes what is missing, and prints what there is.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, variance

from rich.console import Console
from rich.table import Table

from bench.papers import pfllib_files, pfllib_peer
from bench.papers.pieces import Piece, known, piece
from bench.processes import ROOT, python

METHODS = {"fedavg": "FedAvg", "fedper": "FedPer", "fedrep": "FedRep", "ditto": "Ditto"}  # edgefl's name and PFLlib's
PULL = "1"  # mu of Ditto, on both sides: PFLlib's default of 0 would be training alone
OPTIONS = {"ditto": ["-mu", PULL, "-pls", "1"], "fedrep": ["-pls", "1"]}
SIDES = ("pfllib", "edgefl")
PUBLISHED = {  # after 2,000 rounds, in percent, from docs/benchmark.html, which does not say Ditto's mu
    ("pat", "fedavg", "global"): 80.41, ("pat", "fedper", "personal"): 99.47, ("pat", "ditto", "personal"): 99.44,
    ("dir", "fedavg", "global"): 85.85, ("dir", "fedper", "personal"): 97.44, ("dir", "ditto", "personal"): 97.47,
    ("pat", "fedrep", "personal"): 99.56, ("dir", "fedrep", "personal"): 97.56,
}  # fmt: skip
RESULTS = Path(__file__).with_name("results") / "pfllib"
RUNS = Path("edgefl-runs/papers/pfllib")


@dataclass(frozen=True)
class Comparison:
    """One table: its rounds, the rounds between two evaluations, its methods, and the seeds of each partition.

    tenth  whether every client has the first tenth of its training samples, and all of its test samples
    """

    rounds: int
    every: int
    methods: tuple[str, ...]
    seeds: Mapping[str, tuple[int, ...]]
    tenth: bool = False

    @property
    def title(self) -> str:
        return f"Fashion-MNIST{', a tenth of the training samples' if self.tenth else ''}"


TABLES = {
    table.rounds: table
    for table in (
        Comparison(15, 5, ("fedavg", "fedper", "ditto"), {"pat": (1, 2, 3), "dir": (1,)}),
        Comparison(100, 5, ("fedavg", "fedrep", "ditto"), {"pat": (1,)}),
        Comparison(2000, 20, ("fedavg", "fedper", "fedrep", "ditto"), {"pat": (1, 2, 3), "dir": (1, 2, 3)}),
    )
}  # 2000 are the rounds of PFLlib's published table. This table is declared, and was never run
TENTH = replace(TABLES[100], tenth=True)


@dataclass(frozen=True)
class Case:
    """One run of both sides."""

    partition: str
    method: str
    seed: int
    rounds: int = 15
    every: int = 5
    tenth: bool = False

    @property
    def whole(self) -> str:
        """The folder that the generator has written."""
        return f"FashionMNIST_{self.partition}"

    @property
    def data(self) -> str:
        """The folder of the samples of this case."""
        return f"{self.whole}_tenth" if self.tenth else self.whole

    def name(self, side: str) -> str:
        length = "" if self.rounds == 15 else f"-T{self.rounds}"  # the first records have 15 rounds and do not say so
        return f"{self.partition}-{self.method}-{self.seed}{length}{'-tenth' if self.tenth else ''}-{side}"


def cases(table: Comparison) -> list[Case]:
    """Return the cases by seed, so that a table of one seed is soon whole."""
    seeds = sorted({seed for each in table.seeds.values() for seed in each})
    return [
        Case(partition, method, seed, table.rounds, table.every, table.tenth)
        for seed in seeds
        for partition in table.seeds
        if seed in table.seeds[partition]
        for method in table.methods
    ]


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return 1 if a run could not be carried out."""
    parser = _parser()
    options = parser.parse_args(arguments)
    table = TENTH if options.tenth else TABLES[options.rounds]
    sides = SIDES if options.side == "both" else (options.side,)
    if not options.show and not (options.pfllib and (options.python or "pfllib" not in sides)):
        parser.error("--pfllib FOLDER and --python PY, or --show")
    try:
        for case in () if options.show else cases(table):
            folder = options.pfllib.resolve()
            if case.tenth:
                pfllib_files.write_tenth(folder / "dataset" / case.whole, folder / "dataset" / case.data)
            if "pfllib" in sides:
                theirs(case, options.results, folder, options.python, options.dir / "logs")
            if "edgefl" in sides:
                ours(case, options.results, folder, options.dir)
    except (RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print_table(options.results, table)
    return 0


def theirs(case: Case, results: Path, folder: Path, interpreter: Path, logs: Path) -> Piece:
    """Return PFLlib's record of a case."""
    name = case.name("pfllib")

    def make() -> Piece:
        given = OPTIONS.get(case.method, [])
        options = pfllib_peer.arguments(case.data, METHODS[case.method], case.rounds, case.every, name, given)
        command = [str(interpreter.absolute()), "-u", "main.py", *options]
        done = pfllib_peer.carry_out(command, folder / "system", logs / f"{name}.log")
        return {**pfllib_peer.read(done.words), **done.spent()}

    return piece(results, name, make)


def ours(case: Case, results: Path, folder: Path, runs: Path) -> Piece:
    """Return edgefl's record of a case, from the files and the first model that PFLlib has."""
    name = case.name("edgefl")

    def make() -> Piece:
        model = runs.resolve() / "cnn.safetensors"
        model.parent.mkdir(parents=True, exist_ok=True)
        save_first_model(model)
        files = folder / "dataset" / case.data
        given = map(str, (files, case.method, case.seed, case.rounds, case.every, model, runs.resolve() / "edgefl"))
        command = python("-m", "bench.papers.pfllib_edgefl", *given)
        done = pfllib_peer.carry_out(command, ROOT, runs / "logs" / f"{name}.log")
        return {**json.loads(done.words.splitlines()[-1]), **done.spent()}

    return piece(results, name, make)


def save_first_model(path: Path) -> None:
    """Save PFLlib's CNN as its main.py first has it: torch's own draws after `manual_seed(0)`, layer by layer."""
    import torch
    from torch.nn import Conv2d, Flatten, Linear, MaxPool2d, ReLU

    from edgefl.models.graph.model_files import save
    from edgefl.torch import from_torch

    torch.manual_seed(0)
    layers = [Conv2d(1, 32, 5), ReLU(), MaxPool2d(2), Conv2d(32, 64, 5), ReLU(), MaxPool2d(2), Flatten()]
    layers += [Linear(1024, 512), ReLU(), Linear(512, 10)]
    save(path, from_torch(torch.nn.Sequential(*layers), torch.zeros(1, 1, 28, 28)))


# The table.


@dataclass(frozen=True)
class Side:
    """One side's runs of a partition and a method, over seeds: accuracies in percent."""

    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        return mean(self.accuracies)

    @property
    def squared_error(self) -> float | None:
        """The squared standard error of the mean, or None with one seed."""
        count = len(self.accuracies)
        return variance(self.accuracies) / count if count > 1 else None


def difference(pfllib: Side, edgefl: Side) -> tuple[float, float | None]:
    """Return edgefl's mean less PFLlib's, and its standard error, which is None where a side has one seed."""
    errors = pfllib.squared_error, edgefl.squared_error
    if errors[0] is None or errors[1] is None:
        return edgefl.mean - pfllib.mean, None
    return edgefl.mean - pfllib.mean, (errors[0] + errors[1]) ** 0.5


def rows(results: Path, table: Comparison = TABLES[15]) -> Iterator[list[str]]:
    """Yield the rows of the table, from the pieces that both sides have."""
    for partition, seeds in table.seeds.items():
        for method in table.methods:
            runs = [Case(partition, method, seed, table.rounds, table.every, table.tenth) for seed in seeds]
            both = [[known(results, run.name(side)) for run in runs] for side in SIDES]
            pairs = [(left, right) for left, right in zip(*both, strict=True) if left and right]
            for kind in pairs[0][0]["accuracy"] if pairs else ():
                yield _row(runs[0], kind, pairs)


def best(results: Path, table: Comparison) -> Iterator[list[str]]:
    """Yield for each run of a side the accuracies in percent of the last and the best evaluation, and the best round.

    A row needs one side alone.
    """
    for case in cases(table):
        for side in SIDES:
            for kind, found in ((known(results, case.name(side)) or {}).get("accuracy") or {}).items():
                scored = [(100 * value, round) for round, value in found if round <= table.rounds]
                top, at = max(scored, key=lambda each: each[0])
                name = f"{case.partition}, {METHODS[case.method]}, {kind}"
                yield [f"{name}, {side}, seed {case.seed}", f"{scored[-1][0]:.2f}", f"{top:.2f}", str(at)]


def _row(case: Case, kind: str, pairs: list[tuple[Piece, Piece]]) -> list[str]:
    partition, method = case.partition, case.method
    sides = [Side(tuple(_after(found[i], kind, case.rounds) for found in pairs)) for i in range(len(SIDES))]
    off, error = difference(*sides)
    within = "one seed" if error is None else f"{2 * error:.2f}: {'yes' if abs(off) <= 2 * error else 'no'}"
    published = PUBLISHED.get((partition, method, kind))
    numbers = [f"{side.mean:.2f}" for side in sides] + [f"{off:+.2f}", within]
    spent = [_beside(pairs, name, scale) for name, scale in (("round_s", 1), ("cpu_s", 1), ("peak", 1e6))]
    end = "" if published is None else f"{published:.2f}"
    return [f"{partition}, {METHODS[method]}, {kind}", str(len(pairs)), *numbers, *spent, end]


def _after(found: Piece, kind: str, rounds: int) -> float:
    """Return the accuracy after this many rounds, in percent."""
    return 100 * dict(map(tuple, found["accuracy"][kind]))[rounds]


def _beside(pairs: list[tuple[Piece, Piece]], name: str, scale: float) -> str:
    """Return PFLlib's mean / edgefl's mean as text."""
    return " / ".join(f"{mean(found[i][name] for found in pairs) / scale:.0f}" for i in range(len(SIDES)))


def print_table(results: Path, table: Comparison) -> None:
    """Print the table of the pieces in this folder, and the best rounds of its runs."""
    _print(f"{table.title}, {table.rounds} rounds: PFLlib / edgefl", _HEADINGS, rows(results, table))
    title = f"{table.title}, each run's last and best evaluation, every {table.every} rounds"
    _print(title, ("", "last %", "best %", "best round"), best(results, table))


_HEADINGS = (
    "", "seeds", "PFLlib %", "edgefl %", "difference", "within 2 errors", "s a round", "CPU s", "MB at most",
    "published, 2,000 rounds",
)  # fmt: skip


def _print(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print these rows as a table of text."""
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "" else "right")
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.width = max(console.width, 160)
    console.print(table)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench papers pfllib", description=__doc__)
    parser.add_argument("--pfllib", type=Path, help="its checkout")
    parser.add_argument("--python", type=Path, help="of its environment")
    rounds = "of the table to run; 2000 as published; default: %(default)s"
    parser.add_argument("--rounds", type=int, choices=TABLES, default=15, help=rounds)
    tenth = "run 100 rounds in which every client has a tenth of its training samples"
    parser.add_argument("--tenth", action="store_true", help=tenth)
    parser.add_argument("--side", choices=("both", *SIDES), default="both", help="to run; default: %(default)s")
    parser.add_argument("--dir", type=Path, default=RUNS, help="of the runs; default: %(default)s")
    parser.add_argument("--results", type=Path, default=RESULTS, help="of the records; default: beside this file")
    parser.add_argument("--show", action="store_true", help="run nothing: the table of what there is")
    return parser
