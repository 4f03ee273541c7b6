"""Activations within the bound that is stated of them, against mpmath; and a bias, an activation and an output type:
right in every type, and never wrong unseen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import mpmath
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from jobs.errors import OperandDamaged, VerificationFailed
from jobs.formats.elements import Array
from jobs.matrices.digest import digest_of
from jobs.settings import Settings
from kernels.model.activations import ACTIVATION_NAMES, SMALLEST, ActivationName, error_bound
from kernels.model.numerics import DTYPES, REAL_NAMES, DTypeName, Problem
from kernels.model.outputs import outputs_of
from tests.support.kernels.products import matrix, operands, stored
from tests.unit.worker.check.test_epilogue import checked, computed
from worker.check.activations import interval
from worker.check.elements import as_float64, narrow
from worker.check.epilogue import After, wrong_elements
from worker.cpu import runner as cpu_runner
from worker.cpu.activations import activated
from worker.cpu.epilogue import add_epilogue
from worker.cpu.runner import CpuRunner
from worker.device.operands import HostOperand, WidenedOperand
from worker.device.runner import Epilogue

PRODUCTS: tuple[DTypeName, ...] = ("float16", "bfloat16", "float32", "float64", "int32")
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e308, -1e308, 37.6, -37.6, -38.5, -745.0, -708.5]
digits = mpmath.mp.clone()
digits.dps = 60


@pytest.fixture(scope="module")
def runner() -> CpuRunner:
    return CpuRunner(Settings(cpu_threads=1))


def exact(activation: ActivationName, number: float) -> Any:
    """With 60 digits."""
    x = digits.mpf(number)
    match activation:
        case "relu":
            return max(x, digits.mpf(0))
        case "gelu":
            return x * digits.erfc(-x / digits.sqrt(2)) / 2
        case "gelu_tanh":
            inner = digits.sqrt(2 / digits.pi) * (x + digits.mpf("0.044715") * x**3)
            return x / (1 + digits.exp(-2 * inner))
        case "silu":
            return x / (1 + digits.exp(-x))


def drawn(count: int) -> Array:
    rng = np.random.default_rng(4)
    sizes = np.exp(rng.uniform(-30, 7, count // 3)) * rng.choice([-1.0, 1.0], count // 3)
    return np.concatenate([3 * rng.standard_normal(count // 3), rng.uniform(-40, 10, count // 3), sizes])


@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
def test_each_computation_is_within_its_bound(activation: ActivationName) -> None:
    """Both of them: what is computed, and the middle of what the check takes for right."""
    x = drawn(900)
    lowest, highest = interval(activation, x)
    with np.errstate(all="ignore"):
        values = activated(activation, x)
        again = lowest / 2 + highest / 2
        of_value, of_again = (error_bound(activation, x, each) + SMALLEST for each in (values, again))
    for i, number in enumerate(x.tolist()):
        truth = exact(activation, number)
        for value, bound in ((values[i], of_value[i]), (again[i], of_again[i])):
            off = abs(digits.mpf(float(value)) - truth)
            assert off <= digits.mpf(float(bound)), f"{activation}({number!r}): {value!r}"


@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
def test_nan_infinity_and_extreme_numbers(activation: ActivationName) -> None:
    """NaN stays, +∞ stays, at -∞ all are 0; and the check takes all of it for right."""
    x = np.array([*SPECIAL, *(-each for each in SPECIAL)])
    with np.errstate(all="ignore"):
        values = activated(activation, x)
    assert np.isnan(values[np.isnan(x)]).all() and not np.isnan(values[~np.isnan(x)]).any()
    assert (values[x == np.inf] == np.inf).all() and (values[x == -np.inf] == 0).all()
    lowest, highest = interval(activation, x)
    assert ((lowest <= values) & (values <= highest) | np.isnan(x)).all()
    assert (highest[x == np.inf] == np.inf).all() and (lowest[x == -np.inf] == highest[x == -np.inf]).all()


def in_float64(p: Array, c: Array, bias: Array, dtype: DTypeName, factors: tuple[float, float]) -> Array:
    """By Python's own numbers: alpha·P + beta·C + bias."""
    alpha, beta = factors
    of = [np.broadcast_to(as_float64(each, dtype), p.shape).reshape(-1).tolist() for each in (p, c, bias)]
    sums = []
    for x, y, z in zip(*of, strict=True):
        terms = [factor * value for factor, value in ((alpha, x), (beta, y)) if factor != 0.0] or [0.0]
        sums.append((terms[0] + terms[1] if len(terms) == 2 else terms[0]) + z)
    return np.array(sums).reshape(p.shape)


