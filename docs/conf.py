"""The settings of the site that scripts/site.sh builds: Sphinx with MyST pages and the theme furo.

scripts/site.sh copies the pages into a folder of its own, so a build writes nothing into the checkout. The site asks
nothing of any other host when it is read: furo brings its scripts and has no fonts, and no page has formulas in TeX.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_ext"), str(ROOT / "scripts")]

project = "edgefl"
author = "The authors of edgefl"
copyright = author  # Sphinx's name for the line at the foot of each page
html_title = "edgefl"

extensions = [
    "myst_nb",  # Markdown pages and notebooks
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "plain_docstrings",
    "generated_pages",
    "index_page",
    "repository_files",
]
root_doc = "docs/index"
exclude_patterns = ["docs/_ext", "docs/_static"]

myst_heading_anchors = 4
smartquotes = False  # two hyphens begin an option
suppress_warnings = ["misc.highlighting_failure"]  # blocks of text are no program
nb_execution_mode = "off"  # tests/test_notebooks.py runs the notebooks
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # these would be loaded from other hosts

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True  # the default as the source has it
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_static_path = [str(ROOT / "docs" / "_static")]
html_css_files = ["site.css"]
html_extra_path = [str(ROOT / "docs" / "_static" / "redirect")]
html_search_scorer = str(ROOT / "docs" / "_static" / "search_order.js")
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
copybutton_selector = "div.highlight-sh pre, div.highlight-python pre, div.highlight-ipython3 pre"
copybutton_copy_empty_lines = True
