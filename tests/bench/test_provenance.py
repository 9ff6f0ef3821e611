"""Every table of docs/papers.md, and README's figures, agree with records, or the page says that no record is kept.

The page names the machine, the instruction set, the seeds and the commits of the records.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import cache, partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.papers import fedspa_pareto, pfllib
from bench.papers.comparison import COMPARISON
from bench.papers.comparison_run import RESULTS
from bench.papers.energy import ENERGY
from bench.papers.fair import FAIR
from bench.papers.weak import WEAK
from edgefl.methods.method_label import folder
from tests.bench import record_figures as records
from tests.bench import record_tables
from tests.bench.record_figures import Numbers, Rows, figures
from tests.papers_records import needs_records

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/papers.md"
NO_RECORD = "no record is kept"
LOST = ("718cad9", "9decd40")  # commits of records that are not in this history
NAMES = {
    "FedSPU with early stopping": "FedSPU + ES",
    "FedSPU, `keep=1`": "FedSPU, keep=1",
    "FedSPU behind a cut": "FedSPU, cached",
    "FedAvg, global model": "FedAvg",
    "FedAvg after one local epoch (`fedavg-ft`)": "FedAvg-FT",
    "`fedavg-ft`": "FedAvg-FT",
    "local": "Local",
    "PFLEGO (Adam on the server)": "PFLEGO",
    "Ditto, 2 + 3 epochs": "Ditto",
    "FedProx, global model": "FedProx",
}  # a row's label on the page, where it is not the study's


class Printed(NamedTuple):
    """A printed table: its rows, and the text from the table before it to the table after it."""

    rows: list[tuple[str, list[str]]]
    around: str


@cache
def printed(page: str) -> list[Printed]:
    """Return the tables of a page, in order."""
    parts = re.split(r"((?:^\|.*\n)+)", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    tables = []
    for before, table, after in zip(parts[0::2], parts[1::2], parts[2::2], strict=False):
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
        tables.append(Printed([(row[0], row[1:]) for row in cells], " ".join(f"{before} {after}".split())))
    return tables


def made_by(patterns: tuple[str, ...]) -> str:
    """Return the sentence about the machine, the seeds and the commits of records."""
    machines: set[str] = set()
    seeds: set[int] = set()
    commits: set[str] = set()
    for path in chain.from_iterable(sorted(RESULTS.glob(pattern)) for pattern in patterns):
        record = json.loads(path.read_text(encoding="utf-8"))
        cpu = "Intel Xeon" if "Xeon" in record["machine"]["cpu"] else record["machine"]["cpu"]
        machines.add(f"{cpu} ({'AVX-512' if record['machine']['isa'] == 'avx512' else 'AVX2'})")
        rows = [record.get("seeds") or [record["seed"]]] if {"seed", "seeds"} & record.keys() else []
        rows = rows or [row["seeds"] for row in record.get("results", ())]
        if not rows:
            rows = [[record["experiment"]["seed"] if "experiment" in record else int(path.name.split("-")[2])]]
        seeds |= set(chain(*rows))
        name, _, dirty = record["machine"]["commit"].partition("-")
        more = ", uncommitted changes" * bool(dirty) + ", not in this history" * (name in LOST)
        commits.add(name + (f" ({more[2:]})" if more else ""))
    said = f"The records were made on {' and '.join(sorted(machines))} with seed{'s' * (len(seeds) > 1)}"
    return (
        f"{said} {', '.join(map(str, sorted(seeds)))} at commit{'s' * (len(commits) > 1)} {', '.join(sorted(commits))}."
    )


class Source(NamedTuple):
    """The source of a table.

    rows     what the records say, or None where no record is kept
    some_of  whether the page prints some of the numbers of `rows`, in another order
    made     patterns of the records that the text names
    """

    rows: Callable[[], Rows] | None = None
    some_of: bool = False
    made: tuple[str, ...] = ()


NO_SOURCE = Source()


def comparison(place: str) -> Source:
    return Source(partial(records.compared, place), made=(f"comparison/{place}-*.json",))


def weak(place: str) -> dict[str, Source]:
    made = (f"weak/{place}-*.json", *(f"comparison/{place}-{name}-rate.json" for name in LENT))
    return {
        "tiers": Source(partial(records.by_tier, place), made=made),
        "equal budgets": Source(partial(records.at_equal, place)),
        "differences": Source(partial(records.differences, WEAK, place), some_of=True),
    }


LENT = ("fedspu", "fedavg-ft", "fedper", "pflego+server=adam", "local")  # methods whose rates `comparison` has chosen
TABLES = {
    "FedSPU, 100 rounds": NO_SOURCE,
    "FedSPU, 500 rounds, alpha .1": Source(partial(records.fedspu, "0.1"), made=("fedspu-0.1.json",)),
    "FedSPU, 500 rounds, alpha .5": Source(partial(records.fedspu, "0.5"), made=("fedspu-0.5.json",)),
    "FedSPU, rivals": Source(record_tables.beside_rivals, made=("fair/digits-*.json", "fair-1/digits-*.json")),
    "FedSPU, rivals on EMNIST": Source(
        partial(record_tables.beside_rivals, "emnist-5000"),
        made=("fair/emnist-5000-*.json", "fair-1/emnist-5000-*.json"),
    ),
    "FedSPU, energy": Source(
        record_tables.energy_of_clients,
        made=tuple(
            f"fair/{place}-{folder(FAIR.methods[name].label)}-seed*.json"
            for place in record_tables.ENERGY_PLACES
            for name in ENERGY.methods
        ),
    ),
    "FedSPU, sub-models": Source(record_tables.alike_sub_models, made=("fedspu-similarity.json",)),
    "FedUmf": Source(records.fedumf, made=("rounds-*.json", "appendix.json")),
    "FedUmf at 65 %": Source(record_tables.appendix_65, made=("appendix-65-*.json",)),
    "FedUmf, drawn data": Source(record_tables.synthetic, made=("synthetic-3.json", "synthetic-13.json")),
    "PFLEGO": Source(records.pflego, made=("pflego-fashion*.json", "pflego-omniglot.json")),
    "PFLEGO, figure 7": Source(record_tables.head_steps),
    "PFLEGO, figure 8": Source(record_tables.shares),
    "PFLEGO, figure 9": Source(record_tables.rates, made=("pflego-tau.json", "pflego-share.json", "pflego-rates.json")),
    "PFLEGO, table 3": Source(record_tables.seconds_of_a_round, made=("pflego-seconds.json",)),
    "FedSpa": NO_SOURCE,
    "FedSpa, setting A": Source(record_tables.setting_a, made=("fedspa-a.json",)),
    "FedSpa, single runs": NO_SOURCE,
    "FedSpa, seeds": NO_SOURCE,
    "FedSpa, figure 1": Source(record_tables.over_costs, made=("fedspa-pareto.json",)),
    "FedSpa, table 5": Source(record_tables.mask_search, made=("fedspa-search.json",)),
    "comparison, digits": comparison("digits"),
    "comparison, digits, differences": Source(partial(records.differences, COMPARISON, "digits"), some_of=True),
    "comparison, speech": comparison("speech"),
    "comparison, fashion": comparison("fashion"),
    "comparison, emnist": comparison("emnist"),
    "equal trials, digits": Source(partial(record_tables.reached, FAIR, "digits"), made=("fair/digits-*.json",)),
    "equal trials, digits, differences": Source(partial(record_tables.ahead, FAIR, "digits")),
    "equal trials, fashion-5000": Source(
        partial(record_tables.reached, FAIR, "fashion-5000"), made=("fair/fashion-5000-*.json",)
    ),
    "equal trials, fashion-5000, differences": Source(partial(record_tables.ahead, FAIR, "fashion-5000")),
    "equal trials, emnist-5000": Source(
        partial(record_tables.reached, FAIR, "emnist-5000"), made=("fair/emnist-5000-*.json",)
    ),
    "equal trials, emnist-5000, differences": Source(partial(record_tables.ahead, FAIR, "emnist-5000")),
    "newcomers, digits": Source(record_tables.held_out, made=("newcomers/digits-*.json",)),
    "weak, offers": Source(records.offers),
    **{
        f"weak, {place}, {what}": source
        for place in ("digits", "speech", "fashion", "emnist")
        for what, source in weak(place).items()
    },
    "adapted": Source(records.beside_adapted, made=("adapted/*.json",)),
    "PFLlib": Source(records.beside_pfllib, made=("pfllib/*-[123]-[ep]*.json",)),
    "PFLlib, a tenth": Source(partial(records.beside_pfllib, pfllib.TENTH), made=("pfllib/*-tenth-*.json",)),
    "PFLlib, a tenth, best": Source(records.best_of_pfllib),
}  # of the page, in order


def test_the_page_has_these_tables() -> None:
    assert len(printed(PAGE)) == len(TABLES)


@needs_records
@pytest.mark.parametrize("name", TABLES)
def test_a_table_s_figures_are_its_records(name: str) -> None:
    table, source = printed(PAGE)[list(TABLES).index(name)], TABLES[name]
    if source.rows is None:
        assert NO_RECORD in table.around.lower()
        return
    expected = source.rows()
    if source.some_of:
        (numbers,) = expected.values()
        off = [each for _, cells in table.rows for each in figures(cells[0])]
        assert [value for value, half in off if not any(abs(value - each) <= half for each in numbers)] == []
    else:
        assert {
            label: differing(cells, expected[label if label in expected else NAMES[label]])
            for label, cells in table.rows
        } == {label: [] for label, _ in table.rows}
        assert len(table.rows) == len(expected)
    if source.made:
        assert made_by(source.made) in table.around


@needs_records
@pytest.mark.parametrize("cost", fedspa_pareto.COSTS)
def test_the_page_s_front_is_the_record_s(cost: str) -> None:
    found = json.loads((RESULTS / "fedspa-pareto.json").read_text(encoding="utf-8"))
    front = {record_tables.point_name(label) for label in fedspa_pareto.front(fedspa_pareto.points(found, cost))}
    rows = printed(PAGE)[list(TABLES).index("FedSpa, figure 1")].rows
    assert {label for label, cells in rows if cost in cells[-1]} == front


def differing(cells: list[str], numbers: Numbers) -> list[tuple[object, object]]:
    """Return the printed numbers that are not the record's, each with the record's number."""
    shown, expected = figures(" ".join(cells)), [each for each in numbers if each is not None]
    pairs = zip_longest(shown, expected, fillvalue=None)
    return [(a, b) for a, b in pairs if a is None or b is None or abs(a[0] - b) > a[1]]


def readme_accuracies() -> Numbers:
    """Return the figures of FedSPU's row. No record has the accuracy after five epochs."""
    own, _, _, common, adapted, alone = records.fedspu("0.1").values()
    return [own[0], own[3], common[0], adapted[0], math.nan, alone[0]]


