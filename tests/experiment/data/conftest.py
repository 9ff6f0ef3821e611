"""Where the real data sets are, if this machine has them."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder named by EDGEFL_DATA, or shared/data beside the repository; the test is skipped without it."""
    beside = Path(__file__).resolve().parents[4] / "shared" / "data"
    folder = Path(os.environ.get("EDGEFL_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no real data: neither EDGEFL_DATA nor {beside}")
    return folder
