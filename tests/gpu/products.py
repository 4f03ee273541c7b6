"""A product on the GPU, the way a job takes, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jobs.matrices import STORAGE_DTYPES, Array
from jobs.models import Measured, Verification
from kernels.catalog import BY_NAME
from kernels.choose import Choice
from kernels.kernel import NO_CONFIG, TileConfig
from kernels.numerics import Problem
from worker.runner import HostOperand, gathered
from worker.verify import check

if TYPE_CHECKING:
    from worker.cuda_runner import CudaRunner


def choice(name: str, config: TileConfig = NO_CONFIG) -> Choice:
    kernel = BY_NAME[name]
    return Choice(kernel, kernel.resolve_config(config), f"{name} was asked for.")


def multiply(
    runner: CudaRunner,
    name: str,
    problem: Problem,
    a: Array,
    b: Array,
    rng: np.random.Generator,
    *,
    config: TileConfig = NO_CONFIG,
    ids: tuple[str | None, str | None] = (None, None),
) -> tuple[Array, Verification, Measured]:
    """The product, its check, and its times."""
    operands = HostOperand(a, ids[0]), HostOperand(b, ids[1])
    with runner.compute(problem, choice(name, config), *operands) as product:
        verification = check(problem, BY_NAME[name].accuracy[problem.dtype], product.matrices, rng)
        given = gathered(product.chunks())
        measured = product.measured
    c = np.frombuffer(given, STORAGE_DTYPES[problem.product_dtype]).reshape(problem.product_shape)
    return c, verification, measured
