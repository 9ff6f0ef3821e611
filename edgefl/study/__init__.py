"""Experiments as a library: an experiment is prepared and run, and its results become figures, tables and pictures.

simulation   the rounds in one process, which define what is correct for the server
export       trained models as files for other programs
report       several runs side by side in one HTML file

No command line option is read here (cli), and nothing here prints by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgefl import _lazily

if TYPE_CHECKING:
    from edgefl.study.run import Run, open_run

EXPORTS = {  # public name -> the module that defines it, which is read when the name is first asked for
    "Run": "edgefl.study.run",
    "open_run": "edgefl.study.run",
}


if not TYPE_CHECKING:
    __getattr__ = _lazily(__name__, EXPORTS)


__all__ = ["Run", "open_run"]
