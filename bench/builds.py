"""python -m bench builds NAME=FOLDER NAME=FOLDER: training steps of two builds of edgefl, in turns, by CPU time.

FOLDER holds the package: a checkout with its extensions, or what `pip install --target FOLDER` put there. Each build
runs in a process of its own on one thread, because two libraries of one name cannot be loaded into one process. The
processes take turns. They are started anew several times, because the addresses that the loader chooses are worth a per
cent.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import geometric_mean, median

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("fedspu_cifar", "fedspu_emnist", "fedspu_speech", "vgg11", "pflego_mlp")
KEEPS = (1.0, 0.2)
LIMIT = 1.02  # largest time of one build, relative to the other's


def main(arguments: list[str]) -> int:
    """Print a line for each model and share, and the geometric mean. Return 1 if the mean is above the limit."""
    options = _parser().parse_args(arguments)
    folders = [folder for _, folder in options.builds]
    ratios = []
    for model in options.models:
        for keep in KEEPS:
            mine_us, other_us = (1e6 * each for each in _measure(folders, model, keep, options))
            ratios.append(mine_us / other_us)
            print(f"{model:16} p = {keep:<4g} {mine_us:10.1f} us {other_us:10.1f} us  {ratios[-1]:.3f}", flush=True)
    mean = geometric_mean(ratios)
    print(f"{options.builds[0][0]} takes {mean:.3f} of the CPU time of {options.builds[1][0]} (geometric mean)")
    return int(mean > LIMIT)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench builds", description=__doc__)
    parser.add_argument("builds", nargs=2, type=_build, metavar="NAME=FOLDER", help="two builds")
    parser.add_argument("--models", type=lambda text: text.split(","), default=MODELS, help="separated by commas")
    parser.add_argument("--starts", type=int, default=5, help="times that both processes are started")
    parser.add_argument("--turns", type=int, default=12, help="turns of each process")
    return parser


def _build(text: str) -> tuple[str, Path]:
    name, _, folder = text.partition("=")
    if not (Path(folder) / "edgefl" / "libedgefl.so").is_file():
        raise argparse.ArgumentTypeError(f"build {text!r}; expected NAME=FOLDER, where edgefl/libedgefl.so lies in it")
    return name, Path(folder).resolve()


def _measure(folders: Sequence[Path], model: str, keep: float, effort: argparse.Namespace) -> list[float]:
    """Return the seconds of a step of each build: the median of all turns."""
    turns: list[list[float]] = [[] for _ in folders]
    for _ in range(effort.starts):
        with ExitStack() as ended:
            workers = [_start(folder, model, keep, ended) for folder in folders]
            for turn in range(effort.turns):
                for at in (turn % 2, 1 - turn % 2):
                    turns[at].append(_ask(workers[at]))
    return [median(each) for each in turns]


def _start(folder: Path, model: str, keep: float, ended: ExitStack) -> subprocess.Popen[str]:
    environment = {**os.environ, "EDGEFL_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "bench.builds_worker", model, str(keep)]  # finds the folder that it starts in
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    worker = subprocess.Popen(command, cwd=folder, env=environment, text=True, **pipes)
    ended.callback(worker.wait)
    assert worker.stdin
    ended.callback(worker.stdin.close)
    return worker


def _ask(worker: subprocess.Popen[str]) -> float:
    assert worker.stdin and worker.stdout
    worker.stdin.write("turn\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())
