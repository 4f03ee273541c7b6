"""Plots of recorded and published results: what there is to draw, that it is drawn whole, the same each time."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from analysis.condition import Condition
from analysis.measurement import Device, Measurement
from analysis.plots.by_name import PLOTS, available, available_of, draw, draw_of
from analysis.plots.compact import compact
from analysis.plots.configs import fastest, sweeps
from analysis.plots.description import Chart, number
from analysis.plots.device import roofed, roofline
from analysis.plots.figures import figure
from analysis.plots.lines import GFLOPS, by_size
from analysis.plots.looks import looks
from analysis.plots.style import spaced, style_of
from analysis.results import collect
from jobs.errors import ExtraMissing, NotFound
from jobs.fleet.workers import Ceilings
from kernels.catalog import KERNEL_NAMES
from tests.support.recorded import T4, h200, made, report
from tests.unit.analysis.findings import job, kept, two_rounds

PNG = b"\x89PNG\r\n\x1a\n"


def drawn(found: tuple[Measurement, ...] | list[Measurement], name: str) -> str:
    """All that the plot says in letters."""
    svg = draw_of(found, name)
    return "\n".join(element.text or "" for element in ElementTree.fromstring(svg).iter() if element.text)


def test_what_recorded_results_have_to_show() -> None:
    results = collect(job(), kept(two_rounds()))
    lines = ("gflops", "time", "speedup", "fraction-of-baseline", "beside-library", "error")
    assert available(results) == (*lines, "breakdown", "roofline")
    assert draw(results, "gflops", form="png").startswith(PNG)
    assert available(collect(job(), {})) == ()


@pytest.mark.parametrize("number_of_report", ["000", "001", "002", "003", "004"])
def test_every_plot_of_the_reports_is_drawn(number_of_report: str) -> None:
    found = report(number_of_report)
    names = available_of(found)
    assert {"gflops", "time"} <= set(names)
    for name in names:
        ElementTree.fromstring(draw_of(found, name))


def test_names_of_kernels_and_units_are_in_the_plot() -> None:
    text = drawn(h200(), "gflops")
    for label in ("GFLOPS", "N (m = n = k)", "naive", "pipelined", "cublas", "8192"):
        assert label in text
    assert "float32 peak, theoretical: 66\u202f908" in text


def test_one_size_alone_is_drawn_as_rows_with_their_figures() -> None:
    text = drawn([one for one in h200() if one.n == 8192], "gflops")
    assert "float32, N = 8192" in text and "GFLOPS" in text


def test_sizes_of_oblong_products_are_called_what_they_are() -> None:
    oblong = [made(512, gflops=1.0, m=8), made(1024, gflops=2.0, m=8)]
    assert "cube root of m·n·k" in drawn(oblong, "gflops") and "N (m = n = k)" not in drawn(oblong, "gflops")
    assert "float32, cube root of m·n·k = 128" in drawn(oblong[:1], "gflops")


def test_a_line_joins_square_products_alone() -> None:
    oblong = [made(512, gflops=1.0, m=8), made(1024, gflops=2.0)]
    for found, style in ((oblong, "None"), ([made(512, gflops=1.0), made(1024, gflops=2.0)], "--")):
        (axes,) = figure(by_size(found, GFLOPS)).axes
        assert [line.get_linestyle() for line in axes.lines] == [style]


def test_a_disturbed_point_keeps_the_mark_of_its_kernel() -> None:
    noisy = Condition("contended")
    names = ("naive", "cublas")
    found = [made(n, gflops=1.0, condition=noisy, kernel=name, label=name) for name in names for n in (512, 1024)]
    (axes,) = figure(by_size(found, GFLOPS)).axes
    rings = [line for line in axes.lines if line.get_label() == "disturbed: no conclusion"]
    marks = {line.get_marker() for line in axes.lines if line not in rings}
    assert len(rings) == len(marks) == 2
    assert all(ring.get_fillstyle() == "none" and ring.get_markersize() > 2 * 4.5 for ring in rings)


def test_a_description_has_all_that_is_drawn() -> None:
    (chart,) = by_size(h200(), GFLOPS)
    assert isinstance(chart, Chart)
    assert (chart.x.label, chart.x.scale, chart.y.label) == ("N (m = n = k)", "log2", "GFLOPS")
    lines = {series.name: series for series in chart.series}
    fastest = max(one.gflops or 0 for one in h200() if one.kernel == "naive" and one.n == 8192)
    assert lines["naive"].points[-1] == (8192.0, fastest)
    (axes,) = figure([chart]).axes
    drawn_lines = {line.get_label(): line.get_xydata() for line in axes.lines}
    for series in chart.series:
        np.testing.assert_array_equal(drawn_lines[series.name], series.points)


def test_roofline_draws_measured_roofs_beside_theoretical_ones() -> None:
    device = replace(
        T4, theoretical=Ceilings(gflops={"float32": 7680.0}, memory_gb_s=320.0),
        measured=Ceilings(gflops={"float32": 7000.0}, memory_gb_s=220.0),
    )  # fmt: skip
    text = drawn([made(gflops=500.0, accuracy="fp32", device=device)], "roofline")
    for label in ("theoretical: 320 GB/s", "measured: 220 GB/s", "float32 peak, measured: 7\u202f000"):
        assert label in text


def test_the_roofline_shows_the_largest_size_and_what_is_not_square() -> None:
    device = replace(T4, theoretical=Ceilings(gflops={"float32": 7680.0}, memory_gb_s=320.0))
    row = {"accuracy": "fp32", "device": device, "gflops": 50.0}
    small, thin, thinner, large = made(64, **row), made(512, m=8, **row), made(512, m=1, **row), made(1024, **row)
    assert set(map(id, roofed([small, thin, thinner, large]))) == {id(thin), id(thinner), id(large)}
    described = roofline([small, thin, thinner, large], ("compulsory", "tile"))
    assert described is not None
    (axes,) = figure([described]).axes
    marks = [float(np.asarray(line.get_xdata())[0]) for line in axes.lines if line.get_label() == "naive"]
    assert len(marks) == 3 and min(marks) < 1 < 100 < max(marks)  # on both sides of the ridge


def test_the_same_results_give_the_same_bytes_in_any_thread() -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: draw_of(h200(), "speedup"), range(4)))
    assert len(set(found)) == 1
    assert b"<dc:date>" not in found[0]


def test_a_formula_in_a_name_is_text() -> None:
    assert "$x^2$ <b>" in drawn(
        [made(label="$x^2$ <b>", gflops=1.0), made(512, label="$x^2$ <b>", gflops=1.0)], "gflops"
    )


def test_a_plot_that_cannot_be_is_refused_with_what_can() -> None:
    with pytest.raises(NotFound, match="There is no plot 'pie'; there are: gflops, time"):
        draw_of(h200(), "pie")
    with pytest.raises(NotFound, match="nothing for the plot 'breakdown'; they have: gflops, time"):
        draw_of(h200(), "breakdown")


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ExtraMissing, match="install the extra `report`"):
        draw_of(h200(), "gflops")


def test_a_sweep_needs_two_configs_at_a_size() -> None:
    by_size = [made(512, gflops=1.0, config={"block_m": 8}), made(1024, gflops=1.0, config={"block_m": 16})]
    assert sweeps(by_size) == ()
    (sweep,) = sweeps([*by_size, made(1024, gflops=2.0, config={"block_m": 8})])
    assert (sweep.sizes, len(sweep.configs)) == (("512", "1024"), 2)


def test_of_many_configs_the_fastest_are_shown_in_their_order() -> None:
    speeds = {4: 1.0, 8: 9.0, 16: 7.0, 32: 8.0}
    (sweep,) = sweeps([made(gflops=speed, config={"block_m": block}) for block, speed in speeds.items()])
    assert fastest(sweep, 3) == ((("block_m", 8),), (("block_m", 16),), (("block_m", 32),))
    many = [made(gflops=float(block), config={"block_m": block}) for block in range(1, 31)]
    assert "naive, float32, the 24 fastest of 30 configs; GFLOPS, the fastest framed" in drawn(many, "heatmap")
    assert "naive, float32, the 16 fastest of 30 configs" in drawn(many, "block-sizes")


def test_no_two_curves_look_alike() -> None:
    known = looks([*((name, name) for name in KERNEL_NAMES), ("ours", "naive"), ("theirs", None)])
    styles = map(style_of, known.values())
    kinds = {(style["color"], style["marker"], str(style["linestyle"])) for style in styles}
    assert len(kinds) == len(known) == len(KERNEL_NAMES) + 2
    assert looks([("naive", "naive")])["naive"] == known["naive"]


def test_every_plot_has_a_caption_and_a_name_for_a_path() -> None:
    for name, plot in PLOTS.items():
        assert re.fullmatch(r"[a-z-]+", name) and plot.caption.endswith(".")


def test_what_failed_is_not_drawn() -> None:
    assert available_of([made(gflops=100.0, status="implausible"), made(status="oom")]) == ()
    assert available_of([made(gflops=10.0, device=Device(device_class="cpu"))]) == ("gflops", "time")


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (66908.16, "66\u202f908"), (0.05, "0.05"), (2.1e-7, "2.1e-07"), (12.3456, "12.35")]
)
def test_numbers_to_read(value: float, text: str) -> None:
    assert number(value) == text


def test_ticks_keep_their_distance_and_powers_of_two_go_first() -> None:
    assert spaced([1023, 1024, 1025, 2047, 2048], 1.28) == [1024, 2048]
    assert spaced([100, 110, 200], 1.28) == [110, 200]


def test_coordinates_in_svg_keep_two_decimals() -> None:
    path = b'<path d="M 39.724615 516.897811 \nL -0.001 316.995 \nz\n"/>'
    assert compact(path) == b'<path d="M39.72 516.9L0 317z"/>'


def test_text_and_styles_stay() -> None:
    other = b'<text style="font-size: 8.512345px">0.123456 ms, d="1.98765" M 1 \nL 2</text>'
    assert compact(other.replace(b"<text", b'<text x="1.23456"')).replace(b' x="1.23"', b"") == other


def test_a_style_is_a_rule_and_what_is_referred_to_has_a_short_name() -> None:
    sheet = b'<defs><style type="text/css">*{stroke-linecap: butt}</style></defs>'
    mark = b'<path id="m0123456789" style="fill: red"/><use xlink:href="#m0123456789" style="fill: blue"/>'
    clipped = b'<clipPath id="pabcdef0123"/><path clip-path="url(#pabcdef0123)" style="fill: red"/>m0123456789'
    assert compact(sheet + mark + clipped) == (
        b'<defs><style type="text/css">*{stroke-linecap: butt}\n.a{fill: red}\n.b{fill: blue}\n</style></defs>'
        b'<path id="a" class="a"/><use xlink:href="#a" class="b"/>'
        b'<clipPath id="b"/><path clip-path="url(#b)" class="a"/>m0123456789'
    )


def test_a_group_stays_where_it_says_more_than_a_name() -> None:
    nested = b'<g id="axes_1"><g clip-path="url(#a)"><g><path/></g></g><g id="line_2"/></g>'
    assert compact(nested) == b'<g clip-path="url(#a)"><path/></g>'


def test_every_class_and_reference_of_a_plot_is_defined_in_it() -> None:
    svg = draw_of(report("000"), "gflops").decode()
    rules, ids = (re.findall(pattern, svg) for pattern in (r"(?m)^\.(\w+)\{", r'\bid="(\w+)"'))
    assert len(rules) == len(set(rules)) > 26 and len(ids) == len(set(ids))
    assert set(re.findall(r'class="(\w+)"', svg)) == set(rules)
    assert set(re.findall(r"#(\w+)[\")]", svg)) == set(ids)
    assert "<metadata>" not in svg and 'style="' not in svg


def test_indentation_and_rotations_by_nothing_go() -> None:
    turned = b'<text transform="rotate(-90 13.5 20.25)">up</text>'
    assert compact(b'<a>\n   <text x="1" transform="rotate(-0 1.23456 2)">a</text>\n  ' + turned + b"\n</a>") == (
        b'<a>\n<text x="1">a</text>\n' + turned + b"\n</a>"
    )
    assert not re.search(rb"\d\.\d{3}", compact(b'<use x="12.3456" y="0.98765"/>'))
