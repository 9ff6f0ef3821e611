"""Figures of the records in bench/papers/results, by row of the tables on docs/papers.md.

test_provenance.py compares them with the page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from bench.papers import adapted, comparison_table, pfllib, weak_table
from bench.papers.comparison import COMPARISON, Study
from bench.papers.comparison_run import RESULTS, found
from bench.papers.comparison_run import adapted as adapting_of
from bench.papers.weak import WEAK, offered
from edgefl.study.comparison import BUDGETS, Figure

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d[\d,]*\.?\d*|\.\d+)")
PLACES = ("digits", "fashion", "emnist")  # of the adapted rows
Numbers = list[Any]  # in the order of print. None stands for a figure that has no record
Rows = Mapping[str, Numbers]


def figures(text: str) -> list[tuple[float, float]]:
    """Return the numbers of a text, each with half a unit of its last digit. From the fourth digit on a 0 may be a
    rounded digit."""
    made = []
    for each in NUMBER.findall(text):
        digits = each.strip("+-").rstrip(",").replace(",", "")
        zeros = len(digits) - max(3, len(digits.rstrip("0"))) if "." not in digits and len(digits) > 3 else 0
        decimals = len(digits.partition(".")[2]) or -zeros
        made.append((float(each.replace(",", "")), 0.5 * 10.0**-decimals + 1e-6))
    return made


def percent(*found_figures: Figure | None) -> Numbers:
    return [None if each is None or each.mean is None else 100 * each.mean for each in found_figures]


def of_paper(name: str) -> dict[str, dict[str, Any]]:
    record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return {row["label"]: row for row in record["results"]}


def known(study: Study, place: str) -> tuple[comparison_table.Known, Any]:
    everything = found(study, RESULTS / study.name, place)
    return everything, comparison_table.compared(everything)


def fedspu(alpha: str) -> Rows:
    record = of_paper(f"fedspu-{alpha}")
    ours = {label: row["ours"] for label, row in record.items()}
    dense = ours["FedAvg-FT: payload"]

    def row(name: str, *more: float) -> Numbers:
        return [ours[name], ours[f"{name}: the worst tenth of clients"], ours[f"{name}: payload"], *more]

    es, tested = "FedSPU + ES", "FedSPU + ES by the test samples"
    saved = record[f"{es}: bytes saved"]
    papers = [record[es]["paper"], saved["paper"]]
    return {
        "FedSPU, own models": row("FedSPU", 100 * ours["FedSPU: payload"] / dense, record["FedSPU"]["paper"]),
        "with early stopping": row(es, saved["ours"], *papers),
        "with early stopping by the test samples": row(tested, ours[f"{tested}: bytes saved"]),
        "FedAvg, global model": [ours["FedAvg, the same run's global model"], dense],
        "the same after one local epoch on each client (`fedavg-ft`)": row("FedAvg-FT"),
        "training alone": row("Local")[:2],
    }


def fedumf() -> Rows:
    iid, two, appendix = map(of_paper, ("rounds-iid", "rounds-two-classes", "appendix"))

    def ratios(record: Mapping[str, Any], eta: float, c: float, ranged: bool = True) -> Numbers:
        rows = [record[f"eta {eta}, C {c}: FedUmf's rounds to {to} % over FedAvg's"] for to in (70, 75, 80)]
        ours, paper = [row["ours"] for row in rows if row["ours"] is not None], rows[0]["paper"]
        return [paper, *([min(ours), max(ours)] if ranged else [fmean(ours)]), fmean(ours) - paper]

    few, more = ratios(two, 0.01, 0.1, ranged=False), ratios(two, 0.05, 0.1, ranged=False)
    others = [appendix[f"IID, {name}: rounds to 80 % over FedAvg's"] for name in ("FedDyn", "FedDC", "FedUmf + FedDC")]
    off = [row["ours"] - row["paper"] for row in others]
    return {
        "IID, C = .1, eta .01": ratios(iid, 0.01, 0.1),
        "IID, C = .5": ratios(iid, 0.01, 0.5),
        "two classes a client, C = .5": ratios(two, 0.01, 0.5, ranged=False),
        "two classes, C = .1: **not met**": [*few[:2], 0.05, more[1], more[0], few[2], more[2]],
        "bytes up over FedAvg's": [1, 1, 0],
        "FedDyn, FedDC, FedUmf + FedDC, IID, 15 %": [row[who] for who in ("paper", "ours") for row in others] + off,
    }


def pflego() -> Rows:
    def row(found_rows: Iterable[Mapping[str, float]]) -> Numbers:
        rows = list(found_rows)
        return [*(each[who] for who in ("paper", "ours") for each in rows), *(e["ours"] - e["paper"] for e in rows)]

    degrees = [of_paper(f"pflego-fashion-{degree}") for degree in ("high", "medium", "no")]
    three, drawn = of_paper("pflego-fashion"), of_paper("pflego-omniglot")
    omniglot = "Omniglot, 50 alphabets, 300 rounds (paper: 1000), one seed: PFLEGO, FedRecon"
    return {
        "PFLEGO, three seeds": row(three[f"{degree}-Pers, PFLEGO"] for degree in ("High", "Medium", "No")),
        **{f"{name}, one seed": row(each[name] for each in degrees) for name in ("FedPer", "FedAvg")},
        omniglot: row(drawn[name] for name in ("PFLEGO", "FedRecon")),
    }


def compared(place: str) -> Rows:
    methods, table = known(COMPARISON, place)
    budget, rows = table.rows["FedSPU"].payload_bytes, {}
    for name, row in table.rows.items():
        at_bytes = comparison_table.at(budget, methods[name][1], "payload_bytes")
        score = [100 * row.score.mean, 100 * row.score.spread, *percent(row.worst_tenth, row.refreshed, at_bytes)]
        rows[name] = [methods[name][0], *score, row.payload_bytes.mean / 1e6, row.work.mean / 1e9]
    return rows


def by_tier(place: str) -> Rows:
    methods, table = known(WEAK, place)
    return {
        name: [rate, 100 * row.score.mean, 100 * row.score.spread, *percent(*weak_table.by_tier(made), row.worst_tenth),
               row.work.mean / 1e9]
        for name, (rate, made) in methods.items() for row in [table.rows[name]]
    }  # fmt: skip


def at_equal(place: str) -> Rows:
    methods, table = known(WEAK, place)
    spent, sizes, rows = weak_table.spent(methods, table), [size for _, size in weak_table.EQUAL.values()], {}
    for name, (_, made) in methods.items():
        reached = [weak_table.at(spent.least[budget], made, BUDGETS[budget]) for budget in weak_table.EQUAL]
        ends = [fmean(each.curve[-1][BUDGETS[budget]] for each in made.values()) for budget in weak_table.EQUAL]
        first = [spent.first[name][budget].mean for budget in weak_table.EQUAL]
        both = [value / size for values in (ends, first) if None not in values for value, size in zip(values, sizes)]
        rows[name] = [*percent(*reached), *both]
    return rows


def offers() -> Rows:
    """Return shares of a dense client's round. They are computed from the model and need no record."""
    names = {"digits": "digits", "Speech Commands": "speech", "Fashion-MNIST": "fashion", "EMNIST": "emnist"}
    return {
        name: [
            getattr(cost, what) / getattr(offer.dense, what)
            for offer in offered(place)[:2]
            for what in ("macs", "values")
            for cost in (offer.cost, offer.fedspu)
        ]
        for name, place in names.items()
    }


