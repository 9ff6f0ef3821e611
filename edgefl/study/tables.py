"""The figures of a run as tables for a terminal of 80 columns or more. They are computed elsewhere (summary.py)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from edgefl.rounds.training import EXECUTED, SEARCH
from edgefl.study.sentences import gains, number, percent, precision
from edgefl.study.summary import COMMON, MODELS, UNFOLDED, Summary

NOTHING = "-"  # where there was nothing to measure


def console() -> Console:
    """The terminal, or 100 columns where there is none."""
    return Console() if sys.stdout.isatty() else Console(width=100)


def print_tables(console: Console, summaries: list[Summary]) -> None:
    """The methods side by side, the capacity tiers, and the gains in sentences."""
    console.print(_methods(summaries))
    for summary in summaries:
        if summary.method.startswith("fedspu"):
            console.print(_tiers(summary, summaries))
            break
    if any(summary.density is not None for summary in summaries):
        console.print(_masks(summaries))
    for sentence in [*gains(summaries), precision(summaries)]:
        console.print(sentence, soft_wrap=True)


def _methods(summaries: list[Summary]) -> Table:
    common = any(COMMON in summary.evaluation for summary in summaries)
    unfolded = [name for name in UNFOLDED if any(getattr(summary, name) for summary in summaries)]
    score, decisions = _name_of(summaries), summaries[0].evaluation[summaries[0].kind].get("decisions", 1)
    what = f"{score} of {decisions} decisions" if decisions > 1 else score
    table = new_table(f"Mean {what} on every client's own test samples, and what it cost")
    table.add_column("method")
    table.add_column("model")
    sparse = ["density", "GFLOP"] if any(summary.density is not None for summary in summaries) else []
    columns = [score, "weighted", "rounds", "payload", "of dense", "time", *sparse, *unfolded]
    for column in [*columns, *(["common test"] if common else [])]:
        table.add_column(column, justify="right")
    for s in summaries:
        cells = [s.method, MODELS[s.kind], *_scores(s), str(s.rounds)]
        cells += [f"{s.payload_bytes / 1e6:.2f} MB", percent(s.payload_bytes / s.dense_bytes), f"{s.seconds:.1f} s"]
        if sparse:
            cells += ["1" if s.density is None else f"{s.density:g}", "" if s.flops is None else f"{s.flops / 1e9:.4g}"]
        cells += [str(getattr(s, name)) for name in unfolded]
        if COMMON in s.evaluation:
            cells.append(_of_common(s.evaluation[COMMON]))
        table.add_row(*cells)
    return table


def _name_of(summaries: Sequence[Summary]) -> str:
    """What a run's models are scored by."""
    return "accuracy" if summaries[0].has_accuracy else "loss"


def _scores(summary: Summary) -> list[str]:
    """The mean over clients, and by their test samples."""
    found = summary.evaluation[summary.kind]
    if summary.has_accuracy:
        return [percent(summary.accuracy), percent(found["accuracy_weighted"])]
    answers = [(total, n) for total, n in zip(found["loss_sum"], found["examples"], strict=True) if n is not None]
    is_finite = all(total is not None for total, _ in answers)
    weighted = sum(total for total, _ in answers) / sum(n for _, n in answers) if is_finite else None
    return [number(summary.loss), number(weighted)]


def _of_common(found: Mapping[str, Any]) -> str:
    if "correct" not in found:
        return number(found["loss"])
    return percent(found["correct"] / (found["examples"] * found.get("decisions", 1)))


def _tiers(summary: Summary, summaries: list[Summary]) -> Table:
    others = [s for s in summaries if not s.method.startswith("fedspu")]
    table = new_table(f"Capacity tiers, costs per client round of {summary.method}; memory: account exact")
    columns = ["p", "clients", summary.method, *(s.method for s in others), "payload", "of dense", "MFLOP", "time"]
    columns.append("memory")
    for column in columns:
        table.add_column(column, justify="right")
    for i, tier in enumerate(summary.tiers):
        table.add_row(
            f"{tier['keep']:g}",
            str(tier["clients"]),
            *(_of_tier(s.tiers[i]) for s in (summary, *others)),
            *(_costs(tier) if tier["client_rounds"] else [NOTHING] * 4),
            f"{tier['memory_bytes'] / 1e3:.0f} kB",
        )
    return table


def _costs(tier: Mapping[str, Any]) -> list[str]:
    """Of a tier that was trained, in a client's round."""
    share = percent(tier["bytes"] / tier["dense_bytes"])
    return [f"{tier['bytes'] / 1e3:.1f} kB", share, _mega(tier[EXECUTED]), f"{1e3 * tier['seconds']:.1f} ms"]


def _of_tier(tier: Mapping[str, Any]) -> str:
    return percent(tier["accuracy"]) if "accuracy" in tier else number(tier["loss"])


def _masks(summaries: list[Summary]) -> Table:
    """By the density at which a round was trained. A method without masks is a row for comparison."""
    table = new_table("Densities, costs per client round; MFLOP nominal, executed and to move the mask")
    columns = ["density", "rounds", "payload", "of dense", "nominal", "executed", "moving", "time", "memory"]
    table.add_column("method")
    for column in columns:
        table.add_column(column, justify="right")
    for summary in summaries:
        for row in summary.densities:
            table.add_row(
                summary.method,
                f"{row['density']:g}",
                str(row["client_rounds"]),
                f"{row['bytes'] / 1e3:.1f} kB",
                percent(row["bytes"] / row["dense_bytes"]),
                *(_mega(row[name]) for name in ("nominal_flops", EXECUTED, SEARCH)),
                f"{1e3 * row['seconds']:.1f} ms",
                "" if row["memory_bytes"] is None else f"{row['memory_bytes'] / 1e3:.0f} kB",
            )
    return table


def _mega(flops: float | None) -> str:
    return "" if flops is None else f"{flops / 1e6:.4g}"


def new_table(title: str) -> Table:
    return Table(
        title=title, title_justify="left", title_style="bold", min_width=72, box=box.SIMPLE_HEAD, padding=(0, 0)
    )
