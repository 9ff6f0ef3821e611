"""Figures of the records of the tables with equal trials, and of the small tables of FedSPU, FedUmf and PFLEGO.

record_figures.py has the others. test_provenance.py compares all of them with the page.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

from bench.papers import (
    energy,
    fair,
    fedspa,
    fedspa_pareto,
    fedumf_appendix,
    newcomers,
    pflego_figures,
    rivals,
    search_time,
    seconds,
    similarity,
)
from bench.papers.comparison import Study
from bench.papers.comparison_run import RESULTS, found
from bench.papers.comparison_run import adapted as other_options
from bench.papers.comparison_table import Known, in_points
from edgefl.study.comparison import Figure
from edgefl.study.paired_differences import PairedDifference
from tests.bench.record_figures import Numbers, Rows, of_paper

SHARES = {"15 %": 3, "65 %": 13}


def _mean_and_spread(figure: Figure) -> Numbers:
    return [None if each is None else 100 * each for each in (figure.mean, figure.spread)]


def _between(off: PairedDifference) -> Numbers:
    return [off.mean, off.low, off.high]


def _known(study: Study, place: str) -> Known:
    return fair.complete(found(study, RESULTS / study.name, place))


def reached(study: Study, place: str) -> Rows:
    """Return the chosen values, and what they reach, as the models are and after adaptation."""
    rows, known = {}, _known(study, place)
    for name, (rate, made) in fair.rows(known).items():
        others = other_options(study, RESULTS / study.name, place, name, rate) or {}
        scores = chain(*(_mean_and_spread(figure)[: 2 - at % 2] for at, figure in enumerate(fair.figures(known, name))))
        chosen = [] if study.rate else [rate, *(each for each in others.values() if not isinstance(each, str | bool))]
        rows[name] = [*chosen, *scores, *spent(made)]
    return rows


def spent(made: Any) -> Numbers:
    """Return megabytes and GFLOP, means over the seeds."""
    count = len(made)
    return [
        sum(each.payload_bytes for each in made.values()) / count / 1e6,
        sum(each.work for each in made.values()) / count / 1e9,
    ]


def ahead(study: Study, place: str) -> Rows:
    """Return what is reached at FedSPU's bytes, seconds and joules, and FedSPU's differences with their intervals."""
    known, rows = _known(study, place), {}
    for name in fair.rows(known):
        equal = [None if each.mean is None else 100 * each.mean for each in fair.at_equal(known, name)]
        leads = [] if name == fair.FEDSPU else fair.lead(known, name)
        rows[name] = [*equal, *chain(*map(_between, leads))]
    return rows


def beside_rivals(place: str = "digits") -> Rows:
    """Return accuracy, worst tenth, both after adaptation, and accuracy at FedSPU's bytes, then megabytes, and how far
    FedSPU is ahead at its bytes, with the interval.
    """
    rows = {}
    for alpha, study in ((".1", fair.FAIR), ("1", rivals.FAIR_1)):
        known = _known(study, place)
        for name in (each for each in rivals.RIVALS if not each.endswith(fair.ADAPTED)):
            at_bytes = fair.at_equal(known, name)[0]
            scores = [100 * figure.mean for figure in (*fair.figures(known, name), at_bytes) if figure.mean is not None]
            pair = [in_points(each[0]).values for each in (fair.at_equal(known, fair.FEDSPU), [at_bytes])]
            off = [] if name == fair.FEDSPU else _between(PairedDifference.of(*pair))
            rows[f"alpha {alpha}: {name}"] = [*scores, spent(known[name][1])[0], *off]
    return rows


def held_out() -> Rows:
    """Return the accuracy of trained clients, that of held-out clients with their worst tenth, and FedSPU's lead."""
    known, rows = newcomers.shown(_known(newcomers.NEWCOMERS, "digits")), {}
    for name in known:
        trained, apart, worst = newcomers.figures(known, name)
        off = [] if name == fair.FEDSPU else _between(newcomers.lead(known, name))
        rows[name] = [*_mean_and_spread(trained), *_mean_and_spread(apart), *_mean_and_spread(worst)[:1], *off]
    return rows


def appendix_65() -> Rows:
    """Return FedUmf's tables A1 and A2 at 65 %: rounds to 80 % over FedAvg's, the paper's and ours, by partition."""
    records = [of_paper(f"appendix-65-{name}") for name in ("iid", "dirichlet", "lognormal")]
    rows: Rows = {}
    for label in fedumf_appendix.METHODS.values():
        ratios = [record.get(f"{label}: rounds to 80 % over FedAvg's") for record in records]
        own = [record[f"{label}: accuracy, last 10 rounds"]["ours"] for record in records]
        rows[label] = [value for each in ratios if each for value in (each["paper"], each["ours"])] + own
    return rows


