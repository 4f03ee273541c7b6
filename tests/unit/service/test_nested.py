"""Nested JSON lists to matrices and back."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import InvalidMatrix, MalformedBody
from jobs.formats.bit_floats import widen
from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.numerics import DTYPES, DTypeName
from service.bodies.nested_lists import NAMED, loads, read_numbers, to_json

FLOATS: dict[DTypeName, Any] = {"float16": np.float16, "float32": np.float32, "float64": np.float64}
shapes = st.one_of(
    st.tuples(st.integers(1, 5), st.integers(0, 5)),
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 4)),
)


def values(array: Array, dtype: DTypeName) -> Array:
    return widen(array, dtype)


@given(st.data(), shapes, st.sampled_from([*FLOATS, "bfloat16"]))
def test_floats_are_rounded_once_and_come_back(data: st.DataObject, shape: tuple[int, ...], dtype: DTypeName) -> None:
    limit = DTYPES[dtype].largest * (1 - DTYPES[dtype].unit_roundoff)
    numbers = st.one_of(st.floats(-limit, limit), st.integers(-1000, 1000), st.sampled_from(list(NAMED)))
    flat = data.draw(st.lists(numbers, min_size=math.prod(shape), max_size=math.prod(shape)))
    nested = np.array(flat, object).reshape(shape).tolist()
    array = read_numbers(loads(orjson.dumps(nested)), "a").stored(dtype)
    assert (array.shape, array.dtype) == (shape, STORAGE_DTYPES[dtype])
    exact = np.array([NAMED.get(x, x) if isinstance(x, str) else x for x in flat], np.float64).reshape(shape)
    if dtype in FLOATS:
        np.testing.assert_array_equal(array, exact.astype(FLOATS[dtype]))
    back = read_numbers(loads(to_json(array, dtype)), "c").stored(dtype)
    np.testing.assert_array_equal(values(back, dtype), values(array, dtype))


@given(st.data(), shapes, st.sampled_from(["complex64", "complex128"]))
def test_pairs_are_rounded_once_and_come_back(data: st.DataObject, shape: tuple[int, ...], dtype: DTypeName) -> None:
    part = DTYPES[dtype].real
    limit = DTYPES[dtype].largest * (1 - DTYPES[dtype].unit_roundoff)
    numbers = st.one_of(st.floats(-limit, limit), st.integers(-1000, 1000), st.sampled_from(list(NAMED)))
    count = 2 * math.prod(shape)
    flat = data.draw(st.lists(numbers, min_size=count, max_size=count))
    nested = np.array(flat, object).reshape(*shape, 2).tolist()
    if shape[-1] == 0 and len(shape) == len(("batch", "rows", "columns")):
        return  # as a batch, such lists are rows of nothing
    array = read_numbers(loads(orjson.dumps(nested)), "a", dtype).stored(dtype)
    assert (array.shape, array.dtype) == (shape, STORAGE_DTYPES[dtype])
    exact = np.array([NAMED.get(x, x) if isinstance(x, str) else x for x in flat], np.float64)
    np.testing.assert_array_equal(array.reshape(-1).view(STORAGE_DTYPES[part]), exact.astype(STORAGE_DTYPES[part]))
    back = read_numbers(loads(to_json(array, dtype)), "c", dtype).stored(dtype)
    np.testing.assert_array_equal(back.view(STORAGE_DTYPES[part]), array.view(STORAGE_DTYPES[part]))


@given(st.data(), shapes, st.sampled_from(["int8", "int32"]))
def test_integers_come_back(data: st.DataObject, shape: tuple[int, ...], dtype: DTypeName) -> None:
    bounds = np.iinfo(STORAGE_DTYPES[dtype])
    numbers = st.integers(int(bounds.min), int(bounds.max))
    whole = numbers | numbers.map(float)
    flat = data.draw(st.lists(whole, min_size=math.prod(shape), max_size=math.prod(shape)))
    array = read_numbers(np.array(flat, object).reshape(shape).tolist(), "a").stored(dtype)
    np.testing.assert_array_equal(array, np.array(flat, np.int64).reshape(shape))
    assert orjson.loads(to_json(array, dtype)) == array.tolist()


@given(st.integers() | st.floats(), st.sampled_from([name for name in DTYPES if not DTYPES[name].is_complex]))
def test_a_number_is_held_or_refused(number: float, dtype: DTypeName) -> None:
    """Nothing becomes another number unseen: what is stored is the nearest there is, or an error."""
    try:
        (stored,) = values(read_numbers([[number]], "a").stored(dtype), dtype).ravel().tolist()
    except InvalidMatrix:
        integral = math.isfinite(number) and number == int(number)
        too_large = not abs(number) <= DTYPES[dtype].largest
        assert too_large or (DTYPES[dtype].is_integer and not integral) or not math.isfinite(number)
        return
    if math.isfinite(number):
        smallest = {"float8_e4m3": 2.0**-10}.get(dtype, 6e-8)
        assert abs(stored - number) <= max(abs(number) * DTYPES[dtype].unit_roundoff, smallest)
    else:
        assert not DTYPES[dtype].is_integer


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=3), children, max_size=3),
    max_leaves=30,
)


@given(json_values)
def test_any_json_is_a_complex_matrix_or_refused(value: object) -> None:
    if isinstance(value, list):
        try:
            array = read_numbers(value, "a", "complex64").stored("complex64")
        except InvalidMatrix:
            return
        assert array.ndim in (2, 3) and array.dtype == np.complex64


@given(st.lists(json_values, max_size=4), st.sampled_from(list(DTYPES)))
def test_any_lists_are_a_matrix_or_a_sentence(value: list[Any], dtype: DTypeName) -> None:
    try:
        array = read_numbers(value, "a", dtype).stored(dtype)
    except InvalidMatrix as error:
        assert error.field is not None
        assert error.field.startswith("a")
        assert len(error.detail) < 250
    else:
        assert array.ndim in (2, 3)
        assert list(array.shape) == list(np.array(value, object).shape)[: array.ndim]


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_json_or_a_sentence(body: bytes) -> None:
    try:
        loads(body)
    except MalformedBody as error:
        assert "JSON" in error.detail


@pytest.mark.parametrize(
    ("token", "words"),
    [
        *((token, f"the bare token {token};") for token in ("NaN", "Infinity", "-Infinity")),
        *((token, f"{token:.40}, which is too large") for token in ("1e999", "-1e999", "1" * 400)),
    ],
)
def test_what_is_no_json_number_is_named(token: str, words: str) -> None:
    document = loads(f'{{"a": [[1, {token}]]}}'.encode())
    with pytest.raises(InvalidMatrix, match=rf"a\[0\]\[1\] is {words}") as refused:
        read_numbers(document["a"], "a").stored("float64")
    assert refused.value.field == "a[0][1]"


@pytest.mark.parametrize("body", ['\ufeff{"a": 1}', '{"a": [1,]}', "'a'", "[" * 100_000])
def test_leniency_ends_there(body: str) -> None:
    with pytest.raises(MalformedBody):
        loads(body.encode())


def test_named_numbers_in_json() -> None:
    array = np.array([[np.nan, np.inf], [-np.inf, 0.5]], np.float32)
    assert json.loads(to_json(array, "float32")) == [["NaN", "Infinity"], ["-Infinity", 0.5]]
