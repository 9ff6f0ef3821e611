"""OptionParser: argparse's parser whose refusals are one sentence with the nearest name, and the command that helps."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from edgefl.errors import nearest
from edgefl.protocol.wire.printable import printable


class OptionParser(argparse.ArgumentParser):
    """Exits with 2, and one line on stderr, where words are not understood."""

    def parse_args(  # type: ignore[override]  # argparse declares three forms of it
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """The options. Words that are left over are named, the first of them with the options that are near to it."""
        found, left = self.parse_known_args(args, namespace)
        if left:
            self.error(self._unknown(left))
        return found

    def error(self, message: str) -> NoReturn:
        """Says what is wrong and where the options are listed. Exits with 2."""
        print(printable(f"{self.prog}: {message}; `{self.prog} --help` lists the options"), file=sys.stderr)
        raise SystemExit(2)

    def _unknown(self, left: list[str]) -> str:
        first = next((word for word in left if word.startswith("-")), left[0])
        name = first.partition("=")[0]
        options = [text for action in self._actions for text in action.option_strings if text.startswith("--")]
        near = nearest(name, options) if name.startswith("--") else []
        if not name.startswith("-"):
            return f"{' '.join(left)} is one word too many; an option begins with --"
        return f"there is no option {name}" + (f"; the nearest are {', '.join(near)}" if near else "")
