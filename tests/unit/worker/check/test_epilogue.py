"""alpha·P + beta·C on the CPU: right to the last bit, within the bound that the docs give, and never wrong unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import hypothesis
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from jobs.errors import OperandDamaged, VerificationFailed
from jobs.formats.elements import Array
from jobs.matrices.digest import digest_of
from jobs.models import MatmulRequest
from jobs.requests.operands import OperandRef
from jobs.settings import Settings
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG
from kernels.model.numerics import DTYPE_NAMES, DTYPES, AccuracyName, DTypeName, Problem
from kernels.selection.candidates import Choice
from tests.campaign.truth import truth_of
from tests.support.kernels.products import matrix, operands, stored
from worker.check.elements import as_float64
from worker.check.epilogue import wrong_elements
from worker.cpu import runner as cpu_runner
from worker.cpu.blas import multiply
from worker.cpu.epilogue import add_epilogue
from worker.cpu.runner import CpuRunner
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue, Product
from worker.product.multiply import verify

PRODUCTS: tuple[DTypeName, ...] = ("float16", "bfloat16", "float32", "float64", "int32")
FACTORS = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 1e300, -1e-300]), st.floats(-1e3, 1e3))
SPEC = OperandRef(source="inline", dtype="float32", shape=(1, 1))
LIMITS: dict[DTypeName, AccuracyName] = {dtype: DTYPES[dtype].accuracy for dtype in DTYPE_NAMES}


@pytest.fixture(scope="module")
def runner() -> CpuRunner:
    return CpuRunner(Settings(cpu_threads=1))


def drawn(shape: tuple[int, ...], dtype: DTypeName, rng: np.random.Generator) -> Array:
    made = matrix(shape, dtype, rng)
    if not DTYPES[dtype].is_integer:
        made.flat[rng.integers(0, made.size, 2)] = stored(np.array([np.nan, np.inf]), dtype)
    return made


def one_by_one(p: Array, c: Array, alpha: float, beta: float, dtype: DTypeName) -> Array:
    """By Python's own numbers."""
    p, c = (np.broadcast_to(each, p.shape).reshape(-1) for each in (p, c))
    if DTYPES[dtype].is_integer:
        terms = (int(alpha) * int(x) + int(beta) * int(y) for x, y in zip(p, c, strict=True))
        return np.array([(term + 2**31) % 2**32 - 2**31 for term in terms], np.int32)
    values = []
    for x, y in zip(as_float64(p, dtype).tolist(), as_float64(c, dtype).tolist(), strict=True):
        scaled = [factor * value for factor, value in ((alpha, x), (beta, y)) if factor != 0.0]
        values.append(scaled[0] + scaled[1] if len(scaled) == 2 else scaled[0] if scaled else 0.0)
    with np.errstate(all="ignore"):
        return stored(np.array(values), dtype)


@hypothesis.given(
    st.sampled_from(PRODUCTS), st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), FACTORS, FACTORS, st.booleans()
)
@settings(max_examples=150, deadline=None)
def test_every_element_is_what_arithmetic_makes_it(
    dtype: DTypeName, batch: int, m: int, n: int, alpha: float, beta: float, one: bool
) -> None:
    rng = np.random.default_rng((batch, m, n, one))
    if DTYPES[dtype].is_integer:
        alpha, beta = (float(int(np.clip(factor, -(2**31), 2**31 - 1))) for factor in (alpha, beta))
    problem = Problem(m, n, 1, dtype, batch, a_batched=True)
    p, c = drawn((batch, m, n), dtype, rng), drawn((m, n) if one else (batch, m, n), dtype, rng)
    d = add_epilogue(problem, Epilogue(alpha, beta, HostOperand(c) if beta else None), p)
    expected = one_by_one(p, c, alpha, beta, dtype).reshape(p.shape)
    nan = np.zeros(p.shape, bool) if dtype == "int32" else np.isnan(as_float64(expected, dtype))
    np.testing.assert_array_equal(as_numbers(d, dtype)[~nan], as_numbers(expected, dtype)[~nan])
    assert dtype == "int32" or np.isnan(as_float64(d, dtype)[nan]).all()
    of_c = c if c.ndim == 3 else c[np.newaxis]
    assert wrong_elements(d, p, of_c, alpha, beta, dtype) == 0


def as_numbers(elements: Array, dtype: DTypeName) -> Array:
    return elements if DTYPES[dtype].is_integer else as_float64(elements, dtype)


def choice_of() -> Choice:
    return Choice(BY_NAME["cpu_blas"], NO_CONFIG, "there is one.")


@contextmanager
def computed(
    runner: CpuRunner, problem: Problem, given: tuple[HostOperand, HostOperand], epilogue: Epilogue
) -> Iterator[Product]:
    with runner.compute(problem, choice_of(), *given, epilogue=epilogue) as product:
        yield product


def checked(problem: Problem, product: Product) -> None:
    request = MatmulRequest(a=SPEC, b=SPEC, accuracy=LIMITS[problem.dtype])
    verify(request, problem, choice_of(), product, np.random.default_rng())


