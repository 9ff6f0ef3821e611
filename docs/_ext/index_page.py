"""Makes the navigation of the site from docs/index.md, which is a plain page with lists of links.

Every heading of the second level becomes a caption of the sidebar, and every link beneath the heading that leads to a
page becomes an entry. The index of another folder gets its navigation from its links likewise. The pages that
docs/_ext/generated_pages.py writes are added to the heading "Reference".
"""

from __future__ import annotations

import os
import re

from docutils import nodes
from sphinx.application import Sphinx

GENERATED = {
    "reference/commands.rst": "every command with all of its options",
    "reference/api.rst": "every public name by part, with signatures and links",
}
TITLES = {"reference/commands.rst": "Commands and options", "reference/api.rst": "API by part"}
UNSEARCHED = ("docs/index", "README", "CHANGELOG", "docs/api")  # they name everything; other pages say it
PAGE = re.compile(r"^\* \[[^\]]+\]\((?P<target>[^)\s#]+\.(?:md|rst|ipynb))\)", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, bool]:
    """Has the index extended when Sphinx reads it."""
    app.connect("source-read", _read, priority=400)
    app.connect("doctree-read", _leave_out_of_search)
    return {"parallel_read_safe": True}


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    if page == app.config.root_doc:
        source[0] = with_navigation(source[0])
    elif page.endswith("/index"):
        source[0] += "\n" + _tree("", os.path.dirname(page), source[0])


def _leave_out_of_search(app: Sphinx, tree: nodes.document) -> None:
    if app.env.docname in UNSEARCHED:
        app.env.metadata[app.env.docname]["nosearch"] = "true"


def with_navigation(text: str) -> str:
    """The index with a hidden toctree at the end for every section."""
    head, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    shown, trees = [head], []
    for section in sections:
        title, _, _ = section.removeprefix("## ").partition("\n")
        if title == "Reference":
            section = section.replace("* [", "".join(map(_item, GENERATED)) + "* [", 1)
        shown.append(section)
        trees.append(_tree(title, "docs", section))
    return "".join([*shown, "\n", *trees])


def _item(target: str) -> str:
    return f"* [{TITLES[target]}]({target}): {GENERATED[target]}\n"


def _tree(caption: str, folder: str, text: str) -> str:
    """A hidden toctree of the pages that a text lists; the entries are written from the root of the site."""
    targets = [os.path.normpath(os.path.join(folder, found["target"])) for found in PAGE.finditer(text)]
    entries = ["/" + os.path.splitext(target)[0] for target in targets]
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["```{toctree}", *options, "", *entries, "```", "", ""])
