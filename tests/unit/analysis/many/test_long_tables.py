"""Long tables on paper: lines of text with every cell in its column, a heading on each page, nothing beyond it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.report.document import Table, Text
from analysis.report.forms.html import to_html
from analysis.report.forms.lines import LINE_LETTERS, LONG_ROWS, is_long, to_lines
from analysis.report.forms.pdf import to_pdf
from analysis.report.subject import of_results
from analysis.report.tables import MAX_ROWS, failures
from analysis.results import collect
from tests.unit.analysis.findings import DOCUMENT, job, kept, record
from tests.unit.analysis.test_report_pdf import MARGIN_PT, text_of

HEAD = ("kernel and size", "GFLOPS", "share of the baseline")
FIGURES = Table(
    "Speeds",
    HEAD,
    tuple((f"naive, {n}", f"{n}\u202f{n % 1000:03}", f"{n / 7:.1f} (–)") for n in range(1000, 1000 + 2 * LONG_ROWS)),
)
WORDS = Table(
    "Causes <&>",
    ("kernel", "why"),
    tuple((f"tiled{n}", f"it reads <{n}> & {'more words ' * 12}the end") for n in range(LONG_ROWS + 1)),
    words=True,
)

WRONG: dict[str, Any] = {"status": "incorrect", "kernel_ms": None, "gflops": None}


def lines_of(table: Table) -> list[str]:
    """The rows' lines, without markup."""
    body = to_lines(table).partition("<tbody>")[2]
    return [line for found in re.findall(r"<pre>(.*?)</pre>", body, re.DOTALL) for line in found.split("\n")]


def test_each_row_is_a_line_with_its_cells_in_columns() -> None:
    lines = lines_of(FIGURES)
    assert [tuple(re.split(r"  +", line)) for line in lines] == [
        tuple(cell.replace("\u202f", "\xa0") for cell in row) for row in FIGURES.rows
    ]
    assert len({len(line) for line in lines}) == 1, "figures end in the same column"


def test_long_words_are_wrapped_within_their_column_and_none_is_lost() -> None:
    lines = lines_of(WORDS)
    assert len(lines) > len(WORDS.rows) and max(map(len, lines)) <= LINE_LETTERS + len("&lt;&gt;&amp;")
    assert " ".join(" ".join(lines).split()) == " ".join(
        f"{name} {why}".replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for name, why in WORDS.rows
    )


def test_paper_takes_less_than_an_element_a_row() -> None:
    cheap, dear = (to_html("T", "", [FIGURES], {}, is_paper=is_paper) for is_paper in (True, False))
    assert cheap.count("</") < len(FIGURES.rows) < dear.count("</td>")


@pytest.mark.parametrize("cells", [("短い", "1"), ("a\u0301", "1"), ("a\nb", "1"), ("\u200f", "1")])
def test_letters_of_other_widths_stay_in_a_table(cells: tuple[str, str]) -> None:
    assert not is_long(Table("T", ("a", "b"), (cells,) * (LONG_ROWS + 1)))


def test_a_table_that_is_not_long_stays_one() -> None:
    assert not is_long(Table("T", HEAD, FIGURES.rows[:LONG_ROWS])) and is_long(FIGURES)


def test_every_page_has_the_heading_and_no_line_leaves_it(tmp_path: Path) -> None:
    path = tmp_path / "long.pdf"
    path.write_bytes(to_pdf(to_html("T", "", [FIGURES, WORDS], {}, is_paper=True)))
    pages = text_of(path, "-layout").split("\f")[:-1]
    assert len(pages) > 3 and all("share of" in page or "why" in page for page in pages)
    words = " ".join("\f".join(pages).replace("\xa0", " ").split())
    assert all(" ".join(row).replace("\u202f", " ") in words for row in FIGURES.rows)
    box = text_of(path, "-bbox")
    (width,) = set(map(float, re.findall(r'<page width="([\d.]+)"', box)))
    assert max(map(float, re.findall(r'xMax="([\d.]+)"', box))) <= width - MARGIN_PT + 1


def test_a_note_is_below_the_table_on_paper_too() -> None:
    """It says what the mark of a disturbed cell means."""
    noted = replace(FIGURES, note="† It <was> disturbed.")
    assert '<p class="note">† It &lt;was&gt; disturbed.</p>' in to_lines(noted)
    assert "note" not in to_lines(FIGURES)


@pytest.mark.parametrize("kernels", [9, 29, 60])
def test_figures_of_a_table_that_is_too_wide_are_not_broken(kernels: int) -> None:
    """It is several tables, each with the sizes: a figure in several lines would be read as several figures."""
    names = tuple(f"kernel_with_a_name_{number}" for number in range(kernels))
    rows = tuple((str(n), *(f"{n}\u202f{100 + number}" for number in range(kernels))) for n in range(1000, 1101))
    drawn = to_lines(Table("Speeds", ("N", *names), rows))
    lines = [line for found in re.findall(r"<pre>(.*?)</pre>", drawn, re.DOTALL) for line in found.split("\n")]
    assert max(map(len, lines)) <= LINE_LETTERS
    of_1042 = [re.split(r"  +", line)[1:] for line in lines if line.startswith("1042 ")]
    assert [figure for line in of_1042 for figure in line] == [f"1042\xa0{100 + number}" for number in range(kernels)]
    assert drawn.count("<caption>Speeds") == len(of_1042) == {9: 1, 29: 4, 60: 7}[kernels]


@pytest.mark.parametrize("reasons", [MAX_ROWS, MAX_ROWS + 2])
def test_failures_that_are_left_out_are_counted(reasons: int) -> None:
    row = DOCUMENT["records"][0]
    wrong = [record(row, case=f"{number}", **WRONG | {"reason": f"{number}"}) for number in range(reasons)]
    blocks = failures(of_results(collect(job(), kept(wrong))).pairs)
    told = [block.text for block in blocks if isinstance(block, Text)]
    assert told == (["2 more are in the CSV file."] if reasons > MAX_ROWS else [])
