"""The report of runs in one HTML file, which can be read without a network, another file or a script.

The runs are read by reported_run.py. Each section of the page has a file: it gets the runs as values and gives HTML.
Charts are drawn as SVG by this package alone, so that a server without matplotlib can write a report.
"""

from __future__ import annotations

from edgefl.study.report.report_file import check_report_file, write_report

__all__ = ["check_report_file", "write_report"]
