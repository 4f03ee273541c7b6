"""SVG in fewer bytes. matplotlib writes six decimals for each coordinate, rotates texts by 0°, repeats the style at
each element, puts each element into groups of its own, and indents.
"""

from __future__ import annotations

import re

_PROLOGUE = re.compile(rb"<!DOCTYPE[^>]*>\s*|<metadata>.*?</metadata>\s*", re.DOTALL)
_INDENT = re.compile(rb"^ +", re.MULTILINE)
_TAG = re.compile(rb"<[^<>]+>\n?")
_GEOMETRY = re.compile(rb'(?<=\s)(?:d|x|y|width|height|points|transform)="[^"]*"')
_LONG_NUMBER = re.compile(rb"-?\d+\.\d{3,}")
_NO_ROTATION = re.compile(rb' transform="rotate\(-?0 [^"]*"')
_PATH = re.compile(rb'(?<=\s)(d=")([^"]*)')
_COMMAND = re.compile(rb"\s*([A-Za-z])\s*")
_GROUP = re.compile(rb"<g[ >]")
_BARE_GROUP = re.compile(rb'<g(?: id="[^"]*")?>\s*')
_EMPTY_GROUP = re.compile(rb"<g [^<>]*/>\n?")
_ID = re.compile(rb'(?<=["#])[mp][0-9a-f]{10}(?=[")])')  # of a mark or a clipping path: all that is referred to
_STYLE = re.compile(rb'(?<=\s)style="([^"]*)"')
_END_OF_RULES = b"</style>"


class _ShortNames(dict[bytes, bytes]):
    """A name for each key, in the order in which they are asked for: a to z, then a1 to z1, and so on."""

    def __missing__(self, key: bytes) -> bytes:
        round_, letter = divmod(len(self), 26)
        self[key] = f"{chr(ord('a') + letter)}{round_ or ''}".encode()
        return self[key]


def compact(svg: bytes) -> bytes:
    """The picture with coordinates to a hundredth of a point. Text is left as it is."""
    plain = _TAG.sub(_compact_tag, _INDENT.sub(b"", _PROLOGUE.sub(b"", svg)))
    return _with_classes(_with_short_ids(_without_groups(plain)))


def _compact_tag(tag: re.Match[bytes]) -> bytes:
    shorter = _NO_ROTATION.sub(b"", tag[0])
    shorter = _GEOMETRY.sub(lambda found: _LONG_NUMBER.sub(_rounded, found[0]), shorter)
    return _PATH.sub(lambda found: found[1] + _COMMAND.sub(rb"\1", found[2].strip()), shorter)


def _rounded(number: re.Match[bytes]) -> bytes:
    text = f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
    return b"0" if text == "-0" else text.encode()


def _without_groups(svg: bytes) -> bytes:
    """Groups that only have a name go: nothing refers to it."""
    is_kept: list[bool] = []  # of the open groups, the innermost last

    def left(tag: re.Match[bytes]) -> bytes:
        if tag[0].startswith(b"</g>"):
            return tag[0] if is_kept.pop() else b""
        if not _GROUP.match(tag[0]):
            return tag[0]
        is_kept.append(not _BARE_GROUP.fullmatch(tag[0]))
        return tag[0] if is_kept[-1] else b""

    return _TAG.sub(left, _EMPTY_GROUP.sub(b"", svg))


def _with_short_ids(svg: bytes) -> bytes:
    names = _ShortNames()
    return _TAG.sub(lambda tag: _ID.sub(lambda found: names[found[0]], tag[0]), svg)


def _with_classes(svg: bytes) -> bytes:
    """Each style becomes a rule of the picture's style sheet; without a sheet styles stay where they are."""
    if _END_OF_RULES not in svg:
        return svg
    names = _ShortNames()
    classed = _TAG.sub(lambda tag: _STYLE.sub(lambda found: b'class="%b"' % names[found[1]], tag[0]), svg)
    rules = b"".join(b"\n.%b{%b}" % (name, style) for style, name in names.items())
    return classed.replace(_END_OF_RULES, rules + b"\n" + _END_OF_RULES, 1)
