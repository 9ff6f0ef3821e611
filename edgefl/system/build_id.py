"""The build of this edgefl: its version and its commit, as "0.1.0+3e7ad57212".

setup.py writes the commit into build.txt in this package, which git ignores; an sdist brings the file along. A build
from sources that know no commit, and a checkout that was never built, have the version alone. The commit of a checkout
that has moved on since is the one that was built, as the kernels are.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import edgefl

COMMIT = re.compile(r"[0-9a-f]{7,40}(\.dirty)?")


@cache
def build() -> str:
    """The version, and behind a plus the commit if the build knew it; ".dirty" if files differed from the commit."""
    commit = commit_in(Path(edgefl.__file__).parent / "build.txt")
    return f"{edgefl.__version__}+{commit}" if commit else edgefl.__version__


def commit_in(file: Path) -> str:
    """The commit that setup.py has written; empty if there is none."""
    try:
        found = file.read_text().strip()
    except (OSError, ValueError):
        return ""
    return found if COMMIT.fullmatch(found) else ""
