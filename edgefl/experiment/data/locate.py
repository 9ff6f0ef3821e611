"""The search for the files of a data set on this machine. No file is opened."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

ENVIRONMENT = "EDGEFL_DATA"
SYSTEM_ROOT = Path("/usr/share/datasets")  # the Debian package dataset-fashion-mnist installs fashion-mnist/ there


def roots(data_dir: str | os.PathLike[str] | None, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the folders to search, in order: `data_dir`, $EDGEFL_DATA, the user's cache, the system's data sets."""
    named = [Path(root).expanduser() for root in (data_dir, environ.get(ENVIRONMENT)) if root]
    return [*named, cache(environ), SYSTEM_ROOT]


def cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of downloads if no folder is named: edgefl/ in the XDG cache folder."""
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgefl"


def candidates(searched: Sequence[Path], folders: Sequence[str], archive: str | None) -> list[Path]:
    """Return every folder or archive that could hold a data set, best first.

    folders  the data set's usual folders relative to a root. A root that is itself such a folder counts too
    archive  the name of the published archive, which is searched for in the root and in its usual folders
    """
    found: list[Path] = []
    for root in searched:
        locations = [root / folder for folder in folders]
        locations += [
            root for folder in folders if root.absolute().parts[-len(Path(folder).parts) :] == Path(folder).parts
        ]
        found += locations
        if archive is not None:
            found += [location / archive for location in (root, *locations)]
    return list(dict.fromkeys(found))


def holds(location: Path, files: Sequence[str]) -> bool:
    """Return whether the path is an archive, or a folder with each of the files, gzipped or not."""
    if not location.is_dir():
        return location.is_file()
    return all((location / file).is_file() or (location / f"{file}.gz").is_file() for file in files)
