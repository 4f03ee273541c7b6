"""Parsing of request headers: Accept, Prefer, Range, If-Match, If-None-Match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.http.conditions import check_match, none_match, range_applies
from service.http.negotiation import (
    FILE_OFFERS,
    JSON,
    NPY,
    OCTETS,
    PRODUCT_OFFERS,
    SAFETENSORS,
    choose_type,
    offers_for,
)
from service.http.preferences import Wait, parse_wait
from service.http.ranges import parse_range
from service.problems import NotAcceptable, PreconditionFailed, RangeNotSatisfiable


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, JSON),
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("application/x-npy", NPY),
        ("APPLICATION/X-NPY; charset=x", NPY),
        ("text/html, application/xhtml+xml, */*;q=0.8", JSON),
        ("application/json;q=0.1, application/x-npy;q=0.2", NPY),
        ("application/json;q=0, */*", NPY),
        ("*/*;q=0.5, application/octet-stream", OCTETS),
        ("application/x-safetensors;q=1.000, application/x-npy;q=0.999", SAFETENSORS),
        ("application/x-npy;q=nonsense, application/json;q=0.001", JSON),
        (" , application/x-npy ,", NPY),
    ],
)
def test_accept(accept: str | None, chosen: str) -> None:
    assert choose_type(accept, PRODUCT_OFFERS) == chosen


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0", "text/*", "*/*;q=0", "application/x-npy;q=2"])
def test_nothing_acceptable(accept: str) -> None:
    with pytest.raises(NotAcceptable, match="application/x-safetensors") as refused:
        choose_type(accept, PRODUCT_OFFERS)
    assert (refused.value.field, refused.value.members) == ("Accept", {"offers": list(PRODUCT_OFFERS)})


@given(st.text(max_size=60))
def test_any_accept_is_understood_or_refused(accept: str) -> None:
    try:
        assert choose_type(accept, FILE_OFFERS) in FILE_OFFERS
    except NotAcceptable:
        assert accept.strip()


def test_npy_has_no_bfloat16_and_no_float8() -> None:
    assert NPY not in offers_for("bfloat16", FILE_OFFERS)
    assert NPY not in offers_for("float8_e4m3", FILE_OFFERS)
    assert list(offers_for("float16", FILE_OFFERS)) == list(FILE_OFFERS)


@pytest.mark.parametrize(
    ("prefer", "expected"),
    [
        (None, Wait(30, None)),
        ("", Wait(30, None)),
        ("wait=5", Wait(5, "wait=5")),
        ("WAIT=5", Wait(5, "wait=5")),
        ('wait="5"', Wait(5, "wait=5")),
        ("wait=0", Wait(0, "wait=0")),
        ("wait=9999999999999999999999", Wait(120, "wait=120")),
        ("wait=00000000000000005", Wait(5, "wait=5")),
        ("wait=-1", Wait(30, None)),
        ("wait=1.5", Wait(30, None)),
        ("wait", Wait(30, None)),
        ("respond-async", Wait(0, "respond-async", is_async=True)),
        ("respond-async, wait=10", Wait(10, "respond-async, wait=10", is_async=True)),
        ("wait=10; foo=bar, respond-async", Wait(10, "respond-async, wait=10", is_async=True)),
        ("wait=1, wait=2", Wait(1, "wait=1")),
        ("return=minimal, handling=strict", Wait(30, None)),
        ("=,;;,,", Wait(30, None)),
    ],
)
def test_prefer(prefer: str | None, expected: Wait) -> None:
    assert parse_wait(prefer, default_s=30, max_s=120) == expected


@given(st.text(max_size=60))
def test_any_prefer_is_bounded(prefer: str) -> None:
    assert 0 <= parse_wait(prefer, default_s=30, max_s=120).seconds <= 120


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-0", (0, 1)),
        ("bytes=10-19", (10, 20)),
        ("bytes=90-", (90, 100)),
        ("bytes=90-1000", (90, 100)),
        ("bytes=-5", (95, 100)),
        ("bytes=-1000", (0, 100)),
        ("BYTES = 1 - 2", (1, 3)),
        ("bytes=0-1,5-6", None),
        ("bytes=5-4", None),
        ("bytes=-", None),
        ("items=0-1", None),
        ("bytes=a-b", None),
        ("bytes=0-" + "9" * 30, None),
    ],
)
def test_range(header: str | None, expected: tuple[int, int] | None) -> None:
    assert parse_range(header, 100) == expected


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=1000-2000", "bytes=-0"])
def test_ranges_outside(header: str) -> None:
    with pytest.raises(RangeNotSatisfiable) as refused:
        parse_range(header, 100)
    assert refused.value.headers == {"content-range": "bytes */100"}


@given(st.text("bytes=0123456789-, ", max_size=30), st.integers(0, 10**6))
def test_any_range_lies_inside(header: str, total: int) -> None:
    try:
        found = parse_range(header, total)
    except RangeNotSatisfiable:
        return
    assert found is None or 0 <= found[0] < found[1] <= total


@pytest.mark.parametrize(
    ("header", "matches"),
    [(None, False), ('"3"', True), ('W/"3"', True), ('"2", "3"', True), ("*", True), ('"33"', False), ("3", False)],
)
def test_if_none_match(header: str | None, matches: bool) -> None:
    assert none_match(header, '"3"') is matches


@pytest.mark.parametrize("header", [None, "*", " * ", '"3"', '"2", "3"', 'W/"2","3"'])
def test_if_match(header: str | None) -> None:
    check_match(header, '"3"')


@pytest.mark.parametrize("header", ["", "3", '"33"', '"2", "4"', 'W/"3"', "**"])
def test_if_match_names_another_version(header: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        check_match(header, '"3"')
    assert refused.value.field == "If-Match"


def test_if_range() -> None:
    assert range_applies(None, '"3"')
    assert range_applies('"3"', '"3"')
    assert not range_applies('W/"3"', '"3"')  # a weak tag says nothing of bytes
