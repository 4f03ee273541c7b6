"""`strassen`: how far off it may be, who gets it, and its launch. That it multiplies: tests/emulation."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.catalog import BY_NAME
from kernels.entries.strassen import FACTORS, half_of, is_direct
from kernels.model.architectures import ARCHITECTURES, H200
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import ACCURACY_NAMES, AccuracyName, Problem, meets
from kernels.selection.candidates import NoKernelError
from kernels.selection.choose import choose
from tests.support.kernels.checks import checked, flipped
from tests.support.kernels.products import matrix, sum_in_order
from worker.check.rounding import rounding_of

Kind = Literal["normal", "uniform", "wide", "constant", "sparse", "tiny", "one large quarter", "opposed means", "rows"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SIZE, DEPTH = 64, 600
PROBLEM = Problem(SIZE, SIZE, DEPTH, "float32")


def operands(kind: Kind, rng: np.random.Generator) -> tuple[Array, Array]:
    if kind in ("normal", "uniform", "wide", "constant", "sparse", "tiny"):
        a, b = (matrix(shape, "float32", rng, kind) for shape in ((SIZE, DEPTH), (DEPTH, SIZE)))
        return a, b
    a, b = (matrix(shape, "float32", rng) for shape in ((SIZE, DEPTH), (DEPTH, SIZE)))
    if kind == "one large quarter":
        a[SIZE // 2 :, DEPTH // 2 :] *= np.float32(1e4)
    elif kind == "opposed means":  # partial sums far larger than the product's: of A11 and B22, which never meet in C
        a[: SIZE // 2, : DEPTH // 2] += np.float32(30.0)
        b[DEPTH // 2 :, SIZE // 2 :] += np.float32(30.0)
    else:
        a *= np.float32(2.0) ** np.linspace(-20, 0, SIZE, dtype=np.float32)[:, np.newaxis]
    return a, b


def quarters(x: Array) -> tuple[Array, Array, Array, Array]:
    rows, columns = (size // 2 for size in x.shape)
    return x[:rows, :columns], x[:rows, columns:], x[rows:, :columns], x[rows:, columns:]


def by_halves(a: Array, b: Array) -> Array:
    """The kernel's arithmetic."""
    (a11, a12, a21, a22), (b11, b12, b21, b22) = quarters(a), quarters(b)
    left = (a11 + a22, a21 + a22, a11, a22, a11 + a12, a21 - a11, a12 - a22)
    right = (b11 + b22, b11, b12 - b22, b21 - b11, b22, b11 + b12, b21 + b22)
    m1, m2, m3, m4, m5, m6, m7 = map(sum_in_order, left, right)
    c: Array = np.block([[m1 + m4 - m5 + m7, m3 + m5], [m2 + m4, m1 - m2 + m3 + m6]])
    return c


@pytest.fixture(scope="module", params=KINDS)
def made(request: pytest.FixtureRequest) -> tuple[Kind, Array, Array, Array]:
    """A kind of data, operands and their product."""
    a, b = operands(request.param, np.random.default_rng(1))
    return request.param, a, b, by_halves(a, b)


def test_its_products_pass_the_check_of_its_class(made: tuple[Kind, Array, Array, Array]) -> None:
    _, a, b, c = made
    for seed in range(8):
        assert checked(PROBLEM, a, b, c, np.random.default_rng(seed), "fp32_normwise").passed


def test_rows_far_smaller_than_others_are_not_right_to_float32_s_own_class() -> None:
    a, b = operands("rows", np.random.default_rng(1))
    assert not checked(PROBLEM, a, b, by_halves(a, b), np.random.default_rng(1)).passed


@pytest.mark.parametrize("bit", [31, 26, 23, 16])
def test_the_check_finds_wrong_elements(made: tuple[Kind, Array, Array, Array], bit: int) -> None:
    """Also of its lower places, in the largest element of all."""
    kind, a, b, c = made
    row, column = np.unravel_index(np.argmax(np.abs(c)), c.shape)
    wrong = flipped(c, bit, (int(row), int(column)))
    if kind != "opposed means" or bit > 16:
        assert not checked(PROBLEM, a, b, wrong, np.random.default_rng(2), "fp32_normwise").passed


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_within_the_bound_of_norms(kind: Kind) -> None:
    """Each product of halves is off by (k/2 + 5)·u of its factors' norms, and these are at most 12 of C's in all."""
    a, b = operands(kind, np.random.default_rng(3))
    true = a.astype(np.float64) @ b.astype(np.float64)
    norms = np.linalg.norm(a.astype(np.float64), axis=1).max() * np.linalg.norm(b.astype(np.float64), axis=0).max()
    worst = np.abs(by_halves(a, b) - true).max()
    assert (
        worst <= 6 * (DEPTH + 10) * 2.0**-24 * norms <= rounding_of(PROBLEM, "fp32_normwise").accumulate * DEPTH * norms
    )


def test_strassen_runs_only_if_its_class_or_name_is_requested() -> None:
    assert [asked for asked in ACCURACY_NAMES if meets("fp32_normwise", asked)] == ["fp32_normwise"]
    assert [offered for offered in ACCURACY_NAMES if meets(offered, "fp32_normwise")] == [
        *("fp32", "fp64", "exact", "fp32_normwise")
    ]
    problem = Problem(8192, 8192, 8192, "float32")
    classes: tuple[AccuracyName, ...] = ("bf16", "tf32", "fp32")
    for architecture in ARCHITECTURES.values():
        for accuracy in classes:
            assert choose("auto", NO_CONFIG, problem, accuracy, architecture.traits).kernel.name != "strassen"
    assert choose("strassen", NO_CONFIG, problem, "fp32_normwise", H200.traits).kernel.name == "strassen"
    with pytest.raises(NoKernelError, match="strassen does not multiply float32 operands to fp32 accuracy"):
        choose("strassen", NO_CONFIG, problem, "fp32", H200.traits)


def test_small_products_and_large_batches_have_neither_sums_nor_workspace() -> None:
    kernel = BY_NAME["strassen"]
    assert isinstance(kernel, CudaKernel) and kernel.passes is not None and kernel.workspace is not None
    config = kernel.resolve_config({"min_side": 64})
    for problem in (
        Problem(63, 9000, 9000, "float32"),
        Problem(9000, 9000, 63, "float32"),
        Problem(64, 64, 64, "float32", 9363, False, False, True, True),
    ):
        assert is_direct(problem, config) and kernel.passes(problem, config) == ()
        assert (need := kernel.workspace(problem, config)) is not None and need.bytes == 0
        assert kernel.plan(problem, config).main.grid[2] <= problem.batch
    problem = Problem(64, 64, 64, "float32", 9362, False, False, True, True)
    assert kernel.plan(problem, config).main.grid[2] == FACTORS * problem.batch <= 65_535


def test_a_half_is_the_larger_one_and_whole_runs() -> None:
    for extent in range(64, 400):
        half = half_of(extent)
        assert half % 4 == 0 and extent / 2 <= half < extent / 2 + 4 and 0 < extent - half <= half


def test_what_it_needs_beside_the_matrices() -> None:
    """Seventeen quarters: 4.25 times a square matrix, and counters."""
    kernel = BY_NAME["strassen"]
    assert isinstance(kernel, CudaKernel) and kernel.workspace is not None
    need = kernel.workspace(Problem(8192, 8192, 8192, "float32"), kernel.resolve_config())
    assert need is not None and 0 < need.bytes - 17 * 4096**2 * 4 == need.zeroed_bytes < 8192
