"""python -m bench pictures DIR: fifteen pictures of small real runs, each for a light and a dark page, to be looked at.

`--record` runs the runs and writes their figures to tests/study/pictures/runs.json, from which all pictures are drawn.
`--references` draws the reference pictures in that folder, with which tests/study/test_reference_pictures.py compares.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import edgefl
from edgefl.cli import demo, local_processes
from edgefl.cli.memory_table import FootprintRow
from edgefl.learning.memory import Footprint, TrainingConfiguration, estimate
from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.study.capacity_tiers import tiers_of
from edgefl.study.picture import picture, picture_on
from edgefl.study.picture_style import DARK, THEMES
from edgefl.study.summary import MODELS, Summary, kind_of, summarise

KEPT = Path(__file__).resolve().parent.parent / "tests" / "study" / "pictures"
RUNS = KEPT / "runs.json"
DPI, COLOURS = 40, 24  # resolution and number of colours of the reference pictures
DIGITS = 5  # significant digits of a recorded figure
QUIET: dict[str, Any] = {"progress": False}
SHORT: dict[str, Any] = {"clients": 8, "per_round": 4, "epochs": 1, **QUIET}
SIX = "fedspu,fedspu-es,local,fedavg-ft,fedavg,fedprox"
TEN = "fedspu,fedspu-cached,fedavg,fedavg-ft,local,fedprox,ditto,fedper,feddyn,random-dropout"


class PictureCase(NamedTuple):
    """A picture that is drawn.

    run   of RUNS
    options  of `picture`, or `axes`: so many axes of a figure of the caller's own
    """

    run: str
    options: Mapping[str, Any] = {}


PICTURES = {
    "five-lines": PictureCase("trade"),
    "six-methods": PictureCase("six"),
    "six-methods-seeds": PictureCase("six", {"seeds": True, "panels": ["rounds", "bytes", "clients"]}),
    "rounds-alone": PictureCase("trade", {"panels": "rounds"}),
    "bytes-alone": PictureCase("six", {"panels": "bytes", "size": (5.0, 3.6)}),
    "clients-alone": PictureCase("six", {"panels": "clients"}),
    "two-wide": PictureCase("six", {"panels": ["bytes", "seconds"], "size": (7.0, 2.8)}),
    "own-axes": PictureCase("six", {"panels": ["rounds", "tiers"], "axes": 2}),
    "modelled-devices": PictureCase("devices"),
    "losses": PictureCase("numbers"),
    "beside-the-test": PictureCase("beside", {"panels": ["rounds", "work"]}),
    "ten-methods": PictureCase("ten"),
    "one-round": PictureCase("once"),
    "demo": PictureCase("demo"),
    "memory": PictureCase("memory"),
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench pictures", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR", help="where the pictures are written")
    parser.add_argument("--dpi", type=int, default=100, help="pixels per inch; default: %(default)s")
    parser.add_argument("--record", action="store_true", help="run the runs again, and keep their figures for tests")
    parser.add_argument("--references", action="store_true", help="draw the reference pictures of the tests again")
    options = parser.parse_args(arguments)
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.record:
        KEPT.mkdir(exist_ok=True)
        RUNS.write_text(json.dumps(dict(_recorded()), separators=(",", ":")) + "\n")
    if options.references:
        draw_references()
    for path in draw_all(options.directory, options.dpi):
        print(path)
    return 0


def draw_all(directory: Path, dpi: int) -> list[Path]:
    """Draw every picture in both themes, and return the paths."""
    runs = json.loads(RUNS.read_text())
    paths = []
    for name in PICTURES:
        for theme in THEMES:
            paths.append(directory / f"{name}{DARK if theme == 'dark' else ''}.png")
            figure_of(name, theme, runs).savefig(paths[-1], dpi=dpi)
    return paths


def draw_references() -> None:
    """Draw the reference pictures of all runs in both themes, and replace the former ones."""
    runs = json.loads(RUNS.read_text())
    for name in PICTURES:
        for theme in THEMES:
            save_small(figure_of(name, theme, runs), KEPT / f"{name}{DARK if theme == 'dark' else ''}.png")


def save_small(figure: Any, path: Path) -> None:
    """Save a picture of few pixels and few colours."""
    from PIL import Image

    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DPI)
    Image.open(content).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def figure_of(name: str, theme: str, runs: Mapping[str, Any]) -> Any:
    """Return the picture of PICTURES that has this name. `runs` is the content of RUNS."""
    run, options = PICTURES[name]
    found = runs[run]
    if run == "memory":
        return _memory(found, theme)
    by_seed = {int(seed): [_summary(each) for each in of] for seed, of in found["seeds"].items()}
    if "axes" in options:
        return _on_own_axes(by_seed, theme, options)
    return picture(by_seed, theme=theme, devices=found.get("devices", ()), **options)


def _on_own_axes(by_seed: Mapping[int, Sequence[Summary]], theme: str, options: Mapping[str, Any]) -> Any:
    """Draw two panels on a figure as a user makes one, in matplotlib's own style."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(THEMES[theme].settings()):
        figure = Figure(figsize=(8, 3), layout="constrained")
        areas = figure.subplots(1, options["axes"])
        picture_on(areas, by_seed, panels=options["panels"], theme=theme)
    return figure


