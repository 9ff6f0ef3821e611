"""Finds `edgefl.server` in a checkout, where its folder is `server/`, beside `edgefl/`. Installed packages have it
inside and never import this file.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location

NAME = "edgefl.server"
FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "server")


class ServerFinder:
    """A finder of one module: the server has one path and one name, and no link in the file system is needed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The server's specification if `name` is its name, else None. Source: importlib's MetaPathFinder."""
        if name != NAME:
            return None
        return spec_from_file_location(name, os.path.join(FOLDER, "__init__.py"), submodule_search_locations=[FOLDER])


def install() -> None:
    """Adds the finder, unless the folder is missing: a device's install may leave the server out."""
    if os.path.isdir(FOLDER):
        sys.meta_path.append(ServerFinder)
