"""Link the files of server/ into edgefl/server/ as stubs, so that type checkers find edgefl.server in a checkout.

setup.py calls this for an editable install. Python itself ignores files that end with .pyi, and finds the server by
edgefl/_finder.py. The links show each change of a file at once. A new file gets its link from the next install. Git
ignores the folder.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def link_stubs(root: Path) -> None:
    """Make edgefl/server/ of the checkout anew, with a link NAME.pyi for each file NAME.py of server/."""
    stubs = root / "edgefl" / "server"
    shutil.rmtree(stubs, ignore_errors=True)
    for source in sorted((root / "server").rglob("*.py")):
        stub = stubs / source.relative_to(root / "server").with_suffix(".pyi")
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.symlink_to(os.path.relpath(source, stub.parent))
