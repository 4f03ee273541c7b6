"""The report on paper: nothing is cut, the same bytes each time, nothing fetched; and the one in docs/."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile

import pytest

from analysis.curves import is_library
from analysis.report.document import Block, Figure, Table
from analysis.report.figures import drawable
from analysis.report.forms.pdf import MISSING, to_pdf
from analysis.report.numbering import PAGE_LETTERS, numbered
from analysis.report.options import ReportOptions
from analysis.report.render import _blocks, html_report, markdown_report, pdf_report, zip_report
from analysis.report.subject import Subject, of_publication
from benchmarks.report import OPTIONS, OUT, subject
from jobs.errors import ExtraMissing
from kernels.published import PUBLISHED

MARGIN_PT = 18 / 25.4 * 72  # of a page
SHORT = ReportOptions(sections=("summary", "limitations"))


def text_of(path: Path, *arguments: str) -> str:
    """By poppler's pdftotext; where it is missing the test is skipped, or fails in continuous integration."""
    if shutil.which("pdftotext") is None:
        assert not os.environ.get("CI"), "pdftotext (poppler-utils) is missing"
        pytest.skip("pdftotext (poppler-utils) is not installed")
    run = subprocess.run(["pdftotext", *arguments, str(path), "-"], capture_output=True, check=True)
    return run.stdout.decode()


def squeezed(text: str) -> str:
    """Without spaces and page numbers: cells break into lines."""
    return re.sub(r"\s+", "", text)


def tables(of: Subject, options: ReportOptions) -> list[Table]:
    blocks: list[Block] = numbered(_blocks(of, options), drawable(of.measurements))
    return [block for block in blocks if isinstance(block, Table)]


@pytest.fixture(scope="module")
def grade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "grade.pdf"
    path.write_bytes(pdf_report(subject(), OPTIONS))
    return path


@pytest.mark.parametrize("which", ["made now", "in docs"])
def test_every_cell_is_on_paper(which: str, grade: Path) -> None:
    path = grade if which == "made now" else OUT
    text = text_of(path, "-layout")
    whole, pages = squeezed(text), text.count("\f")
    shown = tables(subject(), OPTIONS)
    assert len(shown) > 8 and pages <= 12 and path.stat().st_size <= 400_000
    for table in shown:
        assert squeezed(table.caption) in whole or squeezed(table.caption[:60]) in whole, table.caption
    by_word = squeezed(text_of(path, "-raw"))
    cells = {cell for table in shown for row in (table.head, *table.rows) for cell in row}
    assert not [cell for cell in cells if any(squeezed(word) not in by_word for word in cell.split())]


def test_no_word_lies_beyond_the_margins(grade: Path) -> None:
    found = text_of(grade, "-bbox")
    (width,) = set(map(float, re.findall(r'<page width="([\d.]+)"', found)))
    ends = [(float(lo), float(hi)) for lo, hi in re.findall(r'<word xMin="([\d.]+)" .*?xMax="([\d.]+)"', found)]
    assert len(ends) > 1000
    assert min(lo for lo, _ in ends) >= MARGIN_PT - 1 and max(hi for _, hi in ends) <= width - MARGIN_PT + 1


def test_tables_and_figures_are_numbered_and_fit() -> None:
    blocks = numbered(_blocks(subject(), OPTIONS), drawable(subject().measurements))
    for kind, word in ((Table, "Table"), (Figure, "Figure")):
        numbers = [int(found[1]) for block in blocks if isinstance(block, kind)
                   if (found := re.match(rf"{word} (\d+)\. ", block.caption))]  # fmt: skip
        assert numbers[0] == 1 and all(after - before in (0, 1) for before, after in pairwise(numbers))
    for table in tables(subject(), OPTIONS):
        if not table.words:
            widths = [max(map(len, cells)) for cells in zip(*table.rows, strict=True)]
            assert sum(widths) + 2 * len(widths) <= PAGE_LETTERS


