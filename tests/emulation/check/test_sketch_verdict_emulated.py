"""What a sketch says beside its projections, in the emulation: the worst row, digests of the matrices that it reads,
and columns that are scaled alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import xxhash

from jobs.formats.elements import Array
from jobs.matrices.digest import PART
from kernels.model.numerics import OWN_ACCURACY, DTypeName, Problem
from tests.emulation.check.sketching import compiled, sketched
from tests.emulation.programs import Emulator
from tests.support.kernels.products import operands
from tests.support.kernels.sketches import Seed
from worker.check.rounding import rounding_of
from worker.check.row_errors import row_errors
from worker.check.sketch import Sketch
from worker.cpu import blas as cpu_blas

SEED: Seed = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
ALL = (True, True, True)


def data(problem: Problem) -> tuple[Array, Array, Array]:
    a, b = operands(problem, np.random.default_rng(problem.m))
    return a, b, cpu_blas.multiply(problem, a, b)


def sketch_of(found: dict[str, Array]) -> Sketch:
    flags = {name: found[name].view(np.bool_) for name in ("bad_rows", "bad_columns", "odd_columns")}
    peaks = found["row_peaks"]
    exponents = np.frexp(peaks.view(np.float64))[1] if peaks.size else np.zeros((1, 1), np.int32)
    unit = np.sqrt(found["unit"])
    return Sketch(found["difference"], found["q"], found["r"], unit, **flags, exponents=exponents)


def worst_of(found: dict[str, Array]) -> float:
    return float(np.sqrt(found["worst"].view(np.float64)[0]))


def expected_digests(elements: Array) -> list[int]:
    whole = elements.tobytes()
    ends = [*range(PART, max(1, len(whole) // PART) * PART, PART), len(whole)]
    return [xxhash.xxh3_64_intdigest(whole[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_the_worst_row_is_the_host_s(dtype: DTypeName, emulator: Emulator) -> None:
    kernel = compiled(emulator, dtype, (False, False), tensor=True)
    problem = Problem(300, 70, 66, dtype)
    rounding = rounding_of(problem, OWN_ACCURACY[dtype])
    a, b, c = data(problem)
    for element in (None, (299, 69), (0, 0)):
        wrong = c.copy()
        if element is not None:
            wrong.reshape(300, 70)[element] = c.max()
        found = sketched(kernel, problem, (a, b, wrong), width=66, seed=SEED, tolerance=rounding.tolerance_factors)
        errors = row_errors(sketch_of(found), rounding)
        np.testing.assert_allclose(worst_of(found), errors.worst.max(), rtol=1e-9)
        assert (errors.largest_within is not None) == (element is None) == (worst_of(found) <= 1.0)


def test_products_that_underflow_hide_no_others_of_their_row(emulator: Emulator) -> None:
    """Columns of B in many units, of which some products underflow: a stale row of normal numbers is found."""
    kernel = compiled(emulator, "float64", (False, False), tensor=True)
    problem = Problem(40, 70, 66, "float64")
    rounding = rounding_of(problem, OWN_ACCURACY["float64"])
    a, b = operands(problem, rng := np.random.default_rng(10))
    a, b = np.ldexp(a, -1060), np.ldexp(b, rng.integers(-1000, 250, (1, 70)))
    c = cpu_blas.multiply(problem, a, b).reshape(40, 70)
    stale = c.copy()
    stale[4] = c[5]
    for product in (c, stale):
        found = sketched(kernel, problem, (a, b, product), width=66, seed=SEED, tolerance=rounding.tolerance_factors)
        np.testing.assert_allclose(worst_of(found), row_errors(sketch_of(found), rounding).worst.max(), rtol=1e-9)
    assert worst_of(found) == np.inf


def test_no_difference_is_no_error_and_what_is_not_finite_is_infinite(emulator: Emulator) -> None:
    kernel = compiled(emulator, "float32", (False, False), tensor=True)
    problem = Problem(40, 70, 66, "float32")
    zeros = np.zeros((40, 66), np.float32), np.zeros((66, 70), np.float32), np.zeros((40, 70), np.float32)
    assert worst_of(sketched(kernel, problem, zeros, width=66, seed=SEED)) == 0.0
    a, b, c = data(problem)
    for place in range(3):
        matrices = [a.copy(), b.copy(), c.copy()]
        matrices[place][-1, -1] = np.inf
        first, second, third = matrices
        assert worst_of(sketched(kernel, problem, (first, second, third), width=66, seed=SEED)) == np.inf


@pytest.mark.parametrize(
    ("dtype", "sizes", "chunk"),
    [("float32", (37, 512, 256), 256), ("float32", (3, 256, 768), 256), ("bfloat16", (35, 512, 1024), 512)],
)
def test_matrices_are_digested_as_they_are_projected(
    dtype: DTypeName, sizes: tuple[int, int, int], chunk: int, emulator: Emulator
) -> None:
    """Parts of a row, of several rows, and longer ones at the end."""
    kernel = compiled(emulator, dtype, (False, False), tensor=True, chunk=chunk)
    problem = Problem(*sizes, dtype)
    matrices = data(problem)
    found = sketched(kernel, problem, matrices, width=problem.k, seed=SEED, digested=ALL, chunk=chunk, order=3)
    for name, matrix in zip("abc", matrices, strict=True):
        assert found[f"parts_{name}"].tolist() == expected_digests(matrix), name


def test_batches_are_digested_as_they_are_projected(emulator: Emulator) -> None:
    kernel = compiled(emulator, "float32", (False, False), tensor=True, chunk=256)
    base = Problem(19, 256, 256, "float32", 3, a_batched=True)
    for problem in (base, replace(base, b_batched=True)):
        matrices = data(problem)
        found = sketched(kernel, problem, matrices, width=256, seed=SEED, digested=ALL, chunk=256)
        for name, matrix in zip("abc", matrices, strict=True):
            assert found[f"parts_{name}"].tolist() == expected_digests(matrix), name


def test_an_infinity_does_not_change_a_digest(emulator: Emulator) -> None:
    """Its rows are projected again, and hashed once."""
    kernel = compiled(emulator, "float32", (False, False), tensor=True, chunk=256)
    problem = Problem(40, 256, 256, "float32")
    a, b, c = data(problem)
    a[5, 7], b[9, 11], c[30, 200] = np.inf, np.nan, -np.inf
    found = sketched(kernel, problem, (a, b, c), width=256, seed=SEED, digested=ALL, chunk=256)
    for name, matrix in zip("abc", (a, b, c), strict=True):
        assert found[f"parts_{name}"].tolist() == expected_digests(matrix), name


def test_columns_scaled_alike_have_the_exponent_of_the_largest(emulator: Emulator) -> None:
    kernel = compiled(emulator, "float32", (False, False), tensor=True)
    problem = Problem(20, 300, 66, "float32")
    a, b, _ = data(problem)
    b *= np.exp2(np.resize(np.arange(-20, 21, dtype=np.float32), 300))
    b[0, 8] = np.inf
    with np.errstate(all="ignore"):
        c = cpu_blas.multiply(problem, a, b)
    found = sketched(kernel, problem, (a, b, c), width=66, seed=SEED, common=True)
    norms = np.sqrt(np.square(b.astype(np.float64)).sum(axis=0))
    largest = np.frexp(norms[np.isfinite(norms)].max())[1]
    weights = np.where(np.isfinite(norms), 7 / 3 * 4.0**-largest, 0.0)
    np.testing.assert_allclose(found["w"][0], weights, rtol=1e-15)
    magnitudes = np.abs(found["x"][0]) * 2.0**largest
    assert ((magnitudes >= 1.0) & (magnitudes < 2.0)).all(axis=1).tolist() == np.isfinite(norms).tolist()
