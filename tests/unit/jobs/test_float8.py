"""float8_e4m3: its numbers, where it goes in and out, who multiplies it, and what the check grants its class."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.benchmarks.cases import expand
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.errors import InvalidMatrix
from jobs.formats.elements import Array
from jobs.formats.float8 import BLOCK_ELEMENTS, narrow, widen
from kernels.catalog import BY_NAME
from kernels.model.architectures import ARCHITECTURES, H200
from kernels.model.entry.config import NO_CONFIG
from kernels.model.numerics import ACCURACY_NAMES, DTYPES, Problem, meets
from kernels.selection.candidates import NoKernelError
from kernels.selection.choose import choose
from service.bodies.nested_lists import read_numbers, to_json
from tests.support.kernels.checks import checked
from tests.support.kernels.products import Data, operands
from tools.harness.benchmarks import H200 as H200_INFO
from worker.check.elements import as_float64, core
from worker.check.rounding import rounding_of
from worker.cpu.blas import multiply

EVERY = np.arange(256, dtype=np.uint8)
NAN, LARGEST = 0x7F, 448.0
STEP = 32  # of k, in one instruction of a tensor core
KEPT = 13  # bits of a term behind the leading one of the largest
PROMOTED = 4  # instructions, or 128 of k


# ---- its numbers ----
def test_every_pattern_is_what_the_format_says() -> None:
    """A sign, 4 bits of exponent counted from 7, 3 of fraction; exponent 0 has no leading one; all ones are NaN."""
    for bits, value in zip(EVERY.tolist(), widen(EVERY).tolist(), strict=True):
        exponent, fraction, sign = bits >> 3 & 15, bits & 7, -1 if bits & 0x80 else 1
        if bits & 0x7F == NAN:
            assert np.isnan(value)
        else:
            leading, power = (1, exponent) if exponent else (0, 1)
            assert value == sign * (leading + fraction / 8) * 2.0 ** (power - 7)
    assert np.nanmax(widen(EVERY)) == LARGEST == DTYPES["float8_e4m3"].largest


def test_what_is_widened_is_narrowed_to_itself() -> None:
    np.testing.assert_array_equal(narrow(widen(EVERY)), EVERY)


@given(st.floats(width=32))
def test_the_nearest_number_is_accepted(value: float) -> None:
    """Ties to the even pattern, as if 480 were a number; what is nearer to that is none."""
    finite = np.append(widen(EVERY[:NAN]).astype(np.float64), 480.0)
    distances = np.abs(finite - abs(value))
    found = int(narrow(np.array([value], np.float32))[0])
    if not abs(value) <= 480.0:
        assert found & 0x7F == NAN
        return
    nearest = np.flatnonzero(distances == distances.min()).tolist()
    assert found & 0x7F == next((bits for bits in nearest if bits % 2 == 0), nearest[0])
    assert found >> 7 == int(np.signbit(np.float32(value)))


def test_ties_and_edges() -> None:
    given_ = np.array([464, 464.1, -480, np.inf, 2**-10, 3 * 2**-10, -(2**-7), 0.0, -0.0, 17, 19], np.float32)
    found = [448, np.nan, np.nan, np.nan, 0, 2**-8, -(2**-7), 0, 0, 16, 20]
    np.testing.assert_array_equal(widen(narrow(given_)), found)


def test_blocks_and_shapes_change_nothing() -> None:
    values = np.random.default_rng(0).standard_normal((BLOCK_ELEMENTS // 100, 301)).astype(np.float32)
    whole = narrow(values)
    assert whole.shape == values.shape
    np.testing.assert_array_equal(narrow(values.T), whole.T)
    np.testing.assert_array_equal(narrow(values[-3:]), whole[-3:])


# ---- in and out ----
def test_json_holds_its_numbers_and_refuses_others() -> None:
    array = read_numbers([[448, -0.015625, "NaN"]], "a").stored("float8_e4m3")
    assert to_json(array, "float8_e4m3") == b'[[448.0,-0.015625,"NaN"]]'
    with pytest.raises(InvalidMatrix, match=r"a\[0\]\[1\] is 500, which is too large for float8_e4m3\."):
        read_numbers([[1, 500]], "a").stored("float8_e4m3")
    with pytest.raises(InvalidMatrix, match=r"a\[0\]\[0\] is -Infinity, but float8_e4m3 has no infinities\."):
        read_numbers([["-Infinity"]], "a").stored("float8_e4m3")


# ---- who multiplies it ----
def test_its_class_serves_those_alone_who_ask_for_no_more() -> None:
    assert [asked for asked in ACCURACY_NAMES if meets("fp8", asked)] == ["fp8"]
    assert all(meets(offered, "fp8") for offered in ("bf16", "tf32", "fp32", "fp64", "exact"))


def test_the_cpu_and_the_library_take_it() -> None:
    problem = Problem(90, 80, 70, "float8_e4m3")
    assert problem.product_dtype == "float32"
    assert choose("auto", NO_CONFIG, problem, "fp8", H200.traits).kernel.name == "cublas"
    assert BY_NAME["cpu_blas"].accuracy["float8_e4m3"] == "fp32"
    with pytest.raises(NoKernelError, match=r"cublas for float8_e4m3 needs compute capability 8\.9; .* has 8\.0\."):
        choose("cublas", NO_CONFIG, problem, "fp8", ARCHITECTURES["sm_80"].traits)


@pytest.mark.parametrize(("promote", "library"), [(0, "cublas_fp8_fast"), (1, "cublas")])
def test_fp8_baseline_is_the_library_kernel_with_the_same_accumulation(promote: int, library: str) -> None:
    asked = {"kernel": "hopper_fp8", "configs": [{"promote": promote}]}
    spec = BenchmarkSpec.model_validate({"kernels": [asked], "shapes": [4096], "dtypes": ["float8_e4m3"]})
    baseline, case = expand(spec, H200_INFO)
    assert (baseline.kernel, case.kernel, case.baseline) == (library, "hopper_fp8", baseline.id)
    assert (baseline.skip, case.skip) == (None, None)


def test_promoted_sums_leave_room_for_the_largest_tile() -> None:
    """Partial sums of a part of the columns at a time: 128 registers and 64, of 224."""
    kernel = BY_NAME["hopper_fp8"]
    for promote in (0, 1):
        config = kernel.resolve_config({"promote": promote}, Problem(8192, 8192, 8192, "float8_e4m3"), H200.traits)
        assert config["block_n"] == 256


# ---- what the check grants ----
def cut(terms: Array, largest: Array) -> Array:
    """Towards zero, at the last bit that is kept beside the largest."""
    step = np.ldexp(1.0, np.frexp(largest)[1] - 1 - KEPT)
    kept: Array = np.trunc(terms / step) * step
    return kept


def as_on_tensor_cores(a: Array, b: Array, promoted: int | None) -> Array:
    """A·B as Hopper's tensor cores are said to sum it: of the products of 32 steps and the sum so far each is cut to
    14 bits of the largest. After `promoted` instructions sums are added up in float32."""
    sums = np.zeros((len(a), b.shape[1]))
    total = np.zeros(sums.shape, np.float32)
    for number, start in enumerate(range(0, a.shape[1], STEP)):
        terms = a[:, start : start + STEP, np.newaxis] * b[np.newaxis, start : start + STEP]
        terms = np.concatenate([terms, sums[:, np.newaxis]], axis=1)
        sums = cut(terms, np.abs(terms).max(axis=1, keepdims=True)).sum(axis=1)
        if promoted and number % promoted == promoted - 1:
            total += sums.astype(np.float32)
            sums[:] = 0.0
    return total + sums.astype(np.float32)


def modelled(problem: Problem, data: Data, promoted: int | None) -> tuple[Array, Array, Array]:
    a, b = operands(problem, np.random.default_rng(7), data)
    wide_a, wide_b = (as_float64(core(x, transposed=False)[0], "float8_e4m3") for x in (a, b))
    return a, b, as_on_tensor_cores(wide_a, wide_b, promoted)


@pytest.mark.parametrize("data", ["normal", "uniform", "wide", "integers"])
@pytest.mark.parametrize("promoted", [None, PROMOTED])
def test_short_sums_pass_and_wrong_ones_do_not(data: Data, promoted: int | None) -> None:
    problem = Problem(12, 40, 2048, "float8_e4m3")
    a, b, c = modelled(problem, data, promoted)
    exact = multiply(problem, a, b)
    assert checked(problem, a, b, exact, np.random.default_rng(1)).passed
    found = checked(problem, a, b, c, np.random.default_rng(1))
    assert found.passed, found
    c[5, 7] += 3 * np.abs(exact).max()
    assert not checked(problem, a, b, c, np.random.default_rng(1)).passed


@pytest.mark.parametrize(("data", "most"), [("normal", 2e-4), ("uniform", 1e-3)])
def test_promoted_sums_are_nearer(data: Data, most: float) -> None:
    problem = Problem(8, 16, 4096, "float8_e4m3")
    errors: list[float] = []
    for promoted in (None, PROMOTED):
        a, b, c = modelled(problem, data, promoted)
        exact = multiply(problem, a, b)
        errors.append(float(np.linalg.norm(c - exact) / np.linalg.norm(exact)))
    assert errors[1] < min(errors[0] / 2, most), errors


def test_short_sums_are_refused_where_float32_was_asked_for() -> None:
    problem = Problem(12, 40, 2048, "float8_e4m3")
    a, b, c = modelled(problem, "normal", None)
    assert not checked(problem, a, b, c, np.random.default_rng(1), "fp32").passed
    assert checked(problem, a, b, multiply(problem, a, b), np.random.default_rng(1), "fp32").passed


def test_nan_must_come_out_where_it_goes_in() -> None:
    problem = Problem(9, 8, 7, "float8_e4m3")
    a, b = operands(problem, np.random.default_rng(3))
    a[2, 3], b[1, 4] = NAN, NAN | 0x80
    c = multiply(problem, a, b)
    assert np.isnan(c).sum() == 9 + 8 - 1
    assert checked(problem, a, b, c, np.random.default_rng(1)).passed
    c[2, 0] = 1.0
    assert not checked(problem, a, b, c, np.random.default_rng(1)).passed


def test_operands_enter_as_they_are_and_sums_are_of_their_class() -> None:
    problem = Problem(9, 9, 9, "float8_e4m3")
    short, full = rounding_of(problem, "fp8"), rounding_of(problem, "fp32")
    assert (short.operand, short.operand_floor, full.operand, full.operand_floor) == (0.0, 0.0, 0.0, 0.0)
    assert (short.accumulate, full.accumulate) == (2.0**-12, 2.0**-24)
    assert short.threshold > 300 * full.threshold
