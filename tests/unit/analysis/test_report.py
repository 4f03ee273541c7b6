"""Reports: every section with its figures, all text escaped, nothing to fetch, whole without matplotlib."""

from __future__ import annotations

import re
import shlex
import sys
from html.parser import HTMLParser
from typing import Any

import pytest

from analysis.report.forms.markdown import plain
from analysis.report.options import ReportOptions
from analysis.report.render import html_report, markdown_report
from analysis.report.subject import of_results
from analysis.results import Results, collect
from jobs.benchmarks.records import BenchmarkSummary, Ceiling, Checked, CopyFigures
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.models import Progress
from jobs.states import JobState
from tests.unit.analysis.findings import DOCUMENT, job, kept, record, spec, two_rounds

SECTIONS = [
    "Summary",
    "Method",
    "Results",
    "Roofline",
    "Copies against kernel",
    "Findings",
    "Correctness",
    "Conclusion",
    "Limitations",
    "How to reproduce it",
    "Appendix",
]
HEADINGS = r"<h2 id=\"[a-z-]+\">(.+)</h2>"


def markdown_of(results: Results, options: ReportOptions = ReportOptions()) -> str:  # noqa: B008
    return markdown_report(of_results(results), options, plots_at=f"/v1/benchmarks/{results.job.id}/plots")


def html_of(results: Results, options: ReportOptions = ReportOptions()) -> str:  # noqa: B008
    return html_report(of_results(results), options)


