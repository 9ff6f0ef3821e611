"""A page of results as text of a file: Markdown, LaTeX, HTML. Names with markup in them are text in all formats.
tables.py prints to terminals, and flat_rows.py has numbers for programs.
"""

from __future__ import annotations

import re
from html import escape

from edgefl.study.result_table import ResultPage, ResultTable
from edgefl.study.result_text import NONE

NUMBER_STYLE = 'style="text-align:right"'  # style of a cell in a page without a style sheet
MARKDOWN = re.compile(r"([\\|*`]|(?<=\])\()")
LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\char34{}", "±": r"$\pm$", "[": "{[}", "]": "{]}", "*": r"$\ast$",
}  # fmt: skip
MINUS = re.compile(r"(?<![\w.)-])-(?=[\d.])")  # a minus sign before a number, not within a name
ACCENTED = "ÀÁÂÃÄÅÇÈÉÊËÌÍÎÏÑÒÓÔÕÖÙÚÛÜÝàáâãäåçèéêëìíîïñòóôõöùúûüýÿØøßÆæŒœ"  # letters that LaTeX knows without a package
HEAD_OF_LATEX = "% Made by edgefl. \\input this file where the tables belong; it needs no package."


def as_markdown(page: ResultPage) -> str:
    """Return tables as GitHub and most other readers know them, each with a bold title, and the sentences as a list."""
    parts = [_markdown_table(table) for table in page.tables]
    said = "\n".join(f"- {_markdown(sentence)}" for sentence in page.sentences)
    return "\n\n".join([*parts, *([said] if said else [])]) + "\n"


def _markdown_table(table: ResultTable) -> str:
    rules = [" --- " if i < table.left else " ---: " for i in range(len(table.headings))]
    rows = ["|".join(f" {_markdown(cell)} " for cell in row) for row in (table.headings, *table.rows)]
    lines = "\n".join(f"|{row}|" for row in (rows[0], "|".join(rules), *rows[1:]))
    return f"**{_markdown(table.title)}**\n\n{lines}"


def _markdown(text: str) -> str:
    plain = MARKDOWN.sub(r"\\\1", " ".join(text.split()))
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def as_latex(page: ResultPage) -> str:
    """Return a `table` with its caption for each table, without any package, and the sentences as comments."""
    said = [f"% {_one_line(sentence)}" for sentence in page.sentences]
    return "\n".join([HEAD_OF_LATEX, *map(_latex_table, page.tables), *said]) + "\n"


def _latex_table(table: ResultTable) -> str:
    columns = "l" * table.left + "r" * (len(table.headings) - table.left)
    cells = [
        [_latex(cell) if i < table.left else _latex_number(cell) for i, cell in enumerate(row)]
        for row in (table.headings, *table.rows)
    ]
    rows = [" & ".join(row) + r" \\" for row in cells]
    return "\n".join(
        [
            r"\begin{table}[htbp]",
            r"\centering\small\setlength{\tabcolsep}{4pt}",
            rf"\caption{{{_latex(table.title)}}}\vspace{{4pt}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\hline",
            rows[0],
            r"\hline",
            *rows[1:],
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def _latex(text: str) -> str:
    """Return text in which nothing is a command. A character that LaTeX does not know is named by its code."""
    return "".join(map(_latex_character, _one_line(text))).replace("--", "-{}-")


def _latex_number(text: str) -> str:
    """Return a cell of numbers: minus signs are as long as plus signs, and a dash stands for a missing number."""
    return "--" if text == NONE else MINUS.sub("$-$", _latex(text))


def _latex_character(each: str) -> str:
    if each in LATEX:
        return LATEX[each]
    return each if each in ACCENTED or (each.isascii() and each.isprintable()) else f"{{[}}U+{ord(each):04X}{{]}}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def as_html(page: ResultPage) -> str:
    """Return tables and a list of the sentences, for another page or a notebook."""
    tables = "\n".join(html_table(table, NUMBER_STYLE) for table in page.tables)
    return f"<div>\n{tables}\n{html_sentences(page)}\n</div>\n"


def as_document(page: ResultPage, title: str) -> str:
    """Return `as_html` as a file of its own."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{as_html(page)}</body></html>\n'


def html_table(table: ResultTable, number: str) -> str:
    """Return one table, whose first column names the rows. `number` are the attributes of a right-aligned cell."""
    heads = "".join(
        f'<th scope="col"{"" if i < table.left else " " + number}>{escape(heading)}</th>'
        for i, heading in enumerate(table.headings)
    )
    rows = "\n".join(f"<tr>{_html_cells(row, table.left, number)}</tr>" for row in table.rows)
    head = f"<caption>{escape(table.title)}</caption>\n<thead><tr>{heads}</tr></thead>"
    return f"<table>{head}\n<tbody>\n{rows}\n</tbody></table>"


def _html_cells(row: tuple[str, ...], left: int, number: str) -> str:
    first = f'<th scope="row"{"" if left else " " + number}>{escape(row[0])}</th>'
    rest = (f"<td{'' if i < left else ' ' + number}>{escape(cell)}</td>" for i, cell in enumerate(row[1:], start=1))
    return first + "".join(rest)


def html_sentences(page: ResultPage) -> str:
    """Return the sentences as a list."""
    return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in page.sentences) + "</ul>"
