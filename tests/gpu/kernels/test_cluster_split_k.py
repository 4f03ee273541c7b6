"""`cluster_split_k` on a real GPU: that the blocks of a cluster find each other's sums, in every config, and that
copies go on rightly from one product of a batch to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from tests.gpu.products import compile_all, multiply
from tests.support.kernels.catalogue import config_id
from tests.support.kernels.products import assert_right, in_float64, operands

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

KERNEL = BY_NAME["cluster_split_k"]
assert isinstance(KERNEL, CudaKernel)
NAME = KERNEL.name
CONFIGS = [config for config in KERNEL.configs() if config["items"] == 1]
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
SHAPES = [(64, 64, 64), (130, 140, 1029), (33, 31, 65)]  # ragged, and with parts of k that are empty
# What the kernel is for, and sizes beside these whose rows are no whole runs.
TARGETS = [(64, 64, 64), (128, 128, 128), (256, 256, 256), (512, 512, 512), (16, 8192, 8192), (8192, 16, 8192)]
BESIDE = [(63, 65, 67), (255, 257, 253), (511, 513, 509), (17, 8191, 8193), (8191, 17, 8193), (64, 64, 8192)]


@pytest.fixture(scope="module", autouse=True)
def compiled(session_runner: CudaRunner) -> None:
    problems = [Problem(1, 1, 1, "float32", 1, *TRANSPOSES[index % 4]) for index in range(len(CONFIGS))]
    compile_all(session_runner, [(NAME, *each) for each in zip(CONFIGS, problems, strict=True)])


@pytest.mark.parametrize("index", range(len(CONFIGS)), ids=lambda index: config_id(CONFIGS[index]))
def test_every_config_right_to_the_last_bit(runner: CudaRunner, index: int, rng: np.random.Generator) -> None:
    """Small integers: right to the last bit, whatever the order of the sum."""
    for m, n, k in SHAPES:
        problem = Problem(m, n, k, "float32", 1, *TRANSPOSES[index % 4])
        a, b = operands(problem, rng, "integers")
        c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=CONFIGS[index])
        assert check.passed, (problem, check)
        np.testing.assert_array_equal(c, in_float64(problem, a, b)[0], err_msg=str(problem))


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        *((shape, "float32") for shape in (*TARGETS, *BESIDE)),
        *((shape, dtype) for shape in (TARGETS[2], BESIDE[2], BESIDE[5]) for dtype in ("float64", "int32")),
    ],
    ids=str,
)
def test_what_it_is_for(
    runner: CudaRunner, shape: tuple[int, int, int], dtype: DTypeName, rng: np.random.Generator
) -> None:
    """Twice, with the same bits: the order of additions is fixed."""
    problem = Problem(*shape, dtype)
    a, b = operands(problem, rng)
    first, check, _ = multiply(runner, NAME, problem, a, b, rng)
    assert check.passed, check
    rows = np.unique(np.linspace(0, shape[0] - 1, 8).astype(int))
    assert_right(Problem(len(rows), *shape[1:], dtype), a[rows], b, first[rows])
    np.testing.assert_array_equal(multiply(runner, NAME, problem, a, b, rng)[0], first)


@pytest.mark.parametrize("items", [1, 2, 4, 8])
@pytest.mark.parametrize("side", [32, 63, 64, 100])
def test_batches_of_small_products(runner: CudaRunner, side: int, items: int, rng: np.random.Generator) -> None:
    """More products than a block takes, fewer than it could, and one operand for all."""
    for batch, transposes, batched in (
        (37, TRANSPOSES[0], (True, True)),
        (3, TRANSPOSES[1], (True, False)),
        (1000, TRANSPOSES[3], (True, True)),
        (300, TRANSPOSES[2], (False, True)),
    ):
        problem = Problem(side, side, side, "float32", batch, *transposes, *batched)
        a, b = operands(problem, rng, "integers")
        c, check, _ = multiply(runner, NAME, problem, a, b, rng, config={"items": items})
        assert check.passed, (problem, check)
        np.testing.assert_array_equal(c, in_float64(problem, a, b)[0], err_msg=str(problem))


def test_clusters_take_one_product_after_the_other(runner: CudaRunner, rng: np.random.Generator) -> None:
    """Nobody writes the next product's sums while others of the cluster still read."""
    for cluster in (2, 4, 8):
        config = KERNEL.resolve_config({"cluster": cluster, "items": 8})
        problem = Problem(40, 72, 600, "float32", 203, a_batched=True, b_batched=True)
        a, b = operands(problem, rng, "integers")
        c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
        assert check.passed, check
        np.testing.assert_array_equal(c, in_float64(problem, a, b)[0])
