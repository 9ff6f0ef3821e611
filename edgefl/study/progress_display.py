"""The live progress of a simulation on stderr: a bar on a terminal, a changing line in a notebook, and otherwise one
plain line per evaluated round.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from edgefl.experiment.run_layout import Trial
from edgefl.study.place_scores import place_words
from edgefl.study.result_text import number, percent
from edgefl.study.summary import kind_of

LONGEST_NAME = 28  # characters of a method's label next to a bar


class Display(Protocol):
    """The protocol of a progress display for the command line. `begin` may start at a resumed round."""

    def begin(self, name: str, rounds: int, at: int) -> None: ...

    def log_record(self, log_record: dict[str, Any]) -> None: ...

    def end(self) -> None: ...


def display(is_wanted: bool, in_all: int = 0) -> Display | None:
    """Return the display for a program: in a notebook its own, on a terminal a bar, plain lines if wanted, or None.

    in_all  rounds of all methods, seeds and trials together, for a bar over all of them. 0: there is only one trial
    """
    if (shell := in_notebook()) is not None:
        return Notebook(shell)
    return watch(in_all=in_all) if is_wanted or sys.stderr.isatty() else None


def in_notebook() -> ModuleType | None:
    """Return IPython's display in a notebook's kernel, or else None. IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return None if shell is None or not hasattr(shell, "kernel") else sys.modules["IPython.display"]


def print_error(line: str) -> None:
    """Print a line on stderr."""
    print(line, file=sys.stderr, flush=True)


def watch(say: Callable[[str], None] = print_error, in_all: int = 0) -> Display:
    """Return a bar if stderr is a terminal, or else a display that passes plain lines to `say`."""
    return Bar(in_all) if sys.stderr.isatty() else LogDisplay(say)


class Bar:
    """One bar per method, which stays on the screen, and below them one bar over all methods, with the remaining time.

    in_all   rounds of all methods together. 0: there is no bar over all
    console  console on which the bars are drawn. None: stderr
    """

    def __init__(self, in_all: int = 0, console: Console | None = None) -> None:
        name = TextColumn("{task.description}", table_column=Column(no_wrap=True, min_width=10, overflow="ellipsis"))
        count, time = (Column(no_wrap=True, min_width=width) for width in (7, 7))
        columns = (name, BarColumn(bar_width=8), MofNCompleteColumn(table_column=count), TimeElapsedColumn(time))
        what = TextColumn("{task.fields[news]}", table_column=Column(no_wrap=True, min_width=27))
        self._progress = Progress(*columns, what, console=console or Console(stderr=True))
        self._task: TaskID | None = None
        self._all: TaskID | None = None
        self._in_all, self._done, self._at = in_all, 0, 0
        self._begun_at = 0.0  # seconds by the clock of the bars
        self._skipped = 0  # rounds that were done before this process

    def begin(self, name: str, rounds: int, at: int) -> None:
        self._progress.start()
        if self._all is not None:
            self._progress.remove_task(self._all)
        else:
            self._begun_at = self._progress.get_time()
        self._done, self._at, self._skipped = self._done + at, at, self._skipped + at
        self._task = self._progress.add_task(_shortened(name), total=rounds, completed=at, news="")
        if self._in_all:
            self._all = self._progress.add_task("all", total=self._in_all, completed=self._done, news=self._left())
            self._progress.tasks[-1].start_time = self._begun_at

    def log_record(self, log_record: dict[str, Any]) -> None:
        assert self._task is not None
        self._done, self._at = self._done + log_record["round"] - self._at, log_record["round"]
        self._progress.update(self._task, completed=log_record["round"])
        if has_news(log_record):
            self._progress.update(self._task, news=", ".join(scores(log_record)))
        if self._all is not None:
            self._progress.update(self._all, completed=self._done, news=self._left())

    def _left(self) -> str:
        """Return the time of the remaining rounds at the speed of the rounds so far, or "" before the first round."""
        done_here = self._done - self._skipped
        if not done_here:
            return ""
        taken_s = self._progress.get_time() - self._begun_at
        return f"{_clock(taken_s / done_here * max(self._in_all - self._done, 0))} left"

    def end(self) -> None:
        self._progress.stop()


class LogDisplay:
    """One line per evaluated round, and per round whose replies were summed by secure aggregation."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def begin(self, name: str, rounds: int, at: int) -> None:
        self._name, self._rounds = name, rounds

    def log_record(self, log_record: dict[str, Any]) -> None:
        if has_news(log_record):
            self._say(f"{self._name} round {log_record['round']}/{self._rounds}: {news(log_record)}")

    def end(self) -> None:
        """Do nothing, because there is nothing to close."""


class Notebook:
    """One line of output for each name, which changes as rounds close."""

    def __init__(self, shell: ModuleType) -> None:
        self._shell = shell

    def begin(self, name: str, rounds: int, at: int) -> None:
        self._name, self._rounds, self._news = name, rounds, ""
        self._shown = self._shell.display(self._text(at), raw=True, display_id=True)

    def log_record(self, log_record: dict[str, Any]) -> None:
        self._news = f": {news(log_record)}" if has_news(log_record) else self._news
        self._shown.update(self._text(log_record["round"]), raw=True)

    def end(self) -> None:
        """Do nothing, because there is nothing to close."""

    def _text(self, round: int) -> dict[str, str]:
        return {"text/plain": f"{self._name} round {round}/{self._rounds}{self._news}"}


class Displayed:
    """A watcher of a run (runner.py) that shows its rounds on a display."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def begin(self, trial: Trial, at: int) -> None:
        self._display.begin(str(trial), trial.rounds, at)

    def log_record(self, log_record: dict[str, Any]) -> None:
        self._display.log_record(log_record)

    def end(self) -> None:
        self._display.end()


def _shortened(name: str) -> str:
    """Shorten a name so that 80 columns have room for the figures behind it."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def has_news(log_record: dict[str, Any]) -> bool:
    """Return whether a round has scores: of an evaluation, or of groups that secure aggregation has summed."""
    return "evaluation" in log_record or bool(log_record.get("groups"))


def news(log_record: dict[str, Any]) -> str:
    """Describe a round that has scores in a few words, with the number of clients that have not stopped early."""
    running = [f"{log_record['running']} clients not stopped"] if "running" in log_record else []
    what = "" if "evaluation" in log_record else "after training: "  # of the groups that were summed
    return what + ", ".join([*scores(log_record), *running])


def scores(log_record: dict[str, Any]) -> list[str]:
    """Return the accuracy of an evaluated round, or its test loss, and the training loss of its clients.

    A round of groups without an evaluation has the mean accuracy of the clients' models after the training.
    """
    if "evaluation" not in log_record:
        return _group_scores(log_record)
    losses = [client["loss"] for client in log_record.get("clients", ()) if "loss" in client]
    evaluation = log_record["evaluation"]
    found = evaluation[kind_of(evaluation)]
    words = [f"accuracy {percent(found['accuracy'])}" if "accuracy" in found else f"test loss {number(found['loss'])}"]
    words += place_words(found)
    if losses:
        words.append(f"loss {sum(losses) / len(losses):.3f}")
    return words


def _group_scores(log_record: dict[str, Any]) -> list[str]:
    """Return the mean scores over the clients of the groups that were opened."""
    tested = [group for group in log_record["groups"] if "accuracy" in group]
    clients = sum(group["clients"] for group in tested)
    mean = sum(group["clients"] * group["accuracy"] for group in tested) / max(clients, 1)
    words = [f"accuracy {percent(mean)}"] if clients else []
    return [*words, f"loss {log_record['train_loss']:.3f}"]