def readme_digits() -> Numbers:
    """Return the adapted accuracies of the digits, and FedSPU's bytes over FedAvg's in percent."""
    rows = record_tables.reached(FAIR, "digits")
    adapted = {name: row[-5] for name, row in rows.items()}
    others = [adapted[name] for name in ("FedAvg", "PruneFL", "Ditto", "random dropout")]
    return [adapted["FedSPU"], 100 * rows["FedSPU"][-2] / rows["FedAvg"][-2], *others]


def readme_letters() -> Numbers:
    """Return the adapted accuracies of EMNIST, and FedSPU's bytes over FedAvg's in percent."""
    rows = record_tables.reached(FAIR, "emnist-5000")
    share = 100 * rows["FedSPU"][-2] / rows["FedAvg"][-2]
    return [rows["FedSPU"][-5], share, rows["FedAvg"][-5], rows["random dropout"][-5]]


README = {
    "time of a training step": None,
    "resident memory": None,
    "accuracy of FedSPU": lambda: [*readme_accuracies(), *readme_digits(), *readme_letters()],
}  # by the row's first words: the figures of the records, or None where no record is kept


@needs_records
def test_readme_s_figures_are_records() -> None:
    rows = dict(printed("README.md")[-1].rows)
    for words, numbers in README.items():
        ((label, cells),) = ((label, cells) for label, cells in rows.items() if label.startswith(words))
        assert NO_RECORD in label if numbers is None else differing(cells, numbers()) == [], label
    assert len(rows) == len(README)
