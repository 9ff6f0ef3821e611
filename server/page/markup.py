"""The page as one file: its markup with style and script inside, and the policy that lets only these two run.

The three parts lie in this folder as a browser reads them, so that nothing has to be built.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Markup:
    """The markup of the page.

    page    answer to GET /
    policy  Content-Security-Policy of the page
    """

    page: bytes
    policy: str

    @staticmethod
    def read() -> Markup:
        """Read the page from the files of this package."""
        style, script = ((HERE / name).read_text("utf-8") for name in ("page.css", "page.js"))
        page = (HERE / "page.html").read_text("utf-8")
        page = page.replace("/*STYLE*/", style).replace("/*SCRIPT*/", script)
        policy = (
            f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; connect-src 'self'; "
            "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        return Markup(page.encode(), policy)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