def beside_pfllib(table: pfllib.Comparison = pfllib.TABLES[15]) -> Rows:
    rows = {row[0]: [*row[1:6], *row[7:]] for row in pfllib.rows(RESULTS / "pfllib", table)}
    names = {name: re.sub("global$", "global model", re.sub("personal$", "own models", name)) for name in rows}
    return {names[name]: [value for value, _ in figures(" ".join(cells))] for name, cells in rows.items()}


def best_of_pfllib() -> Rows:
    """Return by run the last and the best accuracy in percent, and the round of the best one, on a tenth."""
    return {name: [float(each) for each in cells] for name, *cells in pfllib.best(RESULTS / "pfllib", pfllib.TENTH)}


def beside_adapted() -> Rows:
    return {f"{place}: {name}": row for place in PLACES for name, row in _adapted(place).items()}


def _adapted(place: str) -> Rows:
    methods, rows = found(adapted.ADAPTED, RESULTS / "adapted", place), {}
    ahead = {lead.other: lead for lead in adapted.leads(methods)}
    for name, (rate, made) in methods.items():
        score, worst, sent = (
            Figure(tuple(getattr(each, what) for each in made.values()))
            for what in ("accuracy", "worst_tenth", "payload_bytes")
        )
        if score.mean is not None and worst.mean is not None and sent.mean is not None:
            how = adapting_of(adapted.ADAPTED, RESULTS / "adapted", place, name, rate) or {}
            spread = [] if score.spread is None else [100 * score.spread]
            lead = [value for value, _ in figures(str(ahead[name]))] if name in ahead else []
            rows[name] = [
                rate,
                *how.values(),
                *made,
                100 * score.mean,
                *spread,
                100 * worst.mean,
                sent.mean / 1e6,
                *lead,
            ]
    return rows


def differences(study: Study, place: str) -> Rows:
    """Return every difference between methods, and its spread, of which the page prints some."""
    methods, table = known(study, place)
    if study is WEAK:
        off = [each.off for each in weak_table.expected(methods, table)]
    else:
        off = [each for _, each, _ in comparison_table.orders(table)]
    return {"some of": [value for each in off for value in (each.mean, each.spread)]}
