"""A short run of `make stress` on a real GPU: one product of each kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.stress.cases import Deck
from tests.stress.proof import wrong

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner


def test_a_random_product_of_each_kernel_is_right(runner: CudaRunner, rng: np.random.Generator) -> None:
    seed = int(rng.integers(2**31))
    deck = Deck(seed, runner.device.traits)
    for case in map(deck.case, range(len(deck.kernels))):
        assert wrong(runner, case, seed) is None, case
