"""Live progress of a simulation on stderr: a bar on a terminal, one plain line per evaluated round elsewhere."""

from __future__ import annotations

import sys
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from edgefl.study.sentences import number, percent
from edgefl.study.summary import kind_of


class Display(Protocol):
    """What the command line needs of a progress display. `begin` may start at a resumed round."""

    def begin(self, name: str, rounds: int, at: int) -> None: ...

    def line(self, line: dict[str, Any]) -> None: ...

    def end(self) -> None: ...


def watch() -> Display:
    """A bar if stderr is a terminal, plain lines if not."""
    return Bar() if sys.stderr.isatty() else Lines()


class Bar:
    """One bar per method, which stays on the screen."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, TextColumn("{task.fields[news]}"), console=Console(stderr=True))
        self._task: TaskID | None = None

    def begin(self, name: str, rounds: int, at: int) -> None:
        self._progress.start()
        self._task = self._progress.add_task(name, total=rounds, completed=at, news="")

    def line(self, line: dict[str, Any]) -> None:
        assert self._task is not None
        if "evaluation" in line:
            self._progress.update(self._task, completed=line["round"], news=news(line))
        else:
            self._progress.update(self._task, completed=line["round"])

    def end(self) -> None:
        self._progress.stop()


class Lines:
    """One line per evaluated round."""

    def begin(self, name: str, rounds: int, at: int) -> None:
        self._name, self._rounds = name, rounds

    def line(self, line: dict[str, Any]) -> None:
        if "evaluation" in line:
            print(f"{self._name} round {line['round']}/{self._rounds}: {news(line)}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Nothing to close."""


def news(line: dict[str, Any]) -> str:
    """An evaluated round in a few words."""
    losses = [client["loss"] for client in line.get("clients", ()) if "loss" in client]
    evaluation = line["evaluation"]
    found = evaluation[kind_of(evaluation)]
    words = [f"accuracy {percent(found['accuracy'])}" if "accuracy" in found else f"test loss {number(found['loss'])}"]
    if losses:
        words.append(f"loss {sum(losses) / len(losses):.3f}")
    if "running" in line:
        words.append(f"{line['running']} clients running")
    return ", ".join(words)
