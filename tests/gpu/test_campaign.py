"""A short `make prove` on a real GPU: products there, faults written over them there."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.settings import Settings
from tests.campaign.faults import FAULTS
from tests.campaign.run import Share, check_clean, inject
from tests.campaign.tally import Result, Tally

KERNELS = ("naive", "warp_tiled", "cublas", "cublas_tf32", "hopper_int8", "complex_as_real")
GROSS = ("one element", "a row zeroed", "two rows swapped", "a tile of another job")  # the first of all among them


@pytest.mark.parametrize("kernel", KERNELS)
def test_gross_faults_are_caught_and_clean_products_pass(
    gpu_settings: Settings, rng: np.random.Generator, kernel: str
) -> None:
    from tests.campaign.gpu_backend import GpuBackend

    seed = int(rng.integers(2**31))
    share = Share("gpu:0", seed, first=0, processes=1, faults=20, clean=100, seconds=60.0, kernels=(kernel,))
    backend, result = GpuBackend(gpu_settings, seed, (kernel,)), Result({name: Tally() for name in FAULTS})
    inject(backend, share, result, np.inf)
    check_clean(backend, share, result, np.inf)
    assert result.clean.total() == share.clean and not result.refused and not result.outside
    for name in GROSS:
        one = result.faults[name]
        assert one.above > 0 and one.caught == one.above, (name, one)
