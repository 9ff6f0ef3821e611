"""The results of a run: tables, rows, JSON, a report. run.py has the run itself, and picture.py has its pictures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgefl.errors import RunError
from edgefl.experiment.settings import Experiment

if TYPE_CHECKING:
    import pandas

    from edgefl.study.result_table import ResultPage
    from edgefl.study.round_records import RoundRecord
    from edgefl.study.summary import Summary
    from edgefl.study.table_file import TableText

WIDTH = 100  # width of tables as plain text, in columns


class RunResults:
    """The results of a run as tables, rows, JSON and a report. Every `Run` has these results.

    directory   directory of the run
    experiment  settings of the run
    """

    directory: Path
    experiment: Experiment

    @property
    def summaries(self) -> dict[int, list[Summary]]:
        """The figures of the methods, in order, by seed."""
        raise NotImplementedError

    @property
    def metrics(self) -> list[RoundRecord]:
        """A plain record of every round of every method and seed."""
        raise NotImplementedError

    @property
    def tuned(self) -> Mapping[str, Mapping[str, Any]]:
        """The values that validation data have chosen for each method, by option. The mapping is empty if nothing was
        tuned.
        """
        return {label: dict(chosen) for label, chosen in self.experiment.tuned}

    def table(self, width: int = WIDTH, accuracy: float | None = None, format: str = "text") -> TableText:
        """The tables that `edgefl simulate` prints, the tuned values, and a warning for each tuned value at the edge of
        its grid. A notebook shows the result as HTML tables. `print` prints the result in the format.

        width     width of plain text, in columns
        accuracy  accuracy for which the tables say what each method had spent when the method first reached it. None:
                  as without --target-accuracy
        format    "text", "markdown", "latex", "html", or "csv", which has a row of numbers for each method
        Raises    ValueError for another format, RunError if no round has been evaluated yet
        """
        from edgefl.study.flat_rows import flat_rows  # these imports take a while
        from edgefl.study.table_file import TableText, check_format, formatted
        from edgefl.study.table_formats import as_html

        check_format(format, width)
        page = self._page(accuracy)
        rows = flat_rows(self) if format == "csv" else []
        return TableText(formatted(page, rows, format, width), as_html(page))

    def frame(self, kind: str = "methods") -> pandas.DataFrame:
        """The results as a pandas.DataFrame with the numbers of `to_json`.

        kind    rows of the frame. "methods": one row for each method, as in the CSV table. "seeds": for each method and
                seed. "clients": for each method, seed and client. "rounds": for each method, seed and round.
                "differences": for each pair of methods
        Raises  ValueError without pandas or for another kind, RunError if no round has been evaluated yet
        """
        from edgefl.study.data_frame import check_pandas, data_frame
        from edgefl.study.flat_rows import flat_rows

        check_pandas()
        return data_frame(flat_rows(self, kind))

    def to_json(self) -> dict[str, Any]:
        """All figures as JSON values, as `edgefl simulate --json` prints them."""
        from edgefl.study import tuning
        from edgefl.study.result_text import to_json

        asked = {"run": str(self.directory), "experiment": self.experiment.to_json()}
        return {**asked, **to_json(self.summaries), **tuning.found_in(self.directory)}

    def report(self, path: str | os.PathLike[str], beside: Sequence[RunResults] = ()) -> Path:
        """Write a report of the run into one HTML file, which needs no other file and no network. The report has the
        settings, curves, tables, clients, costs and provenance. The report of a run that goes on has the results so
        far.

        path    name of the HTML file
        beside  other runs that the report compares with this run
        Raises  ValueError or RequestError for a file that cannot be written, OSError if the disk refuses
        """
        from edgefl.study.report import check_report_file, write_report

        check_report_file(Path(path))
        runs: list[Any] = [self, *beside]
        write_report(Path(path), runs)
        return Path(path)

    def _repr_html_(self) -> str:
        """Return the tables for a notebook, or the reason why there are no tables yet."""
        from html import escape

        from edgefl.study.table_formats import as_html

        try:
            return as_html(self._page())
        except RunError as error:
            return f"<p>{escape(repr(self))}: {escape(str(error))}</p>"

    def _page(self, accuracy: float | None = None) -> ResultPage:
        from edgefl.study import tuning
        from edgefl.study.tables import result_page

        return result_page(self.summaries, accuracy=accuracy, beside=tuning.words(self.directory))