def delivered(product: Product, problem: Problem) -> Array:
    data = b"".join(bytes(chunk) for chunk in product.chunks())
    dtype = matrix((1, 1), problem.product_dtype, np.random.default_rng(0)).dtype
    return np.frombuffer(data, dtype).reshape(problem.batch, problem.m, problem.n)


@pytest.mark.parametrize("dtype", [name for name in DTYPE_NAMES if not DTYPES[name].is_complex])
def test_the_bound_of_the_docs_holds(runner: CpuRunner, dtype: DTypeName) -> None:
    """|D - (alpha·A·B + beta·C)| ≤ |alpha|·e + u·|D| and three roundings of float64, with e the class's bound."""
    rng, problem = np.random.default_rng(7), Problem(23, 31, 90, dtype, 2, a_batched=True)
    a, b = operands(problem, rng)
    c = matrix((23, 31), problem.product_dtype, rng, "integers")
    alpha, beta = (3.0, -7.0) if DTYPES[dtype].is_integer else (0.3, -0.7)
    with computed(runner, problem, (HostOperand(a), HostOperand(b)), Epilogue(alpha, beta, HostOperand(c))) as product:
        checked(problem, product)
        d = delivered(product, problem)
    truth, added = truth_of(problem, DTYPES[dtype].accuracy, a, b), as_numbers(c, problem.product_dtype)
    if DTYPES[dtype].is_integer:
        np.testing.assert_array_equal(d, (3 * truth.value - 7 * added.astype(np.int64)).astype(np.int32))
        return
    exact = alpha * truth.value + beta * added
    u = DTYPES[problem.product_dtype].unit_roundoff * (1 + 2.0**-12)  # 16 bits come by way of float32
    of_float64 = 3 * 2.0**-53 * (np.abs(alpha * truth.value) + np.abs(beta * added))
    granted = abs(alpha) * truth.bound * (1 + u) + u * np.abs(exact) + of_float64 * (1 + u)
    assert (np.abs(as_float64(d, problem.product_dtype) - exact) <= granted).all()


# ---- what goes wrong ----
Wrong = Callable[[Array, Array, Array], None]  # changes D; given P and C


def row_left_out(d: Array, p: Array, c: Array) -> None:
    d[..., 3, :] = p[..., 3, :]


def c_swapped(d: Array, p: Array, c: Array) -> None:
    d[...] = (2.0 * p + 3.0 * c[..., ::-1, :]).astype(d.dtype)


def c_left_out(d: Array, p: Array, c: Array) -> None:
    d[...] = 2.0 * p


def alpha_left_out(d: Array, p: Array, c: Array) -> None:
    d[...] = p + 3.0 * c


def factors_swapped(d: Array, p: Array, c: Array) -> None:
    d[...] = 3.0 * p + 2.0 * c


def last_bit(d: Array, p: Array, c: Array) -> None:
    d.reshape(-1).view(np.uint32)[-1] ^= 1


@pytest.mark.parametrize("size", [40, 300])
@pytest.mark.parametrize("wrong", [row_left_out, c_swapped, c_left_out, alpha_left_out, factors_swapped, last_bit])
def test_a_wrong_epilogue_is_never_returned(
    runner: CpuRunner, wrong: Wrong, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, rng = Problem(size, size, size, "float32"), np.random.default_rng(1)
    a, b = operands(problem, rng)
    c = matrix((size, size), "float32", rng)

    def spoilt(problem: Problem, epilogue: Epilogue, p: Array, out: Array | None = None) -> Array:
        d = add_epilogue(problem, epilogue, p, out)
        wrong(d, p, c)
        return d

    monkeypatch.setattr(cpu_runner, "add_epilogue", spoilt)
    given, epilogue = (HostOperand(a), HostOperand(b)), Epilogue(2.0, 3.0, HostOperand(c))
    refused = pytest.raises(VerificationFailed, match=r"are not what alpha·A·B \+ beta·C gives")
    with computed(runner, problem, given, epilogue) as product, refused:
        checked(problem, product)


def test_a_wrong_product_below_a_right_epilogue_is_never_returned(
    runner: CpuRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, rng = Problem(300, 300, 300, "float32"), np.random.default_rng(2)
    a, b = operands(problem, rng)

    def spoilt(problem: Problem, a: Array, b: Array, out: Array | None = None) -> Array:
        p = multiply(problem, a, b, out)
        p[7, 9] += 1.0
        return p

    monkeypatch.setattr(cpu_runner, "CPU_KERNELS", {"cpu_blas": spoilt})
    given, refused = (HostOperand(a), HostOperand(b)), pytest.raises(VerificationFailed, match="its residual is")
    with computed(runner, problem, given, Epilogue(1e-6, 0.0, None)) as product, refused:
        checked(problem, product)


def test_a_c_that_changed_on_its_way_is_never_added(runner: CpuRunner) -> None:
    problem, rng = Problem(5, 6, 7, "float32"), np.random.default_rng(3)
    a, b = (HostOperand(each) for each in operands(problem, rng))
    c = matrix((5, 6), "float32", rng)
    sent = digest_of(c)
    c[2, 2] += 1.0
    epilogue = Epilogue(1.0, 1.0, HostOperand(c, digest=sent))
    with computed(runner, problem, (a, b), epilogue) as product, pytest.raises(OperandDamaged):
        checked(problem, product)
