"""Numbers as they are typed into the form of a product."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import InvalidMatrix, InvalidRequest
from service.dashboard.multiply.clone import _factor_text
from service.dashboard.multiply.typed_numbers import factor_of, parts_of, rows_of

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(FLOATS, FLOATS, st.sampled_from("ij"))
def test_what_python_writes_is_read(real: float, imaginary: float, unit: str) -> None:
    sign = "" if str(imaginary).startswith("-") else "+"
    parts = parts_of(f"{real}{sign}{imaginary}{unit}")
    assert parts is not None and tuple(map(float, parts)) == (real, imaginary)
    alone = parts_of(f"{imaginary}{unit}")
    assert alone is not None and tuple(map(float, alone)) == (0.0, imaginary)


@given(FLOATS, FLOATS)
def test_a_factor_of_a_job_is_shown_as_it_is_typed(real: float, imaginary: float) -> None:
    assert factor_of(_factor_text((real, imaginary)), "alpha") == [real, imaginary]


@given(st.text(alphabet="0123456789.eE+-ij ", max_size=12))
def test_whatever_is_typed_is_a_number_or_refused(text: str) -> None:
    parts = parts_of(text)
    if parts is not None:
        assert complex(text.replace("i", "j")) == complex(float(parts[0]), float(parts[1]))


@pytest.mark.parametrize("text", ["", "i2", "1+", "1 + 2i", "--i", "1-2", "1e", "2i+1", "Infinity", "9" * 70])
def test_what_is_no_factor_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"alpha must be a number, such as 0\.5, or 1-2i where"):
        factor_of(text, "alpha")


def test_rows_of_complex_numbers_are_pairs() -> None:
    assert rows_of("1 -2i\n1.5+1e2j, NaN", "a", is_complex=True) == [[[1, 0], [0, -2]], [[1.5, 1e2], ["NaN", 0]]]
    with pytest.raises(InvalidMatrix, match=r"Line 1 of A has “1\+” where a number such as 1.5-2i belongs"):
        rows_of("1+ 2", "a", is_complex=True)
    with pytest.raises(InvalidMatrix, match="Line 1 of A has “2i” where a number belongs"):
        rows_of("1 2i", "a")