def test_a_wide_table_is_cut_by_columns_and_loses_no_cell() -> None:
    head = ("kernel", *(f"column{number}" for number in range(23)))
    rows = tuple((f"row{row}", *(f"{row}:{column}" * 3 for column in range(23))) for row in range(4))
    parts = [block for block in numbered([Table("Wide", head, rows)], ()) if isinstance(block, Table)]
    assert len(parts) > 2 and {part.head[0] for part in parts} == {"kernel"}
    assert [name for part in parts for name in part.head[1:]] == list(head[1:])
    for place, row in enumerate(rows):
        assert tuple(cell for part in parts for cell in part.rows[place][1:]) == row[1:]
    assert [part.caption for part in parts][-1].endswith(f"part {len(parts)} of {len(parts)}")


def test_the_same_report_gives_the_same_bytes() -> None:
    assert pdf_report(subject(), SHORT) == pdf_report(subject(), SHORT)
    assert zip_report(subject(), SHORT) == zip_report(subject(), SHORT)


def test_the_zip_has_every_picture_that_its_markdown_shows() -> None:
    with ZipFile(BytesIO(zip_report(subject(), OPTIONS))) as bundle:
        links = re.findall(r"^!\[.+\]\((.+)\)$", bundle.read("report.md").decode(), re.MULTILINE)
        assert links and sorted(bundle.namelist()) == sorted(["report.md", *links])
        assert all(bundle.read(link).startswith(b"<?xml") for link in links)


def test_a_page_fetches_nothing_but_what_is_in_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = tmp_path / "secret.css"
    secret.write_text("p::before { content: 'REACHED' }")
    links = "".join(f'<link rel="stylesheet" href="{url}">' for url in (secret.as_uri(), "http://127.0.0.1:9/x.css"))
    inside = '<link rel="stylesheet" href="data:text/css,p::after{content:%27inside%27}">'
    path = tmp_path / "page.pdf"
    path.write_bytes(to_pdf(f"<html><head>{links}{inside}</head><body><p>text</p></body></html>"))
    assert caplog.text.count("disallowed protocol") == 2
    assert "inside" in (text := text_of(path)) and "REACHED" not in text


def test_without_weasyprint_it_is_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    with pytest.raises(ExtraMissing, match="install the extra `pdf`") as raised:
        pdf_report(subject(), SHORT)
    assert raised.value.detail == MISSING


def test_own_words_stand_where_they_belong_and_stay_words() -> None:
    options = ReportOptions(
        title="<b>Mine</b>",
        author="A. Student",
        question="Why [[who-wins]]?",
        text="First <i>paragraph</i>,\nstill the first.\n\nSecond [[who-wins]].",
        conclusion="I conclude & say so.",
    )
    page = html_report(subject(), options)
    assert "<h1>&lt;b&gt;Mine&lt;/b&gt;</h1>" in page and '<meta name="author" content="A. Student">' in page
    assert "<p>First &lt;i&gt;paragraph&lt;/i&gt;, still the first.</p>\n<p>Second [[who-wins]].</p>" in page
    assert (
        page.index('id="section-conclusion"')
        < page.index("I conclude &amp; say so.")
        < page.index("<li>Hand-written kernels")
    )
    assert "<dd>Why [[who-wins]]?</dd>" in page


def test_sections_that_are_left_out_are_left_out() -> None:
    text = markdown_report(subject(), SHORT)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Summary", "Limitations"]


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_every_published_run_has_a_report(name: str) -> None:
    text = markdown_report(of_publication(PUBLISHED[name]))
    assert "## Summary" in text and "## Results" in text and "## How to reproduce it" in text
    types = {(record.dtype, record.kernel) for record in PUBLISHED[name].records if is_library(record.kernel)}
    sentences = re.findall(r"[^.]\. (?=[A-Z])", text.split("## Summary")[1].split("##")[0])
    assert len(sentences) <= max(8, 4 + len(types)), "one for each type of a run over many"
