"""The sample of cases for slow tools leaves out no kernel."""

from __future__ import annotations

import pytest

from ..cases import adversarial
from . import standin
from .sampling import kernels_of, of_every_kernel


@pytest.mark.parametrize("op", ["conv2d_grad_weight", "keep_largest", "sparse_conv2d_grad_weight"])
def test_a_sample_is_short_and_launches_every_kernel(op: str) -> None:
    backend, cases = standin.backend(), adversarial(op)
    sample = of_every_kernel(backend, cases)
    assert len(sample) <= len(cases) / 4
    assert set().union(*(kernels_of(backend, case) for case in sample)) == set().union(
        *(kernels_of(backend, case) for case in cases)
    )
