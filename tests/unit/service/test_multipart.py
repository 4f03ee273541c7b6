"""The multipart parser, fed in pieces of any size."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import MalformedBody
from service.bodies.multipart import MAX_HEADER_BYTES, MultipartParser, Part, boundary_of

BOUNDARY = "x-boundary"


@dataclass
class Kept(Part):
    """A part that keeps what it gets."""

    name: str
    media_type: str | None
    data: bytearray = field(default_factory=bytearray)
    ended: bool = False

    def write(self, data: bytes | memoryview) -> None:
        assert not self.ended
        self.data += data

    def end(self) -> None:
        self.ended = True


def parse(body: bytes, cuts: list[int]) -> list[Kept]:
    """The parts of a body that comes in pieces."""
    parts: list[Kept] = []

    def open_part(name: str, media_type: str | None) -> Part:
        parts.append(Kept(name, media_type))
        return parts[-1]

    parser = MultipartParser(BOUNDARY, open_part)
    edges = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    for start, stop in pairwise(edges):
        parser.feed(body[start:stop])
    parser.finish()
    assert all(part.ended for part in parts)
    return parts


def write(parts: list[tuple[str, bytes]], preamble: bytes = b"", epilogue: bytes = b"") -> bytes:
    body = preamble
    for name, data in parts:
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\nContent-Type: text/plain\r\n\r\n'
        body += head.encode() + data + b"\r\n"
    return body + f"--{BOUNDARY}--".encode() + epilogue


# Contents that look like boundaries, in whole or in part, as often as not.
pieces = st.sampled_from([b"\r", b"\n", b"\r\n", b"--", b"\r\n--", b"\r\n--x-bound", b"x-boundary", b"a", b"\0"])
contents = st.lists(st.one_of(pieces, st.binary(max_size=20)), max_size=8).map(b"".join)
contents = contents.filter(lambda data: b"\r\n--" + BOUNDARY.encode() not in b"\r\n" + data)
names = st.text("abcdefgh_", min_size=1, max_size=8)
cut_lists = st.lists(st.integers(0, 2000), max_size=12)


@given(st.lists(st.tuples(names, contents), max_size=4), cut_lists)
def test_parts_come_out_as_they_went_in(parts: list[tuple[str, bytes]], cuts: list[int]) -> None:
    found = parse(write(parts), cuts)
    assert [(part.name, bytes(part.data)) for part in found] == parts
    assert all(part.media_type == "text/plain" for part in found)


@given(st.lists(st.tuples(names, contents), min_size=1, max_size=3), cut_lists, st.integers(1, 200))
def test_a_body_that_is_cut_off_is_refused(parts: list[tuple[str, bytes]], cuts: list[int], missing: int) -> None:
    body = write(parts)
    with pytest.raises(MalformedBody):
        parse(body[: -min(missing, len(body))], cuts)


@given(st.binary(max_size=300), cut_lists)
def test_any_bytes_are_multipart_or_a_sentence(body: bytes, cuts: list[int]) -> None:
    try:
        parse(b"--x-boundary\r\n" + body, cuts)
    except MalformedBody as error:
        assert error.detail


def test_what_stands_before_and_after_is_passed_over() -> None:
    (part,) = parse(write([("a", b"1")], preamble=b"hello\r\n", epilogue=b"\r\nbye"), [3, 40])
    assert (part.name, bytes(part.data)) == ("a", b"1")


@given(st.lists(st.sampled_from([" ", "\t"]), max_size=12).map("".join), cut_lists)
def test_blanks_behind_a_boundary_are_passed_over(blanks: str, cuts: list[int]) -> None:
    """RFC 2046, section 5.1.1: what carries a message may add them."""
    plain = write([("a", b"1"), ("b", b"2")])
    body = plain.replace(f"--{BOUNDARY}\r\n".encode(), f"--{BOUNDARY}{blanks}\r\n".encode()) + blanks.encode() + b"\r\n"
    assert [(part.name, bytes(part.data)) for part in parse(body, cuts)] == [("a", b"1"), ("b", b"2")]


def test_what_stands_before_is_bounded_however_it_is_cut() -> None:
    body = write([("a", b"1")], preamble=b"x" * MAX_HEADER_BYTES + b"\r\n")
    for cuts in ([], list(range(0, len(body), 50))):
        with pytest.raises(MalformedBody, match="does not begin with the boundary"):
            parse(body, cuts)


@pytest.mark.parametrize(
    "head",
    [
        'Content-Disposition: form-data; filename="x"; name=a',
        'content-disposition:form-data;name="a"',
        'X-Other: 1\r\nContent-Disposition: form-data; name="a"; filename="b; name=c"',
        'Content-Disposition: FORM-DATA; NAME="a"\r\nContent-Transfer-Encoding: binary',
    ],
)
def test_ways_to_write_a_head(head: str) -> None:
    (part,) = parse(f"--x-boundary\r\n{head}\r\n\r\nbody\r\n--x-boundary--".encode(), [])
    assert (part.name, part.media_type, bytes(part.data)) == ("a", None, b"body")


@pytest.mark.parametrize(
    "head",
    [
        "",
        'Content-Disposition: form-data; name="a"\r\nContent-Disposition: form-data; name="b"',
        'Content-Disposition: form-data; name="a"\r\nContent-Type: text/plain\r\ncontent-type: image/png',
        "Content-Type: text/plain",
        "Content-Disposition: form-data",
        'Content-Disposition: attachment; name="a"',
        'Content-Disposition: form-data; name="a"\r\nContent-Transfer-Encoding: base64',
        "X: " + "a" * MAX_HEADER_BYTES,
    ],
)
def test_heads_that_are_refused(head: str) -> None:
    with pytest.raises(MalformedBody):
        parse(f"--x-boundary\r\n{head}\r\n\r\nbody\r\n--x-boundary--".encode(), [])


@pytest.mark.parametrize("after", [b"x\r\n", b"-x", b" x\r\n"])
def test_a_boundary_ends_with_its_line(after: bytes) -> None:
    with pytest.raises(MalformedBody):
        parse(b"--x-boundary" + after + b"\r\n\r\n--x-boundary--", [])


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ("multipart/form-data; boundary=abc", "abc"),
        ('multipart/form-data; charset=utf-8; Boundary="a b:c"', "a b:c"),
        ("multipart/form-data;boundary=----WebKitFormBoundary7MA4YWxk", "----WebKitFormBoundary7MA4YWxk"),
    ],
)
def test_boundaries(content_type: str, boundary: str) -> None:
    assert boundary_of(content_type) == boundary


@pytest.mark.parametrize("parameter", ["", "; boundary=", '; boundary="a "', "; boundary=ü", "; boundary=" + "a" * 71])
def test_boundaries_that_are_none(parameter: str) -> None:
    with pytest.raises(MalformedBody, match=re.escape("1 to 70")):
        boundary_of(f"multipart/form-data{parameter}")
