"""The refusal for a missing package that only some formats need, which names the extra that installs the package."""

from __future__ import annotations

from importlib.util import find_spec

from edgefl.errors import DataError

EXTRAS = {"PIL": "images", "pyarrow": "arrow", "h5py": "hdf5", "scipy": "science"}  # package -> extra of edgefl


def check_installed(what: object, package: str) -> None:
    """Raise DataError if the package that reads `what` is not installed."""
    if find_spec(package) is None:
        raise DataError(f"{what} needs the package {package}; expected: pip install 'edgefl[{EXTRAS[package]}]'")
