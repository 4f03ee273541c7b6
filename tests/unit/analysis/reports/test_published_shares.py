"""Shares in the report of published results: with what the samples leave open, as in that of the run itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.report.conclusion import conclusion
from analysis.report.document import Items, Table
from analysis.report.options import ReportOptions
from analysis.report.speeds import speeds
from analysis.report.subject import Subject, of_publication
from analysis.report.summary import best_at_each_size, is_ahead, sentences, title
from analysis.report.tables import headline
from kernels.published import PUBLISHED
from kernels.published_records import Publication, PublishedRecord

GRADE = PUBLISHED["h200_grade"]


def made(*intervals: tuple[float, float] | None) -> Publication:
    """A kernel at 0.99 ms and cuBLAS at 1 ms, as published with these intervals."""
    one = next(record for record in GRADE.records if record.kernel == "pipelined" and record.n == 1024)

    def record(kernel: str, ms: float, interval: tuple[float, float] | None) -> PublishedRecord:
        gflops = 2 * 1024**3 / ms / 1e6
        return replace(one, kernel=kernel, label=kernel, config={}, kernel_ms=ms, gflops=gflops, interval_ms=interval)

    ours, library = intervals
    return replace(GRADE, records=(record("pipelined", 0.99, ours), record("cublas", 1.0, library)))


def concluded(subject: Subject) -> str:
    items = (block for block in conclusion(subject, ReportOptions()) if isinstance(block, Items))
    return " ".join(text for block in items for text in block.texts)


@pytest.mark.parametrize(
    ("interval", "is_certain"), [((0.98, 0.995), True), ((0.98, 1.01), False), ((0.90, 0.999), False)]
)
def test_a_published_kernel_is_ahead_only_where_its_samples_leave_no_doubt(
    interval: tuple[float, float], is_certain: bool
) -> None:
    subject = of_publication(made(interval, (0.9985, 1.005)))
    (pair,) = best_at_each_size(subject)
    assert is_ahead(pair) == is_certain
    assert ("Hand-written kernels are faster than the baseline" in concluded(subject)) == is_certain
    ratio = pair[0].fraction_of_baseline
    assert ratio is not None
    assert (ratio.lo, ratio.value, ratio.hi) == pytest.approx((0.9985 / interval[1], 1 / 0.99, 1.005 / interval[0]))


def test_the_table_of_shares_has_the_interval() -> None:
    blocks = speeds(of_publication(made((0.98, 0.99), (1.0, 1.0))).pairs)
    (table,) = (block for block in blocks if isinstance(block, Table))
    assert any("101.0 (101.0–102.0)" in cell for row in table.rows for cell in row)


def test_at_256_the_recorded_run_on_an_h200_leaves_open_who_is_ahead() -> None:
    """There `split_k` has 100.1 % of the speed of cuBLAS, from 97 % to 102 %."""
    subject = of_publication(GRADE)
    (pair,) = (pair for pair in best_at_each_size(subject) if pair[1].n == 256)
    assert pair[0].fraction_of_baseline is not None and pair[0].fraction_of_baseline.value > 1
    assert not is_ahead(pair) and "and is ahead at 1 of 6" in " ".join(sentences(subject))


def test_a_headline_of_libraries_alone_says_so() -> None:
    library = replace(GRADE, records=tuple(one for one in GRADE.records if one.kernel == "cublas"))
    words = headline(of_publication(library).pairs)
    said = "On float32 only libraries have figures that count; the fastest: cublas at"
    assert words is not None and words.startswith(said)


def test_a_quoted_report_is_not_called_clean_and_its_device_is_named_once() -> None:
    subject = of_publication(PUBLISHED["p100_register_blocking"])
    said = list(sentences(subject))
    assert said[-1] == "The source does not say whether anything disturbed its measurements."
    assert "was found for none." in said[-2]
    assert title(subject, ReportOptions()) == "Shared memory tiles and a 4×4 register tile on a P100"
    t4 = of_publication(PUBLISHED["t4_register_tile_2025"])
    assert title(t4, ReportOptions()).endswith(" on a T4, against BLAS and cuBLAS")
    ours = of_publication(GRADE)
    assert title(ours, ReportOptions()) == f"{GRADE.title} on NVIDIA H200" and "are clean" in list(sentences(ours))[-1]
