"""The report as a page and as a file. Each section's content is made in the section's file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from html import escape
from pathlib import Path

from edgefl.study.report.client_section import client_section
from edgefl.study.report.curve_section import curve_section
from edgefl.study.report.looks import looks_of
from edgefl.study.report.overview_section import overview_section, settings_section
from edgefl.study.report.page_style import SCRIPT, STYLE, policy
from edgefl.study.report.provenance_section import provenance_section
from edgefl.study.report.reported_run import ReportedRun, SourceRun, names_of, reported
from edgefl.study.report.result_section import cost_section, difference_section, result_section, tier_section
from edgefl.system.durable_files import check_writable, write_atomically

SUFFIXES = (".html", ".htm")
TITLES = {  # titles of the sections, by their ids, in order
    "overview": "Overview",
    "settings": "What was asked for",
    "curves": "Curves",
    "results": "Results",
    "differences": "Paired differences",
    "clients": "Clients",
    "tiers": "Capacity tiers",
    "costs": "Costs",
    "provenance": "Provenance",
}


def check_report_file(path: Path) -> None:
    """Raise ValueError for another suffix, RequestError for a file that cannot be written."""
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path}; expected a file that ends in {' or '.join(SUFFIXES)}")
    check_writable(path)


def write_report(path: Path, runs: Sequence[SourceRun]) -> None:
    """Write a report of the runs. Raises RunError for a damaged run, OSError if the disk refuses."""
    names = names_of([run.directory for run in runs])
    found = [reported(run, name) for run, name in zip(runs, names, strict=True)]
    write_atomically(path, page(found, datetime.now(timezone.utc)).encode())


def page(runs: Sequence[ReportedRun], now: datetime) -> str:
    """Return the whole page as text."""
    looks = looks_of([run.methods for run in runs])
    sections = [
        overview_section(runs),
        settings_section(runs),
        curve_section(runs, looks),
        result_section(runs),
        difference_section(runs),
        client_section(runs, looks),
        tier_section(runs),
        cost_section(runs),
        provenance_section(runs),
    ]
    body = "\n".join(each for each in sections if each)
    return f'{_head(runs)}{_top(runs, now, body)}\n<main id="main">\n{body}\n</main>\n{_bottom()}'


def _title(runs: Sequence[ReportedRun]) -> str:
    return f"edgefl report: {', '.join(run.name for run in runs)}"


def _head(runs: Sequence[ReportedRun]) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(_title(runs))}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    )


def _top(runs: Sequence[ReportedRun], now: datetime, body: str) -> str:
    """Return the heading, and links to the sections that the page has."""
    links = "".join(
        f'<li><a href="#{id}">{title}</a></li>' for id, title in TITLES.items() if f'<section id="{id}"' in body
    )
    written = f"Written on {now:%d %B %Y at %H:%M} UTC"
    count = "one run" if len(runs) == 1 else f"{len(runs)} runs"
    return (
        '<a class="skip" href="#main">To the results</a>\n<header>\n'
        f'<h1>{escape(_title(runs))}</h1>\n<p class="soft">{written}, of {count}.</p>\n'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n</header>'
    )


def _bottom() -> str:
    return f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
