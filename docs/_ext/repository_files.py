"""Makes links and pictures of the pages, which are written for the checkout, right for the site.

A link to a file that is not a page becomes a download of the file. A link to a folder leads to the index page of the
folder, or else becomes text. A drawing stands in the page itself, so that it follows the colours of the page. A block
of text after `<!-- prints -->` or `<!-- begins -->` gets a caption, as it is what the block above printed.
"""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
PICTURE = re.compile(
    r"<picture>.*?srcset=\"(?P<dark>[^\"]*)\".*?<img alt=\"(?P<alt>[^\"]*)\" src=\"(?P<light>[^\"]*)\">.*?</picture>",
    re.DOTALL,
)
PRINTED = re.compile(r"^<!-- (?P<note>prints|begins) -->\n```text\n", re.MULTILINE)
CAPTIONS = {"prints": "What it prints", "begins": "What it prints first; the numbers differ between machines"}
PAGES = (".md", ".rst", ".ipynb")


def setup(app: Sphinx) -> dict[str, bool]:
    """Has the sources changed when Sphinx reads them, and the drawings put in when it writes."""
    app.connect("source-read", _read)
    app.connect("doctree-resolved", _inline_drawings)
    return {"parallel_read_safe": True}


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    if not (Path(app.srcdir) / f"{page}.md").exists():
        return
    text = PICTURE.sub(_for_both_themes, source[0])
    text = PRINTED.sub(_captioned, text)
    folder = (Path(app.srcdir) / page).parent
    source[0] = LINK.sub(lambda found: _link(app, folder, found), text)


def _for_both_themes(found: re.Match[str]) -> str:
    """A picture of the README: the theme shows the one or the other of two images."""
    themes = ("light", "dark")
    return "\n".join(f"```{{image}} {found[each]}\n:alt: {found['alt']}\n:class: only-{each}\n```" for each in themes)


def _captioned(found: re.Match[str]) -> str:
    return f"```{{code-block}} text\n:caption: {CAPTIONS[found['note']]}\n:class: printed\n\n"


def _link(app: Sphinx, folder: Path, found: re.Match[str]) -> str:
    text, target = found["text"], found["target"]
    if re.match(r"[a-z]+:", target):
        return found[0]
    copy = (folder / target).resolve()
    original = Path(app.confdir).parent / copy.relative_to(Path(app.srcdir).resolve())
    if (copy / "index.md").exists():
        return f"[{text}]({target}/index.md)"
    if copy.suffix in PAGES and copy.exists():
        return found[0]
    if not original.is_file():
        return text
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(original, copy)
    if found["picture"]:
        return found[0]
    return f"{{download}}`{text.replace('`', '')} <{target}>`"


def _inline_drawings(app: Sphinx, tree: nodes.document, page: str) -> None:
    for image in list(tree.findall(nodes.image)):
        path = Path(app.srcdir) / image["uri"]
        if path.suffix == ".svg" and path.parent.name == "drawings":
            image.replace_self(nodes.raw("", inlined(path.read_text(), image.get("alt", "")), format="html"))


def inlined(svg: str, alt: str) -> str:
    """A drawing for the middle of a page: without its own text colour, and with its description."""
    text = re.sub(r"<\?xml[^>]*\?>\s*|<style>.*?</style>\s*", "", svg, flags=re.DOTALL)
    label = f'<svg role="img" aria-label="{html.escape(alt, quote=True)}" '
    return f'<div class="drawing-frame">{text.replace("<svg ", label, 1)}</div>'
