"""Random matrices and bfloat16: the same numbers in any pieces and on any day."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import InvalidMatrix, InvalidRequest
from jobs.formats.bfloat16 import BLOCK_ELEMENTS as NARROW_BLOCK
from jobs.formats.bfloat16 import narrow, widen
from jobs.formats.bit_floats import widen as numbers
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.random import BLOCK_ELEMENTS, generate, generate_chunks
from jobs.requests.operands import Distribution, RandomSpec
from kernels.model.numerics import DTYPE_NAMES, DTYPES, DTypeName
from worker.check.views.as_real import real_view

FLOATS: tuple[DTypeName, ...] = ("float16", "bfloat16", "float32", "float64")
OVER_A_BLOCK = (3, 300, 300)


def values(matrix: Array, dtype: DTypeName) -> Array:
    """Of complex elements both parts."""
    real = real_view(matrix) if DTYPES[dtype].is_complex else numbers(matrix, dtype)
    return real.astype(np.float64)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_whole_and_in_chunks_are_the_same_numbers(dtype: DTypeName) -> None:
    spec = RandomSpec(shape=OVER_A_BLOCK, seed=5, distribution="integers")
    matrix = generate(spec, dtype)
    assert (matrix.shape, matrix.dtype) == (OVER_A_BLOCK, STORAGE_DTYPES[dtype])
    chunks = list(generate_chunks(spec, dtype))
    assert len(chunks) == 2
    assert b"".join(chunks) == matrix.tobytes()


def test_a_block_does_not_hang_on_those_before_it() -> None:
    small = generate(RandomSpec(shape=(1, BLOCK_ELEMENTS + 9), seed=3), "float32")
    large = generate(RandomSpec(shape=(3, BLOCK_ELEMENTS), seed=3), "float32")
    np.testing.assert_array_equal(small.reshape(-1), large.reshape(-1)[: small.size])
    assert not np.array_equal(large[0], large[1])


DIGESTS: dict[Distribution, str] = {
    "uniform": "5c22cb2244afd4c1cc9b9b4279475ce95c191e75b792e6c914c0bf9cc329567f",
    "integers": "3a89358fa384f5e38fdb584f8f87e8712af9d7d44dba2ed65a971073acbdc930",
}

DIGEST_OF_BYTES = "16f8e922a814d64a4e96546f9b028855ae0412eb19f834fdf0db2b7b1845c708"  # uniform


@pytest.mark.parametrize("distribution", DIGESTS)
def test_the_numbers_never_change(distribution: Distribution) -> None:
    """A caller who computed the product of a seed elsewhere must find the same one tomorrow."""
    digest = hashlib.sha256()
    for dtype in FLOATS:
        digest.update(generate(RandomSpec(shape=(64, 65), seed=2**63 - 1, distribution=distribution), dtype).tobytes())
    assert digest.hexdigest() == DIGESTS[distribution]


def test_nor_do_those_of_8_bits() -> None:
    matrix = generate(RandomSpec(shape=(64, 65), seed=2**63 - 1, distribution="uniform"), "float8_e4m3")
    assert hashlib.sha256(matrix.tobytes()).hexdigest() == DIGEST_OF_BYTES


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float32", [0.9518663883209229, -1.0147827863693237, 1.1980888843536377, -0.21736814081668854]),
        ("float64", [0.40116607109995833, 0.6371069556059378, 0.5577565551068824, 1.0612358932323798]),
    ],
)
def test_nor_do_normal_ones(dtype: DTypeName, expected: list[float]) -> None:
    """A few: the rare ones beyond 3.6 take a logarithm, whose last bit is the C library's."""
    matrix = generate(RandomSpec(shape=(2, 2), seed=2**63 - 1), dtype)
    assert matrix.reshape(-1).tolist() == expected


