"""Which alpha, beta and C a request may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import InvalidRequest, MatmulError, ShapeMismatch, UnsupportedDType
from kernels.model.numerics import DTYPE_NAMES, DTYPES, DTypeName, Problem
from service.bodies.options import MatmulOptions, parse_model_json
from service.submit.epilogue import HIGHEST, LOWEST, beta_of, check_epilogue
from service.submit.operand_type import OperandType

NO_OPTIONS = MatmulOptions()
SIZES = st.integers(1, 5)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NO_FACTORS = ['{"alpha": "1"}', '{"alpha": true}', '{"alpha": null}', '{"alpha": 1e999}', '{"beta": []}']


@given(st.sampled_from(DTYPE_NAMES), SIZES, SIZES, st.one_of(st.none(), SIZES), st.lists(SIZES, max_size=4).map(tuple))
def test_c_has_the_product_s_shape_or_that_of_one_of_its_matrices(
    dtype: DTypeName, m: int, n: int, batch: int | None, shape: tuple[int, ...]
) -> None:
    problem = Problem(m, n, 3, dtype, batch or 1, a_batched=batch is not None)
    fits = shape in ((m, n), problem.product_shape)
    try:
        check_epilogue(NO_OPTIONS, problem, OperandType(DTYPES[dtype].product, shape))
    except ShapeMismatch as error:
        assert not fits and error.field == "c"
    else:
        assert fits


@given(st.sampled_from(DTYPE_NAMES), st.sampled_from(DTYPE_NAMES))
def test_c_has_the_product_s_type(dtype: DTypeName, of_c: DTypeName) -> None:
    problem = Problem(2, 2, 2, dtype)
    try:
        check_epilogue(NO_OPTIONS, problem, OperandType(of_c, (2, 2)))
    except UnsupportedDType as error:
        assert of_c != problem.product_dtype and error.field == "c" and problem.product_dtype in error.detail
    else:
        assert of_c == problem.product_dtype


@given(
    st.sampled_from(DTYPE_NAMES), st.sampled_from(["alpha", "beta"]), st.floats(allow_nan=False, allow_infinity=False)
)
def test_factors_of_integers_are_whole_numbers(dtype: DTypeName, name: str, factor: float) -> None:
    options = MatmulOptions.model_validate({name: factor})
    is_right = not DTYPES[dtype].is_integer or (factor == int(factor) and LOWEST <= factor <= HIGHEST)
    try:
        check_epilogue(options, Problem(2, 2, 2, dtype), None)
    except InvalidRequest as error:
        assert not is_right and error.field == name and "must be a whole number" in error.detail
    else:
        assert is_right


def test_sentences() -> None:
    problem = Problem(3, 4, 5, "int8", 2, a_batched=True)
    with pytest.raises(ShapeMismatch, match="c is 4×3 but the product is 2×3×4: c must have its shape, or one 3×4 for"):
        check_epilogue(NO_OPTIONS, problem, OperandType("int32", (4, 3)))
    with pytest.raises(UnsupportedDType, match="c is int8 but the product of int8 operands is int32; c must have"):
        check_epilogue(NO_OPTIONS, problem, OperandType("int8", (3, 4)))
    with pytest.raises(InvalidRequest, match=r"alpha is 0\.5, but products of int8 are of integers; it must be"):
        check_epilogue(MatmulOptions(alpha=0.5), problem, None)


def test_who_sends_c_wants_it_added() -> None:
    assert [beta_of(NO_OPTIONS, has_c) for has_c in (False, True)] == [0.0, 1.0]
    assert [beta_of(MatmulOptions(beta=beta), True) for beta in (0.0, -2.0)] == [0.0, -2.0]


@pytest.mark.parametrize("text", NO_FACTORS)
def test_factors_are_numbers(text: str) -> None:
    with pytest.raises(MatmulError, match=r"alpha|beta|JSON"):
        parse_model_json(MatmulOptions, text.encode())
    assert parse_model_json(MatmulOptions, b'{"alpha": 2, "beta": -0.5}') == MatmulOptions(alpha=2.0, beta=-0.5)