@hypothesis.given(
    st.sampled_from(PRODUCTS),
    st.integers(1, 3),
    st.integers(1, 5),
    st.integers(1, 5),
    st.sampled_from([0.0, 1.0, -0.7]),
    st.sampled_from([0.0, 2.0]),
    st.booleans(),
    st.sampled_from([None, *ACTIVATION_NAMES]),
    st.data(),
)
@settings(max_examples=150, deadline=None)
def test_every_element_is_what_arithmetic_makes_it(
    dtype: DTypeName, batch: int, m: int, n: int, alpha: float, beta: float, row: bool, name: str, data: st.DataObject
) -> None:
    activation: ActivationName | None = None if DTYPES[dtype].is_integer else name  # type: ignore[assignment]
    alpha = float(int(alpha)) if DTYPES[dtype].is_integer else alpha
    output = data.draw(st.sampled_from(outputs_of(dtype)))
    rng, problem = np.random.default_rng((batch, m, n, row)), Problem(m, n, 1, dtype, batch, a_batched=True)
    if output not in outputs_of(dtype)[:1] and dtype in ("float16", "bfloat16"):
        output = dtype  # these are widened before they are multiplied
    p, c = (matrix((batch, m, n), dtype, rng) for _ in range(2))
    bias = matrix((1, n) if row else (m, 1), dtype, rng)
    if not DTYPES[dtype].is_integer:
        for each, special in ((p, np.nan), (c, np.inf), (bias, -np.inf)):
            each.flat[rng.integers(0, each.size)] = stored(np.array(special), dtype)
    epilogue = Epilogue(
        alpha,
        beta,
        HostOperand(c) if beta else None,
        HostOperand(bias),
        activation,
        None if output == dtype else output,
    )
    d = add_epilogue(problem, epilogue, p)
    assert wrong_elements(d, p, c, alpha, beta, dtype, epilogue.after) == 0
    if DTYPES[dtype].is_integer:
        whole = int(alpha) * p.astype(np.int64) + int(beta) * c.astype(np.int64) + bias
        np.testing.assert_array_equal(d, whole.astype(np.int32))
        return
    with np.errstate(all="ignore"):
        total = in_float64(p, c, bias, dtype, (alpha, beta))
        expected = total if activation is None else activated(activation, total)
        rounded = expected if output == "float64" else narrow(expected.astype(np.float32), output)
    np.testing.assert_array_equal(as_float64(d, output), as_float64(rounded, output))


# ---- what goes wrong ----
Wrong = Callable[[Array], None]


def no_bias(d: Array) -> None:
    d[..., 3, :] = np.maximum(d[..., 3, :] - 1.0, 0.0)


def no_activation(d: Array) -> None:
    d[..., 5, 7] = -1.0


def next_number(d: Array) -> None:
    """The neighbour of a right one, of an element that is not 0."""
    at = np.unravel_index(np.argmax(d), d.shape)
    d[at] = np.nextafter(d[at], np.float32(np.inf))


def not_a_number(d: Array) -> None:
    d[..., 0, 0] = np.nan


@pytest.mark.parametrize("activation", [None, *ACTIVATION_NAMES])
@pytest.mark.parametrize("wrong", [no_bias, no_activation, next_number, not_a_number])
def test_a_wrong_element_is_never_returned(
    runner: CpuRunner, activation: ActivationName | None, wrong: Wrong, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, rng = Problem(40, 40, 40, "float32"), np.random.default_rng(1)
    a, b = operands(problem, rng)
    bias = np.ones((1, 40), np.float32)

    def spoilt(problem: Problem, epilogue: Epilogue, p: Array, out: Array | None = None) -> Array:
        d = add_epilogue(problem, epilogue, p, out)
        wrong(d)
        return d

    monkeypatch.setattr(cpu_runner, "add_epilogue", spoilt)
    epilogue = Epilogue(1.0, 0.0, None, HostOperand(bias), activation)
    refused = pytest.raises(VerificationFailed, match="with the bias and the activation that were asked for")
    with computed(runner, problem, (HostOperand(a), HostOperand(b)), epilogue) as product, refused:
        checked(problem, product)


@pytest.mark.parametrize("output", ["float16", "bfloat16"])
def test_another_rounding_is_found(output: DTypeName) -> None:
    rng = np.random.default_rng(2)
    p = rng.standard_normal((1, 30, 30)).astype(np.float32)
    epilogue = Epilogue(1.0, 0.0, None, None, "silu", output)
    d = add_epilogue(Problem(30, 30, 1, "float32"), epilogue, p).reshape(p.shape)
    assert wrong_elements(d, p, None, 1.0, 0.0, "float32", epilogue.after) == 0
    d.view(np.uint16)[0, 4, 5] ^= 1
    assert wrong_elements(d, p, None, 1.0, 0.0, "float32", epilogue.after) == 1
    assert wrong_elements(d, p, None, 1.0, 0.0, "float32", After(None, "gelu", output)) > 800


def test_a_bias_that_changed_on_its_way_is_never_added(runner: CpuRunner) -> None:
    problem, rng = Problem(5, 6, 7, "float32"), np.random.default_rng(3)
    a, b = (HostOperand(each) for each in operands(problem, rng))
    bias = matrix((5, 1), "float32", rng)
    sent = digest_of(bias)
    bias[2] += 1.0
    epilogue = Epilogue(1.0, 0.0, None, HostOperand(bias, digest=sent))
    with computed(runner, problem, (a, b), epilogue) as product, pytest.raises(OperandDamaged):
        checked(problem, product)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("when", ["before", "between"])
def test_a_widened_operand_that_changed_is_found(runner: CpuRunner, dtype: DTypeName, when: str) -> None:
    """On its way, or in the copy that is multiplied."""
    rng = np.random.default_rng(5)
    problem = Problem(20, 21, 22, "float32")
    a, b = (matrix(shape, dtype, rng) for shape in ((20, 22), (22, 21)))
    of_a, of_b = (WidenedOperand(HostOperand(each, digest=digest_of(each)), dtype) for each in (a, b))
    np.testing.assert_array_equal(of_a.elements, as_float64(a, dtype))
    with computed(runner, problem, (of_a, of_b), Epilogue(2.0, 0.0, None)) as product:
        checked(problem, product)
        (a if when == "before" else of_a.elements).view(np.uint16)[3, 4] ^= 1
        with pytest.raises(OperandDamaged):
            product.verify_operands()


def test_outputs_are_those_of_the_docs() -> None:
    assert {dtype: outputs_of(dtype) for dtype in REAL_NAMES} == {
        "float16": ("float16", "float32"),
        "bfloat16": ("bfloat16", "float32"),
        "float32": ("float32", "float16", "bfloat16"),
        "float64": ("float64", "float32", "float16", "bfloat16"),
        "int8": ("int32",),
        "int32": ("int32",),
        "float8_e4m3": ("float32", "float16", "bfloat16"),
    }