@pytest.mark.parametrize("dtype", [*FLOATS, "float8_e4m3"])
def test_normal_and_uniform_are_what_they_say(dtype: DTypeName) -> None:
    normal = values(generate(RandomSpec(shape=(500, 600), seed=1), dtype), dtype)
    assert abs(normal.mean()) < 0.01
    assert abs(normal.std() - 1) < 0.01
    uniform = values(generate(RandomSpec(shape=(500, 600), seed=1, distribution="uniform"), dtype), dtype)
    step = DTYPES[dtype].unit_roundoff  # they are multiples of it, cut
    assert 0 <= uniform.min() < 0.01
    assert 0.99 - step < uniform.max() < 1
    assert abs(uniform.mean() + step / 2 - 0.5) < 0.01


@pytest.mark.parametrize("distribution", ["normal", "uniform", "integers"])
def test_parts_of_complex_elements_are_drawn_by_turns(distribution: Distribution) -> None:
    pairs = generate(RandomSpec(shape=(7, 9), seed=4, distribution=distribution), "complex64")
    parts = generate(RandomSpec(shape=(7, 18), seed=4, distribution=distribution), "float32")
    np.testing.assert_array_equal(real_view(pairs), parts)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_integers_are_all_from_minus_8_to_8(dtype: DTypeName) -> None:
    matrix = generate(RandomSpec(shape=(100, 100), seed=1, distribution="integers"), dtype)
    assert set(values(matrix, dtype).reshape(-1)) == set(range(-8, 9))


def test_seeds_differ() -> None:
    one, two = (generate(RandomSpec(shape=(8, 8), seed=seed), "float32") for seed in (1, 2))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_integer_types_take_integers_only(distribution: Distribution) -> None:
    spec = RandomSpec(shape=(2, 2), distribution=distribution)
    with pytest.raises(InvalidRequest, match="ask for integers"):
        generate(spec, "int8")
    with pytest.raises(InvalidRequest, match="ask for integers"):
        list(generate_chunks(spec, "int32"))


@pytest.mark.parametrize("shape", [(5,), (1, 2, 3, 4), (-1, 5), (2**40, 2**40)])
def test_shapes_that_are_none(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidMatrix):
        generate(RandomSpec(shape=shape), "float32")


def test_an_empty_matrix() -> None:
    spec = RandomSpec(shape=(0, 7))
    assert generate(spec, "float64").shape == (0, 7)
    assert list(generate_chunks(spec, "float64")) == []


@given(st.integers(0, 0x7F7F), st.sampled_from([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF]), st.booleans())
def test_narrowing_takes_the_nearest_and_of_two_the_even(upper: int, lower: int, negative: bool) -> None:
    """`upper` and the next pattern are neighbours in bfloat16; `lower` says where between them the float32 lies."""
    wide = np.array([negative << 31 | upper << 16 | lower], np.uint32)
    goes_up = lower > 0x8000 or (lower == 0x8000 and upper % 2 == 1)
    assert narrow(wide.view(np.float32)).tolist() == [negative << 15 | upper + goes_up]


def test_widening_is_exact_and_narrowing_undoes_it() -> None:
    patterns = np.arange(2**16, dtype=np.uint16)
    wide = widen(patterns)
    number = ~np.isnan(wide)
    np.testing.assert_array_equal(narrow(wide)[number], patterns[number])
    assert np.isnan(widen(narrow(wide)))[~number].all()
    assert widen(np.array([0x3F80, 0xC000, 0x7F80], np.uint16)).tolist() == [1.0, -2.0, math.inf]


def test_every_nan_stays_one() -> None:
    """Including NaNs that rounding up would carry into infinity, or into the sign."""
    nans = np.array([0x7F800001, 0x7F808000, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(widen(narrow(nans))).all()


def test_overflow_and_shape_are_kept() -> None:
    assert widen(narrow(np.array([[3.4e38, -3.4e38]], np.float32))).tolist() == [[math.inf, -math.inf]]
    large = np.full((3, NARROW_BLOCK), 1.5, np.float32)
    assert narrow(large[:, ::2]).shape == (3, NARROW_BLOCK // 2)
    assert (narrow(large) == 0x3FC0).all()
    assert narrow(np.empty((0, 4), np.float32)).shape == (0, 4)
