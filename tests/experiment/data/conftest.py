"""The folder of the real data sets, if this machine has them."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder that EDGEFL_DATA names, or shared/data beside the repository, or skip the test."""
    beside = Path(__file__).resolve().parents[4] / "shared" / "data"
    folder = Path(os.environ.get("EDGEFL_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no real data: neither EDGEFL_DATA nor {beside}")
    return folder
