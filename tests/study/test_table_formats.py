"""Tables as Markdown, LaTeX and HTML: by hand, and with names that have markup of every kind in them."""

from __future__ import annotations

from html.parser import HTMLParser
from io import StringIO

import pytest
from rich.console import Console

from edgefl.study.result_table import ResultPage, ResultTable, new_result_table
from edgefl.study.table_formats import NUMBER_STYLE, as_document, as_html, as_latex, as_markdown, html_table
from edgefl.study.tables import as_text, print_page

PAGE = ResultPage(
    (new_result_table("Scores, 2 seeds", ["method", "accuracy"], [["fedspu", "98.3±0.7 %"], ["fed_avg", "-"]]),),
    ("fedspu: +1.0 ± .5 points.",),
)
HOSTILE = '<script>alert(1)</script>|`*\\input{x}$a_b#%&~^"[red]x[/red](y)\x1b[31mµ'


def hostile() -> ResultPage:
    return ResultPage((new_result_table(HOSTILE, [HOSTILE, "n"], [[HOSTILE, "1"]]),), (HOSTILE,))


class Text(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_markdown() -> None:
    assert as_markdown(PAGE) == (
        "**Scores, 2 seeds**\n\n"
        "| method | accuracy |\n| --- | ---: |\n| fedspu | 98.3±0.7 % |\n| fed_avg | - |\n\n"
        "- fedspu: +1.0 ± .5 points.\n"
    )


def test_latex() -> None:
    assert as_latex(PAGE).splitlines()[1:] == [
        r"\begin{table}[htbp]",
        r"\centering\small\setlength{\tabcolsep}{4pt}",
        r"\caption{Scores, 2 seeds}\vspace{4pt}",
        r"\begin{tabular}{lr}",
        r"\hline",
        r"method & accuracy \\",
        r"\hline",
        r"fedspu & 98.3$\pm$0.7 \% \\",
        r"fed\_avg & -- \\",
        r"\hline",
        r"\end{tabular}",
        r"\end{table}",
        "% fedspu: +1.0 ± .5 points.",
    ]


def test_html_has_a_caption_and_scopes() -> None:
    found = Text(as_html(PAGE))
    heads = [(tag, attributes.get("scope")) for tag, attributes in found.tags if tag == "th"]
    assert heads == [("th", "col"), ("th", "col"), ("th", "row"), ("th", "row")]
    assert [tag for tag, _ in found.tags if tag == "caption"] == ["caption"]
    assert ("td", {"style": "text-align:right"}) in found.tags
    assert as_document(PAGE, "a <b>").startswith('<!doctype html>\n<html lang="en"><head><meta charset="utf-8">')
    assert "<title>a &lt;b&gt;</title>" in as_document(PAGE, "a <b>")


def test_names_with_markup_are_text_in_html() -> None:
    found = Text(as_html(hostile()))
    assert {tag for tag, _ in found.tags} == {"div", "table", "caption", "thead", "tr", "th", "tbody", "td", "ul", "li"}
    assert found.text.count(HOSTILE) == 4


def test_names_with_markup_are_text_in_markdown() -> None:
    row = as_markdown(hostile()).splitlines()[4]
    assert row.startswith(r"| &lt;script&gt;alert(1)&lt;/script&gt;\|\`\*\\input{x}$a_b#%&amp;~^")
    assert r"[/red]\(y)" in row and row.endswith("| 1 |")


def test_names_with_markup_are_text_in_latex() -> None:
    row = as_latex(hostile()).splitlines()[8]
    assert row.startswith(r"\textless{}script\textgreater{}alert(1)\textless{}/script\textgreater{}\textbar{}`$\ast$")
    assert r"\textbackslash{}input\{x\}\$a\_b\#\%\&\textasciitilde{}\textasciicircum{}\char34{}{[}red{]}x" in row
    assert row.endswith(r"{[}U+001B{]}{[}31m{[}U+00B5{]} & 1 \\")
    minus = new_result_table("t", ["-2 a-1", "-2 a-1"], [["-1", "-0.5 [-1.5, +.5]"]])
    rows = as_latex(ResultPage((minus,), ())).splitlines()
    assert (rows[6], rows[8]) == (r"-2 a-1 & $-$2 a-1 \\", r"-1 & $-$0.5 {[}$-$1.5, +.5{]} \\")
    assert as_latex(new_page("--a\\n\nb")).splitlines()[8] == r"-{}-a\textbackslash{}n b & 1 \\"
    assert [line for line in as_latex(hostile()).splitlines() if line.startswith("% <script>")]


def new_page(name: str) -> ResultPage:
    return ResultPage((new_result_table("t", ["m", "n"], [[name, "1"]]),), ())


def test_brackets_in_a_name_are_text_in_a_terminal_too() -> None:
    assert "[red]x[/red]" in as_text(new_page("[red]x[/red]"), 80)
    assert "[/]" in as_text(ResultPage((), ("a sentence with [/] in it",)), 80)


def test_plain_text_has_no_colours_even_where_they_are_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    coloured = StringIO()
    print_page(Console(file=coloured, width=80), PAGE)
    assert "\x1b[" in coloured.getvalue()  # so the environment does force them
    assert "\x1b" not in as_text(PAGE, 80)
    assert "fedspu   98.3±0.7 %" in " ".join(as_text(PAGE, 80).split()).replace("fedspu 98", "fedspu   98")


def test_a_row_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="t: a row has 1 cells; expected 2, as headings"):
        ResultTable("t", ("a", "b"), (("x",),))


def test_the_first_column_names_the_row_even_where_it_is_a_number() -> None:
    page = html_table(new_result_table("t", ["p", "n"], [["0.2", "1"]], left=0), NUMBER_STYLE)
    assert '<th scope="row" style="text-align:right">0.2</th>' in page
