"""Live progress of a simulation: a bar on a terminal, a line that changes in a notebook, elsewhere one plain line per
evaluated round, on stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from edgefl.experiment.run_layout import Trial
from edgefl.study.result_text import number, percent
from edgefl.study.summary import kind_of


class Display(Protocol):
    """What the command line needs of a progress display. `begin` may start at a resumed round."""

    def begin(self, name: str, rounds: int, at: int) -> None: ...

    def log_record(self, log_record: dict[str, Any]) -> None: ...

    def end(self) -> None: ...


def display(is_wanted: bool) -> Display | None:
    """For a program: in a notebook its own, a bar if stderr is a terminal, else plain lines if wanted, or none."""
    if (shell := in_notebook()) is not None:
        return Notebook(shell)
    return watch() if is_wanted or sys.stderr.isatty() else None


def in_notebook() -> ModuleType | None:
    """IPython's display, if this process is a notebook's kernel. IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return None if shell is None or not hasattr(shell, "kernel") else sys.modules["IPython.display"]


def print_error(line: str) -> None:
    """Prints a line on stderr."""
    print(line, file=sys.stderr, flush=True)


def watch(say: Callable[[str], None] = print_error) -> Display:
    """A bar if stderr is a terminal; if not, plain lines that `say` takes."""
    return Bar() if sys.stderr.isatty() else LogDisplay(say)


class Bar:
    """One bar per method, which stays on the screen."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, TextColumn("{task.fields[news]}"), console=Console(stderr=True))
        self._task: TaskID | None = None

    def begin(self, name: str, rounds: int, at: int) -> None:
        self._progress.start()
        self._task = self._progress.add_task(name, total=rounds, completed=at, news="")

    def log_record(self, log_record: dict[str, Any]) -> None:
        assert self._task is not None
        if "evaluation" in log_record:
            self._progress.update(self._task, completed=log_record["round"], news=news(log_record))
        else:
            self._progress.update(self._task, completed=log_record["round"])

    def end(self) -> None:
        self._progress.stop()


class LogDisplay:
    """One line per evaluated round."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def begin(self, name: str, rounds: int, at: int) -> None:
        self._name, self._rounds = name, rounds

    def log_record(self, log_record: dict[str, Any]) -> None:
        if "evaluation" in log_record:
            self._say(f"{self._name} round {log_record['round']}/{self._rounds}: {news(log_record)}")

    def end(self) -> None:
        """Nothing to close."""


class Notebook:
    """One line of output for each name, which changes as rounds close."""

    def __init__(self, shell: ModuleType) -> None:
        self._shell = shell

    def begin(self, name: str, rounds: int, at: int) -> None:
        self._name, self._rounds, self._news = name, rounds, ""
        self._shown = self._shell.display(self._text(at), raw=True, display_id=True)

    def log_record(self, log_record: dict[str, Any]) -> None:
        self._news = f": {news(log_record)}" if "evaluation" in log_record else self._news
        self._shown.update(self._text(log_record["round"]), raw=True)

    def end(self) -> None:
        """Nothing to close."""

    def _text(self, round: int) -> dict[str, str]:
        return {"text/plain": f"{self._name} round {round}/{self._rounds}{self._news}"}


class Displayed:
    """A display as the watcher of a run (runner.py)."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def begin(self, trial: Trial, at: int) -> None:
        self._display.begin(str(trial), trial.rounds, at)

    def log_record(self, log_record: dict[str, Any]) -> None:
        self._display.log_record(log_record)

    def end(self) -> None:
        self._display.end()


def news(log_record: dict[str, Any]) -> str:
    """An evaluated round in a few words."""
    losses = [client["loss"] for client in log_record.get("clients", ()) if "loss" in client]
    evaluation = log_record["evaluation"]
    found = evaluation[kind_of(evaluation)]
    words = [f"accuracy {percent(found['accuracy'])}" if "accuracy" in found else f"test loss {number(found['loss'])}"]
    if losses:
        words.append(f"loss {sum(losses) / len(losses):.3f}")
    if "running" in log_record:
        words.append(f"{log_record['running']} clients running")
    return ", ".join(words)
