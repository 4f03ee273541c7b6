"""The check's sketch in the emulation, against its definition in numpy: every element type, both ways to lie, with
tensor cores and without."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTypeName, Problem
from tests.emulation.check.sketching import PHILOX, compiled, sketched
from tests.emulation.launches import Memory, Run, execute
from tests.emulation.programs import Compiled, Emulator
from tests.support.kernels.philox import philox
from tests.support.kernels.products import operands, stored
from tests.support.kernels.sketches import Seed, assert_sketch, expected_sketch, wrong_rows
from worker.cpu import blas as cpu_blas

Kind = tuple[DTypeName, tuple[bool, bool], bool]  # whether A and B are stored transposed; with tensor cores
FLOATS: list[Kind] = [
    ("float32", (False, False), True),
    ("float32", (True, True), True),
    ("float32", (False, True), False),
    ("float16", (True, False), True),
    ("bfloat16", (False, True), True),
    ("bfloat16", (True, False), False),
    ("float64", (False, False), True),
    ("float64", (True, True), False),
    ("float8_e4m3", (False, False), False),
    ("float8_e4m3", (True, True), True),
]
INTEGERS: list[Kind] = [("int8", (False, True), False), ("int8", (True, False), False), ("int32", (True, True), False)]
INTEGERS.append(("int32", (False, False), False))
SEED: Seed = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
# Known answers of Random123 (kat_vectors, philox4x32 with 10 rounds): counter, key, words.
KNOWN = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.fixture(scope="module")
def kernels(emulator: Emulator, pool: Executor) -> Mapping[Kind, Compiled]:
    kinds = [*FLOATS, *INTEGERS]
    return dict(zip(kinds, pool.map(lambda kind: compiled(emulator, *kind[:2], tensor=kind[2]), kinds), strict=True))


def product_of(kind: Kind, sizes: tuple[int, int, int], seed: int = 0, batch: int = 1) -> Problem:
    return Problem(*sizes, kind[0], batch, *kind[1], a_batched=batch > 1, b_batched=batch > 1 and seed % 2 == 0)


def data(problem: Problem, seed: int) -> tuple[Array, Array, Array]:
    a, b = operands(problem, np.random.default_rng(seed))
    return a, b, cpu_blas.multiply(problem, a, b)


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_random_numbers_are_philox(
    counter: tuple[int, ...], key: tuple[int, int], words: tuple[int, ...], emulator: Emulator
) -> None:
    assert philox(np.array(counter), key).tolist() == list(words)
    kernel = replace(compiled(emulator, "float32", (False, False), tensor=True), name=PHILOX)
    memories = [Memory.flat(np.array(each, np.uint32)) for each in (counter, key)]
    memories.append(Memory.flat(np.zeros(4, np.uint32), is_result=True))
    run = Run(Launch((1, 1, 1), (4, 1, 1)), tuple(memories), ())
    ((found,),) = execute(kernel, [run])
    assert found.reshape(-1).tolist() == list(words)


@pytest.mark.parametrize("kind", FLOATS)
def test_a_sketch_is_what_its_definition_says(kind: Kind, kernels: Mapping[Kind, Compiled]) -> None:
    """Rows at multiples of 16 bytes and not, several chunks and ranges, groups that end with a part of a chunk."""
    for order, (sizes, width, gap) in enumerate(
        (((70, 200, 150), 150, None), ((33, 67, 37), 30, 3), ((1, 1, 1), 1, 0), ((17, 64, 65), 64, 0))
    ):
        problem = product_of(kind, sizes)
        a, b, c = data(problem, order)
        found = sketched(kernels[kind], problem, (a, b, c), width=width, seed=SEED, gap=gap, order=order)
        assert_sketch(found, expected_sketch(problem, a, b, c, width, 0.0, SEED))


@pytest.mark.parametrize("kind", FLOATS)
def test_batches_exclusions_and_what_is_not_finite(kind: Kind, kernels: Mapping[Kind, Compiled]) -> None:
    for seed in (0, 1):
        problem = product_of(kind, (35, 80, 70), seed, batch=3)
        a, b, c = data(problem, seed)
        rows, columns = a.swapaxes(1, 2) if kind[1][0] else a, b.swapaxes(-1, -2) if kind[1][1] else b
        nan, infinite = (stored(np.array(value), problem.dtype) for value in (np.nan, -np.inf))
        rows[1, 4, 7], rows[2, 33, 69] = nan, infinite  # 8-bit floats have no infinity: this is NaN too
        columns[..., 5, 66] = infinite
        with np.errstate(all="ignore"):
            c = cpu_blas.multiply(problem, a, b)
        odd = stored(np.array([np.inf, np.nan]), problem.product_dtype)
        c[0, 20, 79], c[1, 4, 50], c[2, 0, 3] = odd[0], odd[1], odd[1]
        excluded = np.zeros((3, problem.n), np.uint8)
        excluded[:, 11] = excluded[2, 3] = 1
        mask = excluded if seed else None
        expected = expected_sketch(problem, a, b, c, 70, 0.25, SEED, mask)
        assert expected.bad_rows.sum() == 2 and expected.odd_columns.sum() == (2 if mask is None else 1)
        found = sketched(
            kernels[kind], problem, (a, b, c), width=70, seed=SEED, floor2=0.25, excluded=mask, order=seed + 1
        )
        assert_sketch(found, expected)


@pytest.mark.parametrize("kind", [kind for kind in FLOATS if kind[0] in ("float64", "float32")])
def test_exponents_at_the_ends_of_the_range(kind: Kind, kernels: Mapping[Kind, Compiled]) -> None:
    """Rows and columns so large and so small that squares would overflow and products underflow without scales."""
    problem = product_of(kind, (40, 70, 66))
    a, b, _ = data(problem, 3)
    largest = 1000 if kind[0] == "float64" else 100
    scale = np.linspace(-largest, largest, 40).astype(int)
    other = np.resize([0, -largest, largest // 8, -largest // 3], 70)
    a = np.ldexp(a, scale[np.newaxis] if kind[1][0] else scale[:, np.newaxis])
    b = np.ldexp(b, other[:, np.newaxis] if kind[1][1] else other[np.newaxis])
    a, b = a.astype(kind[0]), b.astype(kind[0])
    with np.errstate(all="ignore"):
        c = cpu_blas.multiply(problem, a, b)
    c[3, 4] = np.float64(2.0) ** 90
    expected = expected_sketch(problem, a, b, c, 66, 0.0, SEED)
    found = sketched(kernels[kind], problem, (a, b, c), width=66, seed=SEED)
    assert np.isfinite(expected.q).all() and (expected.r > 0).all()
    assert_sketch(found, expected)


@pytest.mark.parametrize("kind", FLOATS)
def test_columns_of_zeros_and_columns_below_the_normal_numbers(kind: Kind, kernels: Mapping[Kind, Compiled]) -> None:
    """The ones have the largest weights, the others none."""
    problem = product_of(kind, (35, 80, 70))
    a, b, _ = data(problem, 5)
    b = np.zeros_like(b) + b
    columns, tiny = b.swapaxes(-1, -2) if not kind[1][1] else b, 2.0**-17 if kind[0] == "float16" else 1e-40
    columns[[3, 79]], columns[20] = 0, np.where(np.arange(70) == 6, stored(np.array(tiny), problem.dtype), 0)
    with np.errstate(all="ignore"):
        c = cpu_blas.multiply(problem, a, b)
    floor2 = 0.0 if kind[0] == "float64" else 0.25
    right = sketched(kernels[kind], problem, (a, b, c), width=70, seed=SEED, floor2=floor2)
    assert_sketch(right, expected_sketch(problem, a, b, c, 70, floor2, SEED))
    assert (right["bad_columns"][0].nonzero()[0].tolist() == [20]) == (kind[0] not in ("float64", "float8_e4m3"))
    c[9, 3] = c[10, 5]
    found = sketched(kernels[kind], problem, (a, b, c), width=70, seed=SEED)
    assert np.flatnonzero(found["difference"][0, :, 0] > 1e30).tolist() == [9]


def test_columns_below_the_floor_that_their_elements_are_rounded_by(kernels: Mapping[Kind, Compiled]) -> None:
    """Their weights would hide all others; a column with one element above it has its weight."""
    kind = FLOATS[0]
    problem = product_of(kind, (35, 80, 70))
    a, b, _ = data(problem, 6)
    b[:, 20] *= np.float32(2.0**-16)
    b[:, 21] = np.where(np.arange(70) == 6, np.float32(1.0), np.float32(2.0**-20))
    c, floor2 = cpu_blas.multiply(problem, a, b), 2.0**-28
    found = sketched(kernels[kind], problem, (a, b, c), width=80, seed=SEED, floor2=floor2)
    assert_sketch(found, expected_sketch(problem, a, b, c, 80, floor2, SEED))
    assert found["bad_columns"][0].nonzero()[0].tolist() == [20]


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_differ_where_they_are_wrong(kind: Kind, kernels: Mapping[Kind, Compiled]) -> None:
    for seed, (sizes, gap) in enumerate((((40, 90, 70), None), ((33, 67, 37), 3), ((1, 1, 1), 0))):
        problem = product_of(kind, sizes, seed, batch=1 if seed else 2)
        a, b, c = data(problem, seed)
        wraps = kind[0] == "int32"
        right = sketched(kernels[kind], problem, (a, b, c), width=problem.n, seed=SEED, wraps=wraps, gap=gap)
        assert not right["bad_rows"].any()
        wrong = c.copy().reshape(problem.batch, problem.m, problem.n)
        wrong[-1, -1, -1] ^= np.int32(-(2**31))
        wrong[0, 0, [0, problem.n // 2]] += np.array([-(2**31), -(2**31)], np.int32)
        found = sketched(kernels[kind], problem, (a, b, wrong), width=problem.n, seed=SEED, wraps=wraps, gap=gap)
        np.testing.assert_array_equal(found["bad_rows"] != 0, wrong_rows(problem, a, b, wrong, SEED, wraps=wraps))
        assert found["bad_rows"][-1, -1] or problem.n == 1


def test_without_wrapping_a_multiple_of_2_to_the_32_is_wrong(kernels: Mapping[Kind, Compiled]) -> None:
    """And passes where sums may wrap: a true sum beyond 32 bits."""
    kind = INTEGERS[-1]
    problem = replace(product_of(kind, (20, 30, 40)))
    a, b = np.full((20, 40), 2**15, np.int32), np.full((40, 30), 2**15, np.int32)
    c = cpu_blas.multiply(problem, a, b)
    for wraps in (True, False):
        found = sketched(kernels[kind], problem, (a, b, c), width=30, seed=SEED, wraps=wraps)
        assert (found["bad_rows"] == (not wraps)).all()
