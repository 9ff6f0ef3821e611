"""The report of runs in one HTML file, which can be read without a network, another file or a script.

reported_run.py reads the runs. Each section of the page has a file, which gets the runs as values and returns HTML.
This package alone draws the charts, as SVG, so that a server without matplotlib can write a report.
"""

from __future__ import annotations

from edgefl.study.report.report_file import check_report_file, write_report

__all__ = ["check_report_file", "write_report"]
