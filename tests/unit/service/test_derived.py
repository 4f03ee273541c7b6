"""What is derived from options once, and found again for requests that are alike."""

from __future__ import annotations

from functools import partial

import pytest

from jobs.errors import InvalidRequest, ShapeMismatch
from service.bodies.options import MAX_DERIVED, NO_OPTIONS, SHARED_CHARACTERS, MatmulOptions, parse_options


def test_options_of_one_text_are_one_object() -> None:
    first, again = (parse_options({"kernel": "auto", "alpha": 2}) for _ in range(2))
    assert first is again and first == MatmulOptions(alpha=2)
    assert parse_options({}) is NO_OPTIONS and MatmulOptions() == NO_OPTIONS
    assert parse_options({"alpha": 3}) == MatmulOptions(alpha=3)


def test_long_texts_are_not_kept() -> None:
    document = {"group_sizes": [1000] * SHARED_CHARACTERS}
    first, again = parse_options(document), parse_options(document)
    assert first == again and first is not again


def test_wrong_options_are_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="There is no field alhpa"):
            parse_options({"alhpa": 2})
        with pytest.raises(InvalidRequest, match="transpose_a"):
            parse_options({"transpose_a": 1})
        with pytest.raises(InvalidRequest, match="transpose_a"):
            parse_options({"transpose_a": 1.0})


def test_true_is_not_1() -> None:
    assert parse_options({"transpose_b": True}).transpose_b is True
    with pytest.raises(InvalidRequest):
        parse_options({"transpose_b": 1})


def test_it_is_derived_once_for_each_key() -> None:
    options, calls = MatmulOptions(alpha=2), list[int]()

    def ten_times(key: int) -> int:
        calls.append(key)
        return key * 10

    for key in (1, 2, 1, 2):
        assert options.derived(key, partial(ten_times, key)) == key * 10
    assert calls == [1, 2]


def test_what_it_raises_is_raised_again() -> None:
    options = MatmulOptions(alpha=2)

    def refuse() -> int:
        raise ShapeMismatch("No.")

    for _ in range(2):
        with pytest.raises(ShapeMismatch):
            options.derived("plan", refuse)
    assert options.derived("plan", lambda: 7) == 7


def test_a_copy_derives_anew_and_what_is_kept_is_bounded() -> None:
    options = MatmulOptions(alpha=2)
    assert options.derived("key", lambda: 1) == 1
    assert options.model_copy(update={"alpha": 3.0}).derived("key", lambda: 2) == 2
    for key in range(MAX_DERIVED):
        options.derived(key, lambda: 0)
    assert options.derived("key", lambda: 3) == 3
    assert options == MatmulOptions(alpha=2)
