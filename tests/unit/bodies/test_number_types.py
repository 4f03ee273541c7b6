"""Numbers in JSON keep what they are: integers without a `dtype` are stored, and multiplied, exactly or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobs.errors import InvalidMatrix, InvalidRequest, MatmulError, UnsupportedDType
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.formats.parser import MatrixHeader
from kernels.model.numerics import Problem
from service.bodies.json import JsonReader
from service.bodies.matrix import JsonMatrixReader
from service.bodies.nested_lists import to_json
from service.bodies.reader import MatmulInput
from worker.cpu.blas import multiply

MAGNITUDES = [2**power + more for power in (0, 3, 8, 11, 12, 23, 24, 25, 31, 52, 53, 63, 64) for more in (-1, 0, 1)]
integers = st.one_of(
    st.integers(-9, 9),
    st.sampled_from(MAGNITUDES),
    st.sampled_from(MAGNITUDES).map(lambda x: -x),
)

near = st.integers(4080, 4110)  # two of them make a number that float32 may not have


class Kept:
    """An upload that keeps its elements."""

    def __init__(self, header: MatrixHeader) -> None:
        self.header = header

    def write(self, data: bytes) -> None:
        self.data = data

    @property
    def array(self) -> Array:
        return np.frombuffer(self.data, STORAGE_DTYPES[self.header.dtype]).reshape(self.header.shape)


def read(**document: Any) -> MatmulInput:
    reader = JsonReader(Kept)  # type: ignore[arg-type]
    reader.feed(b"{" + b",".join(b'"%s":%s' % (name.encode(), text(value)) for name, value in document.items()) + b"}")
    return reader.finish()


def text(value: Any) -> bytes:
    """As JSON, integers of any length with all digits."""
    return str(value).encode() if isinstance(value, list) else orjson.dumps(value)


def kept(asked: MatmulInput, name: str) -> Kept:
    operand: Any = getattr(asked, name)
    assert isinstance(operand, Kept)
    return operand


def product(asked: MatmulInput) -> Any:
    a, b = kept(asked, "a").array, kept(asked, "b").array
    dtype = kept(asked, "a").header.dtype
    return orjson.loads(to_json(multiply(Problem.of_shapes(a.shape, b.shape, dtype), a, b), dtype))


@st.composite
def matrices(draw: st.DrawFn, numbers: st.SearchStrategy[Any]) -> tuple[list[Any], list[Any]]:
    m, k, n = (draw(st.integers(1, 3)) for _ in range(3))
    a, b = (
        draw(st.lists(st.lists(numbers, min_size=w, max_size=w), min_size=h, max_size=h)) for h, w in ((m, k), (k, n))
    )
    return a, b


@given(matrices(integers) | matrices(near))
@example(([[4097]], [[4097]]))
@example(([[2**26 + 1]], [[2**26 + 1]]))
def test_a_product_of_integers_is_exact_or_refused(operands: tuple[list[Any], list[Any]]) -> None:
    a, b = operands
    columns = list(zip(*b, strict=True))
    exact = [[sum(x * y for x, y in zip(row, column, strict=True)) for column in columns] for row in a]
    try:
        asked = read(a=a, b=b)
    except InvalidMatrix as refused:
        assert bound_of(a, b) >= 2**53 or largest_of(a, b) > 2**53
        assert '"dtype"' in refused.detail
        return
    assert product(asked) == exact
    assert asked.options.dtype is None or bound_of(a, b) > 2**24 or largest_of(a, b) > 2**24


def largest_of(*lists: list[Any]) -> int:
    largest: int = max(abs(x) for rows in lists for row in rows for x in row)
    return largest


def bound_of(a: list[Any], b: list[Any]) -> int:
    """An upper bound on sums of magnitudes for any layout of elements: float32 is kept if it is small."""
    rows: int = max(sum(map(abs, row)) for row in a)
    columns: int = max(sum(map(abs, column)) for column in zip(*b, strict=True))
    return min(rows * largest_of(b), largest_of(a) * columns)


@given(matrices(integers | st.floats(-1e6, 1e6, width=32)))
def test_an_integer_among_floats_is_held_or_refused(operands: tuple[list[Any], list[Any]]) -> None:
    a, b = operands
    try:
        asked = read(a=a, b=b)
    except InvalidMatrix:
        assert any(isinstance(x, int) and abs(x) > 2**24 for row in (*a, *b) for x in row)
        return
    for name, rows in (("a", a), ("b", b)):
        stored = kept(asked, name).array
        for sent, found in zip((x for row in rows for x in row), stored.ravel().tolist(), strict=True):
            assert not isinstance(sent, int) or int(found) == sent


@pytest.mark.parametrize(
    ("document", "dtype"),
    [
        ({"a": [[1, 2]], "b": [[3], [4]]}, None),
        ({"a": [[4096]], "b": [[4096]]}, None),
        ({"a": [[4096, 1]], "b": [[4096], [1]]}, "float64"),
        ({"a": [[16777217]], "b": [[1]]}, "float64"),
        ({"a": [[16777217.0]], "b": [[1]]}, None),
        ({"a": [[16777216]], "b": [[0.5]]}, None),
        ({"a": [[16777217]], "b": [[0.5]]}, "float64"),
        ({"a": [[16777217]], "b": {"random": {"shape": [1, 1]}}}, "float64"),
        ({"a": [[16777217]], "b": [[1]], "dtype": "float32"}, "float32"),
        ({"a": [[16777217]], "b": [[1]], "accuracy": "tf32"}, None),
        ({"a": [[16777217]], "b": [[1]], "kernel": "cublas_tf32"}, None),
        ({"a": [[3000]], "b": [[3000]], "alpha": 2}, "float64"),
        ({"a": [[3000]], "b": [[3000]], "alpha": 1e300}, "float64"),
        ({"a": [[1]], "b": [[1]], "c": [[16777216]]}, "float64"),
        ({"a": [[1]], "b": [[1]], "c": [[2**53 - 2]]}, "float64"),
        ({"a": [[1]], "b": [[1]], "c": [[2**53]], "beta": 0.5}, "float64"),  # which rounds whatever the type
        ({"a": [[1] * 64] * 64, "b": [[1] * 64] * 64}, "float64"),  # fp32_emulated might round it
        ({"a": [[1] * 64] * 64, "b": [[1] * 64] * 64, "kernel": "naive"}, None),
        ({"a": [[2] * 5, [3] * 5], "b": [[1] * 5, [1] * 5], "transpose_a": True}, None),
    ],
)
def test_the_type_that_numbers_get(document: dict[str, Any], dtype: str | None) -> None:
    asked = read(**document)
    assert asked.options.dtype == dtype
    assert kept(asked, "a").header.dtype == (dtype or "float32")


@pytest.mark.parametrize(
    ("document", "words", "field"),
    [
        (
            {"a": [[2**53 + 1]], "b": [[0]]},
            "a[0][0] is 9007199254740993, an integer that float64 does not hold",
            "a[0][0]",
        ),
        ({"a": [[0.5], [2**64 + 1]], "b": [[1]]}, "a[1][0] is 18446744073709551617, an integer", "a[1][0]"),
        ({"a": [[2**53]], "b": [[1]]}, "sums may reach 2^53", None),
        ({"a": [[1]], "b": [[1]], "c": [[2**53]]}, "sums may reach 2^53", None),
        ({"a": [[1]], "b": [[1]], "bias": [2**53]}, "sums may reach 2^53", None),
        ({"a": [[94906265]], "b": [[94906265]], "alpha": 3}, "sums may reach 2^53", None),
        ({"a": [[1]], "b": [[1]], "c": [[2**53 - 1]], "beta": -2}, "sums may reach 2^53", None),
        ({"a": [[16777217]], "b": [[1]], "kernel": "hopper_fp32"}, "hopper_fp32 does not take float64", "dtype"),
        ({"a": {"matrix": "m"}, "b": {"matrix": "m"}, "c": [[16777217]]}, "c[0][0] is 16777217", "c[0][0]"),
    ],
)
def test_what_no_type_keeps_is_refused(document: dict[str, Any], words: str, field: str | None) -> None:
    with pytest.raises((InvalidMatrix, UnsupportedDType)) as refused:
        read(**document)
    assert words in refused.value.detail and refused.value.field == field


@pytest.mark.parametrize(
    ("document", "dtype"),
    [
        ({"data": [[1, 2.5]]}, "float32"),
        ({"data": [[16777217]]}, "float64"),
        ({"data": [[16777217]], "dtype": "float32"}, "float32"),
        ({"data": [[2**64 + 1]]}, None),
    ],
)
def test_a_stored_matrix_keeps_its_integers(document: dict[str, Any], dtype: str | None) -> None:
    reader = JsonMatrixReader(Kept)  # type: ignore[arg-type]
    reader.feed(str(document).replace("'", '"').encode())
    if dtype is None:
        with pytest.raises(MatmulError, match="18446744073709551617"):
            reader.finish()
    else:
        upload: Any = reader.finish()
        assert upload.header.dtype == dtype


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize(("value", "rounded"), [(2**53 + 1, 2.0**53), ([1, 2**53 + 1], [1, 2.0**53])])
def test_a_factor_that_no_type_keeps_is_refused(name: str, value: Any, rounded: Any) -> None:
    """Written with a point it asks to be rounded."""
    document = {"a": [[[1, 0]]], "b": [[[1, 0]]], "c": [[[1, 0]]], "dtype": "complex128"}
    with pytest.raises(InvalidRequest, match=f"{name}: -?[0-9]+ is an integer that float64 does not hold exactly"):
        read(**document, **{name: value})
    assert read(**document, **{name: rounded})
