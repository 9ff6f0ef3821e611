"""A report: runs beside each other in one HTML file that needs no network, no other file and no script to be read.

The runs are read by reported_run.py. Each section of the page has a file: it gets the runs as values and gives HTML.
Charts are drawn as SVG by this package alone, so that a server without matplotlib can write a report.
"""

from __future__ import annotations

from edgefl.study.report.report_file import check_report_file, write_report

__all__ = ["check_report_file", "write_report"]
