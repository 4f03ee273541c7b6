"""SVG in fewer bytes: matplotlib writes six decimals for each coordinate, rotates texts by 0°, and indents."""

from __future__ import annotations

import re

_TAG = re.compile(rb"<[^<>]+>")
_GEOMETRY = re.compile(rb'(?<=\s)(?:d|x|y|width|height|points|transform)="[^"]*"')
_LONG_NUMBER = re.compile(rb"-?\d+\.\d{3,}")
_NO_ROTATION = re.compile(rb' transform="rotate\(-?0 [^"]*"')
_INDENT = re.compile(rb"^ +", re.MULTILINE)


def compact(svg: bytes) -> bytes:
    """The picture with coordinates to a hundredth of a point. Text is left as it is."""
    return _TAG.sub(_compact_tag, _INDENT.sub(b"", svg))


def _compact_tag(tag: re.Match[bytes]) -> bytes:
    shorter = _NO_ROTATION.sub(b"", tag[0])
    return _GEOMETRY.sub(lambda found: _LONG_NUMBER.sub(_rounded, found[0]), shorter)


def _rounded(number: re.Match[bytes]) -> bytes:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".").encode()
