"""`python -m tests mutants`: mistakes put into the sources one at a time. The exit code is 1 if the tests let one live.

Without options the mistakes are those that were written by hand. With --operators FILE the operators make them, and
--sample and --seed choose some. First the tests named for the chosen mutants run without a mutant, and must pass. Then
pytest runs the tests of each mutant with this mutant.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.mutants import coordinates, durability, kernels, mathematics, order, streams, studies, texts, tree, trial
from tests.mutants.generated import sample
from tests.mutants.mutant import Mutant
from tests.mutants.switch import VARIABLE
from tests.mutants.trial import Trial

ALL: tuple[Mutant, ...] = (
    *coordinates.MUTANTS,
    *durability.MUTANTS,
    *kernels.MUTANTS,
    *mathematics.MUTANTS,
    *order.MUTANTS,
    *streams.MUTANTS,
    *studies.MUTANTS,
    *texts.MUTANTS,
)
LIMIT_S = 300.0  # limit of the tests without a mutant
LEAST_S, TIMES = 20.0, 5.0  # with a mutant, tests may take so much longer than without one
SUITE = "tests"


def main(arguments: list[str]) -> int:
    """Run what is asked for. Return 1 if a mutant lives, and 2 if the tests fail without a mutant or cannot run."""
    options = _parser().parse_args(arguments)
    chosen = _chosen(options)
    if options.list or not chosen:
        print(*(f"{mutant.name}: {mutant.wrong}" for mutant in chosen or ALL), sep="\n")
        return int(not chosen)
    with tempfile.TemporaryDirectory(prefix="edgefl-mutants-", dir=options.dir) as directory:
        try:
            bed = _Bed(Path(directory), chosen, options.jobs)
            broken = list(bed.broken())
            found = [] if broken else list(_found(chosen, bed.trials(options.suite)))
        except RuntimeError as error:  # no build, or no such tests
            broken = [str(error)]
    if broken:
        print(*broken, sep="\n", file=sys.stderr)
        return 2
    print_table(found)
    if options.record is not None:
        rows = [{"mutant": each.name, "wrong": each.wrong, **result._asdict()} for each, result in found]
        options.record.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return int(any(result.killer is None for _, result in found))


def _chosen(options: argparse.Namespace) -> list[Mutant]:
    """Return the mutants of --only, or a sample of those that operators make and the compiler accepts."""
    if not options.operators:
        return [mutant for mutant in ALL if options.only is None or any(part in mutant.name for part in options.only)]
    drawn = sample(options.operators, options.sample, options.seed)
    native = [mutant for mutant in drawn if mutant.is_native]
    refused = {mutant.name for mutant in native} - {mutant.name for mutant in tree.compiling(native)}
    return [mutant for mutant in drawn if mutant.name not in refused]


def _found(mutants: Sequence[Mutant], trials: Iterator[Trial]) -> Iterator[tuple[Mutant, Trial]]:
    for mutant, result in zip(mutants, trials, strict=True):
        print(f"{mutant.name}: {result.killer or 'LIVED'} ({result.seconds:.1f} s)", file=sys.stderr, flush=True)
        yield mutant, result


class _Bed:
    """Copies of the repository, one per job. All have the native core with the chosen mutants of C++."""

    def __init__(self, root: Path, mutants: Sequence[Mutant], jobs: int) -> None:
        self._mutants, native = mutants, [mutant for mutant in mutants if mutant.is_native]
        self._numbers = {mutant.name: number for number, mutant in enumerate(native, 1)}
        first = tree.copy_built(tree.ROOT, root / "0")
        if native or not tree.libraries(first):
            tree.build(first, native)
        self._trees: SimpleQueue[Path] = SimpleQueue()
        self._trees.put(first)
        for job in range(1, jobs):
            self._trees.put(tree.copy_built(first, root / str(job)))
        self._pool = ThreadPoolExecutor(jobs)
        self._seconds: dict[str, float] = {}  # of tests without a mutant

    def broken(self) -> Iterator[str]:
        """Yield the tests that fail without a mutant."""
        named = list(dict.fromkeys(mutant.tests for mutant in self._mutants))
        for tests, result in zip(named, self._pool.map(lambda tests: self._run(tests, {}), named), strict=True):
            self._seconds[tests] = result.seconds
            print(f"without a mutant: {tests} ({result.seconds:.1f} s)", file=sys.stderr, flush=True)
            if result.killer is not None:
                yield f"without a mutant: {result.killer} (pytest {tests})"

    def trials(self, whole: bool) -> Iterator[Trial]:
        """Yield the trial of every mutant, in order."""
        return self._pool.map(lambda mutant: self._try(mutant, whole), self._mutants)

    def _try(self, mutant: Mutant, whole: bool) -> Trial:
        variables = {VARIABLE: str(self._numbers[mutant.name])} if mutant.is_native else {}
        result = self._run(mutant.tests, variables, mutant)
        return self._run(SUITE, variables, mutant) if whole and result.killer is None else result

    def _run(self, tests: str, variables: dict[str, str], mutant: Mutant | None = None) -> Trial:
        root = self._trees.get()
        limit_s = LIMIT_S if tests != SUITE else 10 * LIMIT_S
        if mutant is not None and tests in self._seconds:
            limit_s = max(LEAST_S, TIMES * self._seconds[tests])
        try:
            if mutant is None or mutant.is_native:
                return trial.run(root, tests, variables, limit_s)
            with tree.mutated(root, mutant):
                return trial.run(root, tests, variables, limit_s)
        finally:
            self._trees.put(root)


def print_table(found: Sequence[tuple[Mutant, Trial]]) -> None:
    """Print a line per mutant, with the living ones last, and the number of living and killed mutants."""
    table = Table(title=f"{len(found)} mutants", title_justify="left")
    for heading in ("mutant", "killed by", "s"):
        table.add_column(heading, justify="right" if heading == "s" else "left", overflow="fold")
    for mutant, result in sorted(found, key=lambda pair: pair[1].killer is None):
        table.add_row(mutant.name, escape(result.killer or f"LIVED: {mutant.wrong}"), f"{result.seconds:.1f}")
    console = Console()
    console.width = max(console.width, 120)
    console.print(table)
    lived = sum(result.killer is None for _, result in found)
    console.print(f"{len(found) - lived} killed, {lived} lived")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests mutants", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="those with this in their name; may be repeated"
    )
    parser.add_argument("--operators", nargs="+", metavar="FILE", help="mutants that operators make of these files")
    parser.add_argument("--sample", type=int, default=20, metavar="N", help="of --operators: how many; default: 20")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of --operators: of the sample; default: 0")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write a line of JSON for each mutant")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at the same time")
    parser.add_argument(
        "--suite", action="store_true", help="run the whole suite on those that the named tests let live"
    )
    parser.add_argument("--list", action="store_true", help="their names, and run nothing")
    parser.add_argument("--dir", type=Path, help="where the copies lie; default: where temporary files go")
    return parser
