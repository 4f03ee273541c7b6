"""A short run of `make stress` on a real GPU: products of each kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.stress.ahead import compile_ahead
from tests.stress.cases import Deck
from tests.stress.proof import wrong
from tests.support.kernels.catalogue import mirrored_at_any_size

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

TURNS = 2


def test_random_products_of_each_kernel_are_right(runner: CudaRunner, rng: np.random.Generator) -> None:
    seed = int(rng.integers(2**31))
    deck = Deck(seed, runner.device.traits)
    with mirrored_at_any_size():
        cases = [deck.case(number) for number in range(TURNS * len(deck.kernels))]
        compile_ahead(runner, cases)
        for case in cases:
            assert wrong(runner, case, seed) is None, case
