"""The benches set the number of threads of their process, and a fixture here restores it after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from edgefl.kernels import native


@pytest.fixture(autouse=True)
def own_threads() -> Iterator[None]:
    ours, theirs = native.threads(), torch.get_num_threads()
    yield
    native.set_threads(ours)
    torch.set_num_threads(theirs)