def synthetic() -> Rows:
    """Return the accuracies, and FedUmf's difference from FedAvg with its interval."""
    rows, labels = {}, (*fedumf_appendix.RIVALS.values(), "FedUmf + FedDC")
    for share, clients in SHARES.items():
        record = of_paper(f"synthetic-{clients}")
        for alpha, beta in fedumf_appendix.SETTINGS:
            name = f"({alpha:g}, {beta:g})"
            off = record[f"{name} FedUmf less FedAvg"]
            accuracies = [record[f"{name} {label}: accuracy"]["ours"] for label in labels]
            rows[f"{name}, {share}"] = [*accuracies, off["ours"], *off["interval"]]
    return rows


def head_steps() -> Rows:
    record = of_paper("pflego-tau")
    return {
        f"tau = {tau}": [record[f"tau {tau}, {name}"]["ours"] for name in ("PFLEGO", "FedRecon")]
        for tau in pflego_figures.TAUS
    }


def shares() -> Rows:
    record = of_paper("pflego-share")
    return {
        f"r = {share} %": [record[f"r {share} %"]["ours"], record[f"r {share} %: rounds to 90 %"]["ours"]]
        for share in pflego_figures.SHARES
    }


def rates() -> Rows:
    record = of_paper("pflego-rates")
    return {
        f"rho = {rho:g}".replace("0.", "."): [
            record[f"rho {rho:g}, beta {beta:g}: {what}"]["ours"]
            for what in ("training loss", "accuracy")
            for beta in pflego_figures.BETAS
        ]
        for rho in pflego_figures.RHOS
    }


def seconds_of_a_round() -> Rows:
    return seconds.rows(json.loads((RESULTS / f"{seconds.NAME}.json").read_text(encoding="utf-8")))


def energy_of_clients() -> Rows:
    """Return by place the kilojoules of all clients, and what a method saves of FedSPU's, with the interval."""
    rows: dict[str, Numbers] = {}
    for place in ENERGY_PLACES:
        known = _known(energy.ENERGY, place)
        for name in known:
            spent = energy.joules(known, name).mean
            off = [] if name == fair.FEDSPU else _between(energy.saved(known, name))
            rows.setdefault(name, []).extend([spent and spent / 1000, *off])
    return rows


ENERGY_PLACES = ("digits", "fashion-5000")


def alike_sub_models() -> Rows:
    """Return by rule the similarities before any round, then after the rounds."""
    found = json.loads((RESULTS / f"{similarity.NAME}.json").read_text(encoding="utf-8"))
    rows: dict[str, Numbers] = {}
    for rounds in found["similarity"]:
        for rule, by_keep in similarity.means(found, rounds).items():
            rows.setdefault(rule, []).extend(by_keep)
    return rows


def over_costs() -> Rows:
    """Return the accuracy, the megabytes and the GFLOP of each point of FedSpa's figure 1."""
    found = json.loads((RESULTS / "fedspa-pareto.json").read_text(encoding="utf-8"))
    by_cost = [fedspa_pareto.points(found, cost) for cost in fedspa_pareto.COSTS]
    return {
        point_name(label): [point.accuracy, *(points[label].cost for points in by_cost)]
        for label, point in by_cost[0].items()
    }


def point_name(label: str) -> str:
    """Return the page's name of a point."""
    return label.replace("DST 0.", "DST, density .")


def setting_a() -> Rows:
    """Return by method the accuracies of own models, of the paper and of the global model, and payload over dense."""
    found = json.loads((RESULTS / "fedspa-a.json").read_text(encoding="utf-8"))
    rows = {row["label"]: row for row in found["results"]}
    shown: dict[str, list[float | None]] = {}
    for label in fedspa.METHODS:
        is_adapted = label == "FedAvg-FT"
        common = rows.get("FedAvg, the same run's global model" if is_adapted else f"{label}: its dense global model")
        paper = rows["FedAvg, the same run's global model" if is_adapted else label]["paper"]
        sent = rows[f"{label}: payload over dense"]["ours"]
        shown[label] = [rows[label]["ours"], paper, common and common["ours"], sent]
    return shown


def mask_search() -> Rows:
    found = json.loads((RESULTS / f"{search_time.NAME}.json").read_text(encoding="utf-8"))
    return {name: list(row) for name, row in search_time.rows(found).items()}
