"""Make README the description on a package index: its relative links and pictures become addresses in the repository.

setup.py calls this. A package index shows the text alone, so a link to a file of the checkout would lead nowhere. The
addresses name the tag of the version, so that the page of an old version shows its own pictures.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)\s]+)(?=\))")
PICTURE = re.compile(r'(\bsrc(?:set)?=")(?!https?:)([^"]+)(?=")')


def description() -> str:
    """Return README for the version and the repository that pyproject.toml names."""
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    version, source = (re.findall(rf'^{key} = "(.*)"$', project, re.MULTILINE)[0] for key in ("version", "Source"))
    return with_addresses((ROOT / "README.md").read_text("utf-8"), source, f"v{version}")


def with_addresses(text: str, repository: str, tag: str) -> str:
    """Return the text with an address at GitHub in place of each relative link and picture."""
    raw = repository.replace("https://github.com/", "https://raw.githubusercontent.com/")
    text = PICTURE.sub(rf"\g<1>{raw}/{tag}/\g<2>", text)
    return LINK.sub(rf"\g<1>{repository}/blob/{tag}/\g<2>", text)
