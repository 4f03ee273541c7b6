"""SVG loses digits and space, and nothing that can be seen."""

from __future__ import annotations

import re

from analysis.plots.compact import compact


def test_coordinates_keep_two_decimals() -> None:
    path = b'<path d="M 39.724615 516.897811 \nL -0.001 316.995"/>'
    assert compact(path) == b'<path d="M 39.72 516.9 \nL -0 317"/>'


def test_text_ids_and_styles_stay() -> None:
    other = b'<g id="d 0.123456"><text style="font-size: 8.512345px">0.123456 ms, d="1.98765"</text></g>'
    assert compact(other.replace(b"<text", b'<text x="1.23456"')).replace(b' x="1.23"', b"") == other


def test_indentation_and_rotations_by_nothing_go() -> None:
    turned = b'<text transform="rotate(-90 13.5 20.25)">up</text>'
    assert compact(b'<g>\n   <text x="1" transform="rotate(-0 1.23456 2)">a</text>\n  ' + turned + b"\n</g>") == (
        b'<g>\n<text x="1">a</text>\n' + turned + b"\n</g>"
    )
    assert not re.search(rb"\d\.\d{3}", compact(b'<use x="12.3456" y="0.98765"/>'))