class Page(HTMLParser):
    """Elements with their attributes, and text; raises where a tag is closed that is not open."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def results() -> Results:
    return collect(job(), kept(two_rounds()))


@pytest.fixture(scope="module")
def html(results: Results) -> str:
    return html_of(results)


def sections(markdown: str) -> list[str]:
    return re.findall(r"^## (.+)$", markdown, re.MULTILINE)


def table(markdown: str, caption: str) -> list[list[str]]:
    """The rows of all tables of that caption, whatever its number; of one that is cut by columns, the first part."""
    found = re.search(rf"^Table \d+\. {re.escape(caption)}[^\n]*:$", markdown, re.MULTILINE)
    assert found, caption
    after = markdown[found.end() :].strip().split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in after.splitlines()]


def test_the_report_has_every_section(results: Results, html: str) -> None:
    assert sections(markdown_of(results)) == SECTIONS
    assert re.findall(HEADINGS, html) == SECTIONS


def test_the_page_is_whole_and_fetches_nothing(html: str) -> None:
    page = Page(html)
    assert not {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "object", "embed", "base"}
    ids = [attributes["id"] for _, attributes in page.elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    targets = re.findall(r'href="([^"]+)"', html) + re.findall(r"url\(([^)]+)\)", html)
    assert {target[0] for target in targets} == {"#"}
    assert {target[1:] for target in targets} <= set(ids)
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert not re.search(r"@import|<style[^>]*>\s*\*", html)


def test_plots_are_in_the_page_with_words_for_them(html: str) -> None:
    plots = [attributes for tag, attributes in Page(html).elements if tag == "svg"]
    assert [plot["id"] for plot in plots] == [
        f"plot-{name}" for name in ("who-wins", "beside-library", "roofline", "breakdown")
    ]
    assert all(plot["role"] == "img" and plot["aria-label"] for plot in plots)
    sheets = re.findall(r'<style type="text/css">(.*?)\n</style>', html, re.DOTALL)
    assert len(sheets) == len(plots)
    for plot, sheet in zip(plots, sheets, strict=True):
        assert all(rule.startswith(f"#{plot['id']} ") for rule in sheet.splitlines())


def test_tables_hold_the_results(results: Results) -> None:
    text = markdown_of(results)
    head, _, *rows = table(text, "Speed on float32, GFLOPS")
    by_place = {(one.kernel, str(one.n)): one for one in results.cases}
    assert head == ["N", "naive", "pipelined", "cublas", r"cublas\_tf32"] and len(rows) == 9
    for size, *cells in rows:
        for kernel, cell in zip(("naive", "pipelined", "cublas", "cublas_tf32"), cells, strict=True):
            gflops = by_place[kernel, size].gflops or 0
            assert float(cell.replace("\u202f", "")) == pytest.approx(gflops, rel=1e-3)
    alone, whole = (
        table(text, f"Speed-up over naive on float32, {how}") for how in ("kernel alone", "with copies in and out")
    )
    assert alone[2][1] == whole[2][1] == "1.00×" and float(alone[2][2][:-1]) > float(whole[2][2][:-1]) > 1


def test_the_roofline_spells_out_its_arithmetic(results: Results) -> None:
    line = (
        "float32, theoretical: 66 908 GFLOPS / 4 814 GB/s = 13.9 FLOP a byte, "
        "that is 55.59 operations for each word of 4 bytes."
    )
    assert line in markdown_of(results).replace("\u202f", " ")


def test_dips_and_break_even_are_explained(results: Results) -> None:
    text = markdown_of(results)
    rows = [line for line in text.splitlines() if line.startswith("| pipelined, float32 | dip | 1025 | 1024 |")]
    assert len(rows) == 1 and "| 57 % slower |" in rows[0].replace("at least ", "")
    assert re.search(r"cublas, float32: From about \d+ on the kernel takes longer than the copies\.", text)


def test_copies_of_ordinary_memory_stand_beside_those_of_page_locked(results: Results) -> None:
    caption = "The same, from and to ordinary memory, which the driver copies by way of page-locked"
    assert caption not in markdown_of(results)
    ordinary = CopyFigures(h2d_ms=123.0, d2h_ms=45.0, h2d_gb_s=5.0, d2h_gb_s=9.0)
    both = results.model_copy(
        update={"records": tuple(one.model_copy(update={"copies_pageable": ordinary}) for one in results.cases)}
    )
    text = markdown_of(both)
    _, _, *locked = table(text, "Copy in, kernel and copy out, one after the other")
    _, _, *rows = table(text, caption)
    assert [row[0] for row in rows] == [row[0] for row in locked] and len(rows) > 3
    for row, of_locked in zip(rows, locked, strict=True):
        assert (row[1], row[3], row[2]) == ("123", "45", of_locked[2])
        assert float(row[4].replace("\u202f", "")) == pytest.approx(168 + float(row[2].replace("\u202f", "")), rel=1e-3)


def test_the_method_says_what_the_spec_asked() -> None:
    asked = spec(
        timing={"cache": "warm", "rounds": 1, "precision": 0.01},
        data={"distribution": "integers", "seed": 7},
        verify="exact",
        energy={"enabled": True, "window_s": 3},
        fresh_process=True,
        baseline="none",
    )
    text = markdown_of(collect(job(asked), {}))
    for told in (
        "integers from -8 to 8, made on the device from seed 7",
        "exactly: operands are small integers",
        "(warm)",
        "measured in one round, drawn from the same seed, without a baseline",
        "within 1 %",
        "a loop of 3 s",
        "a process of its own",
    ):
        assert told in text.replace("\\", ""), told


def test_the_command_asks_for_the_same_again(results: Results, html: str) -> None:
    command = re.findall(r"```sh\n(.+)\n```", markdown_of(results))[0]
    body = shlex.split(command)[-1]
    assert BenchmarkSpec.model_validate_json(body) == results.spec
    hostile = collect(job(spec(title="it's `$(rm)`")), {})
    command = re.findall(r"\n(curl .+)\n", markdown_of(hostile))[0]
    assert BenchmarkSpec.model_validate_json(shlex.split(command)[-1]).title == "it's `$(rm)`"


HOSTILE = "<script>alert(1)</script> | **bold** [x](http://evil) &amp; `"


def test_text_is_never_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    device = DOCUMENT["device"] | {"name": HOSTILE}
    monkeypatch.setitem(DOCUMENT, "device", device)
    wrong = record(DOCUMENT["records"][0], status="incorrect", reason=HOSTILE, kernel_ms=None, gflops=None)
    summary = BenchmarkSummary(cases=2, measurements=2, warnings=(HOSTILE,))
    hostile = collect(job(spec(title=HOSTILE), benchmark=summary), kept([wrong, record(DOCUMENT["records"][1])]))
    page = html_of(hostile)
    assert "<script" not in page and "&lt;script&gt;" in page
    Page(page)
    text = re.sub(r"```.*?```", "", markdown_of(hostile), flags=re.DOTALL)
    assert not re.search(r"(?<!\\)<|(?<!\\)\*\*bold|(?<!\\)\]\(http", text)
    assert plain(HOSTILE) in text
    rows = [line for line in text.splitlines() if line.startswith("|") and "incorrect" in line]
    assert len(rows) == 1 and len(re.findall(r"(?<!\\)\|", rows[0])) == 5


@pytest.mark.parametrize("text", ["- one", "+ one", "1. one", "1984) one", "---", "===", "2024."])
def test_no_line_begins_a_list_or_a_rule(text: str) -> None:
    written = markdown_of(collect(job(), {}), ReportOptions(text=text))
    assert text not in written.splitlines() and text in written.replace("\\", "")
    assert plain("-1.5") == "-1.5" and plain("1.5 a") == "1.5 a" and plain("–") == "–"


def test_without_matplotlib_the_report_is_whole_but_for_its_plots(
    results: Results, html: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = html_of(results)
    assert "<svg" not in page and "This report has no plots. Plots need matplotlib: install the extra" in page
    assert re.findall(HEADINGS, page) == re.findall(HEADINGS, html)


def test_markdown_links_the_plots_that_there_are(results: Results) -> None:
    links = re.findall(r"!\[.+\]\((.+)\)", markdown_of(results))
    assert links[0] == f"/v1/benchmarks/{results.job.id}/plots/fraction-of-baseline"
    assert [link.rpartition("/")[2] for link in links[1:]] == ["gflops", "roofline", "breakdown"]


def test_what_went_wrong_is_said() -> None:
    rows = DOCUMENT["records"]
    check = Checked(mode="freivalds", passed=False, residual=0.5, threshold=1e-6)
    none: dict[str, Any] = {"kernel_ms": None, "gflops": None, "samples": 0}
    records = [
        record(rows[0], status="incorrect", reason="It is wrong.", after=check, error_vs_float64=0.25, **none),
        record(rows[1], contended=True, power_limited=True, discarded=3, stop_reason="timeout", rel_iqr=0.04),
    ]
    cancelled = job(state=JobState.CANCELLED, benchmark=None, progress=Progress(done=2, total=72), finished_at=None)
    text = markdown_of(collect(cancelled, kept(records, attempts=2)))
    for told in (
        "**Not complete. The job is cancelled, after 2 of 72 steps.",
        "2 cases in 2 rounds, 2 attempts",
        "| incorrect | It is wrong. |",
        "1 case of 2 contended: no conclusion rests on them.",
        "The power cap held the clock down in 1 of 2 cases",
        "3 samples were thrown away",
        "Wrong products were off by up to 2.5e-01.",
    ):
        assert told in text, told


def test_a_report_of_roofs() -> None:
    roofs = (
        Ceiling(name="dram_copy", unit="GB/s", value=4000.0, theoretical=4814.3, note="Copies of 1 GiB."),
        Ceiling(name="tensor_int8", unit="GFLOPS", value=None, reason="No library has it."),
    )
    asked = BenchmarkSpec.model_validate({"kind": "ceilings"})
    summary = BenchmarkSummary(cases=2, measurements=2)
    results = collect(job(asked, benchmark=summary), kept([], ceilings=roofs))
    text = markdown_of(results)
    assert results.complete and text.startswith("# Roofs on NVIDIA H200\n")
    _, _, copy, tensor = table(text, "Roofs of the device")
    assert copy[0].replace("\\", "") == "dram_copy" and copy[4] == "83.1 %" and copy[-1] == "Copies of 1 GiB."
    assert tensor[1] == "–" and tensor[-1] == "No library has it."
    assert sections(text)[:3] == ["Summary", "Method", "Roofs as measured"]


def test_a_report_of_tile_configs_names_the_best_and_why() -> None:
    row, other = (
        next(one for one in DOCUMENT["records"] if (one["kernel"], one["n"]) == ("pipelined", n)) for n in (2048, 512)
    )
    small = row | {"config": other["config"], "kernel_ms": 2 * row["kernel_ms"]}
    text = markdown_of(collect(job(spec(kind="tune")), kept([record(row), record(small)])))
    _, _, best = table(text, "The fastest config of each kernel for each shape")
    assert best[0] == "pipelined, float32, 2048" and best[4] == "2.00×"
    assert "operations for each byte" in best[5]
    assert "/plots/block-sizes" in text and "/plots/heatmap" in text


def test_a_report_of_nothing_yet() -> None:
    nothing = collect(job(state=JobState.QUEUED, benchmark=None, started_at=None, finished_at=None), {})
    Page(html_of(nothing))
    assert "Not complete. The job is queued" in markdown_of(nothing)
