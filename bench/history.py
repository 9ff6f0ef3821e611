"""bench/history.jsonl: what `python -m bench step --record` measured at which commit, and a picture of it.

A run is one line: facts of the machine and build, and its rows in microseconds. Only ratios within a run compare with
ratios of another run. So the picture shows PyTorch's time over ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.machine import Facts
from bench.rows import Row

FILE = Path(__file__).with_name("history.jsonl")
PICTURE = FILE.with_suffix(".svg")
FORMATS = (".svg", ".png", ".pdf")
STYLES = {1.0: "o-", 0.2: "s--"}  # share of active neurons -> line

Run = dict[str, Any]


def recording(path: Path, facts: Facts, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows as they come, and append a run of them to the file when they end. A broken run leaves no line."""
    kept = []
    for row in rows:
        kept.append(row)
        yield row
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"machine": facts, "rows": [_brief(row) for row in kept]}) + "\n")


def read(path: Path) -> list[Run]:
    """Return the runs in the order in which they were recorded. Raises OSError if there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def draw(path: Path, runs: Sequence[Run]) -> None:
    """Draw eager PyTorch's time over our step's time, on one thread, run by run.

    The file's ending chooses the format.
    """
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {"svg.hashsalt": "edgefl", "svg.fonttype": "none"}  # equal runs give equal bytes
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4))
    for i, work in enumerate(_works(runs)):
        for keep, style in STYLES.items():
            ratios = [_ratio(run, (*work, keep)) for run in runs]
            axes.plot(ratios, style, color=f"C{i}", markersize=4, label=f"{work[0]}, B = {work[1]}, p = {keep:g}")
    machines = (run["machine"] for run in runs)
    axes.set_xticks(range(len(runs)), [f"{each['commit']}\n{each['isa']}" for each in machines], fontsize="x-small")
    axes.set(ylabel="eager PyTorch's time / edgefl's", ylim=(0, None), title="Training steps on one thread, by commit")
    axes.axhline(1, color="gray", linewidth=0.8)
    axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def _brief(row: Row) -> dict[str, str | float]:
    times = {"native_us": row.native, "eager_us": row.eager, "fastest_us": row.fastest}
    about: dict[str, str | float] = {"work": row.work, "batch": row.batch, "threads": row.threads, "keep": row.keep}
    return about | {name: round(timing.median_s * 1e6, 1) for name, timing in times.items()}


def _works(runs: Sequence[Run]) -> list[tuple[str, int]]:
    """Return models and batch sizes in the order in which they first appear."""
    return list(dict.fromkeys((row["work"], row["batch"]) for run in runs for row in run["rows"]))


def _ratio(run: Run, work: tuple[str, int, float]) -> float:
    """Return eager time over native time on one thread, or NaN, a gap in the line, where the run has no such row."""
    for row in run["rows"]:
        if row["threads"] == 1 and (row["work"], row["batch"], row["keep"]) == work:
            return float(row["eager_us"] / row["native_us"])
    return float("nan")