def _memory(found: Mapping[str, Any], theme: str) -> Any:
    from edgefl.cli.memory_picture import picture_of_memory

    training = TrainingConfiguration(found["model"], _graph(found["model"]), found["batch"], "fedspu")
    rows = [
        FootprintRow(row["method"], row["keep"], {name: _Total(total) for name, total in row["totals"].items()})  # type: ignore[misc]
        for row in found["rows"]
    ]
    return picture_of_memory(training, rows, THEMES[theme])


class _Total(NamedTuple):
    """The part of a Footprint that a picture shows."""

    total: int


def _graph(model: str) -> Any:
    shape, classes = EXAMPLES[model]
    return build(model, shape, classes)


def _recorded() -> Iterator[tuple[str, Any]]:
    """Yield every run by its name, as JSON values."""
    simulated: dict[str, Callable[[str], edgefl.Run]] = {
        "trade": lambda path: edgefl.simulate("fedspu,fedavg-ft", rounds=20, directory=path, progress=False),
        "six": lambda path: edgefl.simulate(SIX, rounds=20, seeds=3, directory=path, **SHORT),
        "devices": lambda path: edgefl.simulate(
            "fedspu,fedavg-ft,local", rounds=12, devices="mixed", directory=path, **SHORT
        ),
        "numbers": lambda path: edgefl.simulate(
            "fedspu,fedavg,local",
            data=_numbers(),
            rounds=20,
            seeds=2,
            lr=0.01,
            directory=path,
            epochs=1,
            **QUIET,
        ),
        "beside": lambda path: edgefl.simulate(
            "fedspu,fedavg", rounds=12, refresh=1, train_scores=True, directory=path, **SHORT
        ),
        "ten": lambda path: edgefl.simulate(TEN, rounds=10, directory=path, **SHORT),
        "once": lambda path: edgefl.simulate("fedspu,fedavg-ft", rounds=1, directory=path, **SHORT),
    }
    with tempfile.TemporaryDirectory(prefix="edgefl-pictures-") as folder:
        for name, simulate in simulated.items():
            found = simulate(f"{folder}/{name}").summaries
            yield name, {"seeds": {str(seed): [_plain(each) for each in of] for seed, of in found.items()}}
        yield "demo", _demo(Path(folder) / "demo")
    yield "memory", _footprints("fedspu_emnist", 16)


def _numbers() -> tuple[Any, Any, Any]:
    """Return data of six people who differ. A number is to be learnt from eight numbers."""
    random_stream = np.random.default_rng(1)
    x, people = random_stream.normal(size=(600, 8)), np.repeat(np.arange(6), 100)
    weights = random_stream.normal(size=(6, 8))[people] + random_stream.normal(size=8)
    return x, (x * weights).sum(axis=1).astype(np.float32), people


def _demo(path: Path) -> dict[str, Any]:
    """Run `edgefl demo` with fewer rounds: the only run with figures of single devices."""
    experiment = local_processes.EXPERIMENT
    federation = local_processes.write_partitions(path / "devices", experiment)
    served = demo._serve(path, experiment)
    tiers = tiers_of(experiment, federation.graph)
    found = [_plain(summarise(each.method, each.log_records, tiers, each.server)) for each in served]
    devices = [
        demo._device(client, tiers.keep[client], split, served) for client, split in enumerate(federation.clients)
    ]
    return {"seeds": {"1": found}, "devices": _rounded(devices)}


def _footprints(model: str, batch: int) -> dict[str, Any]:
    training = TrainingConfiguration(model, _graph(model), batch, "full")
    ways = [("full", 1.0), *(("fedspu", keep) for keep in (0.2, 0.4, 0.6, 0.8))]
    rows = []
    for method, keep in ways:
        way = TrainingConfiguration(model, training.graph, batch, method, keep=keep)  # type: ignore[arg-type]
        found: list[Footprint] = [estimate(account, way) for account in ("pfeiffer2023", "paper", "bound", "exact")]
        rows.append({"method": method, "keep": keep, "totals": {each.account: each.total for each in found}})
    return {"model": model, "batch": batch, "rows": rows}


def _plain(summary: Summary) -> dict[str, Any]:
    """Return what a picture shows of a summary: the curve by column, the tiers, the scores of the clients."""
    columns = {name: [point.get(name) for point in summary.curve] for name in summary.curve[-1]}
    scores = {kind_of(summary.evaluation): summary.evaluation[kind_of(summary.evaluation)]}
    assert set(scores) <= set(MODELS)
    return {
        "method": summary.method,
        "curve": _rounded(columns),
        "tiers": _rounded(summary.tiers),
        "evaluation": _rounded(scores),
    }


def _summary(found: Mapping[str, Any]) -> Summary:
    """Undo `_plain`. Values that no picture shows are 0 or empty."""
    known = {each.name for each in fields(Summary)}
    columns = found["curve"]
    curve = [
        {name: values[i] for name, values in columns.items() if values[i] is not None or name in ("accuracy", "loss")}
        for i in range(len(columns["round"]))
    ]
    counts = dict.fromkeys(("client_rounds", "refused", "excluded", "clipped", "seconds", "dense_bytes"), 0)
    empty: dict[str, Any] = {"down": {}, "up": {}, "server": {}, "rounds": curve[-1]["round"], **counts}
    given = {**empty, "method": found["method"], "curve": curve}
    given |= {"tiers": found["tiers"], "evaluation": found["evaluation"]}
    assert given.keys() <= known
    return Summary(**given)


def _rounded(value: Any) -> Any:
    """Return numbers with few digits, and everything else unchanged."""
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
