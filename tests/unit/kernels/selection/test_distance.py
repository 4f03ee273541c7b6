"""How far apart shapes are for a forecast: by sizes, and by how the library may align them."""

from __future__ import annotations

from dataclasses import replace
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.model.architectures import H200
from kernels.model.entry.config import NO_CONFIG
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.selection.choose import choose
from kernels.selection.distance import doublings, place_of, whole_runs

SIZE = st.integers(1, 20_000)


def square(n: int, dtype: DTypeName = "bfloat16") -> Problem:
    return Problem(n, n, n, dtype)


def apart(one: Problem, other: Problem) -> float:
    return doublings(place_of(one, "bf16"), place_of(other, "bf16"))


@given(SIZE, SIZE, SIZE, SIZE)
def test_on_cuda_cores_sizes_alone_count(m: int, n: int, k: int, other: int) -> None:
    place = place_of(Problem(m, n, k, "float32"), "fp32")
    assert place == (log2(m), log2(n), log2(k), 0.0)
    assert doublings(place, place_of(Problem(m, n, 2 * k, "float32"), "fp32")) == pytest.approx(1.0)
    assert doublings(place, place_of(Problem(m, n, other, "float32"), "fp32")) == pytest.approx(abs(log2(other / k)))


@pytest.mark.parametrize("shape", [(5, 6, 0), (0, 6, 5), (5, 0, 6), (0, 0, 0), (4096, 4096, 0)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8", "complex64"])
def test_auto_takes_a_kernel_for_an_empty_product_too(shape: tuple[int, int, int], dtype: DTypeName) -> None:
    traits = replace(H200.traits, name="NVIDIA H200", multiprocessors=132)
    assert choose("auto", NO_CONFIG, Problem(*shape, dtype), DTYPES[dtype].accuracy, traits).why.startswith("auto: ")


@given(SIZE, SIZE)
def test_on_tensor_cores_shapes_aligned_otherwise_are_farther(n: int, other: int) -> None:
    by_sizes = abs(log2(other / n)) * 3**0.5
    if n % 8 == other % 8 == 0:
        assert apart(square(n), square(other)) == pytest.approx(by_sizes)
    else:
        assert apart(square(n), square(other)) >= by_sizes - 1e-9


def test_an_odd_size_that_the_library_pads_is_nearer_to_even_ones_than_one_that_it_does_not() -> None:
    """Sizes below 256 have no room for zeros."""
    assert apart(square(257), square(264)) < apart(square(255), square(264))
    assert apart(square(255), square(249)) < 1 < apart(square(255), square(257))
    deep = Problem(8192, 200, 8192, "bfloat16")
    odd = Problem(8192, 199, 8192, "bfloat16")
    assert apart(deep, odd) > apart(deep, Problem(8192, 400, 8192, "bfloat16"))


def test_how_rows_of_a_are_many_does_not_count_and_how_long_they_are_does() -> None:
    usual = Problem(1000, 1000, 1000, "bfloat16")
    assert apart(usual, Problem(1001, 1000, 1000, "bfloat16")) < 0.1
    for odd in (Problem(1000, 1001, 1000, "bfloat16"), Problem(1000, 1000, 1001, "bfloat16")):
        assert apart(usual, odd) > 1


@pytest.mark.parametrize(("dtype", "n", "whole"), [("float32", 4, True), ("float16", 4, False), ("float64", 2, True)])
def test_whole_runs(dtype: DTypeName, n: int, whole: bool) -> None:
    assert whole_runs(square(n, dtype)) is whole
    assert not whole_runs(Problem(n, n + 1, n, dtype))
    assert not whole_runs(Problem(n, n, n + 1, dtype))
    assert whole_runs(Problem(n + 1, n, n, dtype)) is whole
