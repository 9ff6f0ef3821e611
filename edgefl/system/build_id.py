"""The build of this edgefl: its version and its commit, as "0.1.0+3e7ad57212".

setup.py writes the commit into build.txt in this package. git ignores the file, and an sdist contains it. The build has
the version alone if its sources know no commit, or if a checkout was never built. In a checkout with newer commits the
build names the commit that was built, because the kernels are of that commit.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import edgefl

COMMIT = re.compile(r"[0-9a-f]{7,40}(\.dirty)?")


@cache
def build() -> str:
    """Return the version, followed by a plus and the commit if the build knew it. ".dirty" says that files differed."""
    commit = commit_in(Path(edgefl.__file__).parent / "build.txt")
    return f"{edgefl.__version__}+{commit}" if commit else edgefl.__version__


def commit_in(file: Path) -> str:
    """Return the commit that setup.py has written into a file, or an empty text if there is no commit."""
    try:
        found = file.read_text().strip()
    except (OSError, ValueError):
        return ""
    return found if COMMIT.fullmatch(found) else ""
