"""The library at its best: tuned, or on operands padded with zeros, wherever a run has measured that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from analysis.answers.answer import Answer, answers
from analysis.comparison.shares import shared_products
from analysis.condition import of_kind
from analysis.library import Library, baseline_fractions, lines_at_their_best, sizes_below_its_best
from analysis.measurement import Measurement
from analysis.plots.beside import beside
from analysis.plots.winners import winners
from analysis.report.conclusion import conclusion
from analysis.report.document import Items
from analysis.report.findings import limitations
from analysis.report.options import ReportOptions
from analysis.report.speeds import speeds
from analysis.report.subject import of_publication, of_results
from analysis.report.summary import best_at_each_size, is_ahead
from analysis.result_models import Ratio
from kernels.published import PUBLISHED
from kernels.selection.tuned import BestResult
from tests.support.kernels.tuned import entry, row
from tests.support.recorded import made, recorded_results

USEFUL = (1025 / 1088) ** 3  # of the operations at 1088


def at(kernel: str, gflops: float, n: int = 1025, **fields: Any) -> Measurement:
    return made(n, gflops=gflops, kernel=kernel, label=kernel, accuracy="fp32", **fields)


OWN, LYING, PADDED, TUNED = at("pipelined", 60.0), at("cublas", 20.0), at("cublas", 100.0, 1088), at("cublas_tuned", 80)
RUN = [OWN, LYING, PADDED]


def only(*found: Measurement) -> Answer:
    (answer,) = answers(found)
    return answer


def test_padded_operands_count_for_their_useful_operations() -> None:
    line = Library(RUN).best(OWN)
    assert line is not None and line.measured is PADDED
    assert (line.name, line.padded_to) == ("cublas, padded to 1088", "1088")
    assert line.same.gflops == pytest.approx(100 * USEFUL) and line.same.n == 1025
    assert baseline_fractions(RUN) == pytest.approx((0.6 / USEFUL, 0.2 / USEFUL, 1.0))


def test_the_fastest_way_counts() -> None:
    tuned = [*RUN, replace(TUNED, gflops=95.0)]
    assert (line := Library(tuned).best(OWN)) is not None and line.name == "cublas_tuned"
    slow = [OWN, replace(LYING, gflops=99.0), PADDED]
    assert (line := Library(slow).best(OWN)) is not None and line.name == "cublas"


def test_only_the_next_multiple_of_the_same_arithmetic_counts() -> None:
    others = [at("cublas", 900.0, 1152), at("cublas", 900.0, 1024), replace(at("cublas", 900.0, 1088), accuracy="tf32")]
    assert baseline_fractions([OWN, LYING, *others])[0] == 3.0
    assert Library(others).best(OWN) is None


def test_a_disturbed_line_does_not_count_while_there_is_a_clean_one() -> None:
    run = [OWN, LYING, replace(PADDED, condition=of_kind("contended"))]
    assert baseline_fractions(run)[0] == 3.0


def test_the_answer_is_held_against_the_best_line_and_says_so() -> None:
    answer = only(*RUN)
    assert (answer.label, answer.library_name) == ("pipelined", "cublas, padded to 1088")
    assert answer.fraction_of_library == pytest.approx(0.6 / USEFUL)
    assert "71.8 % of cublas, padded to 1088" in answer.summary
    assert "as they lie" not in answer.trust
    tuned = only(OWN, LYING, TUNED)
    assert (tuned.library_name, tuned.fraction_of_library) == ("cublas_tuned", 0.75)


def test_the_answer_says_where_the_library_may_do_better() -> None:
    """Three times as fast as cuBLAS, but only on operands as they lie."""
    answer = only(OWN, LYING)
    assert answer.fraction_of_library == 3.0
    assert "cublas took the operands as they lie" in answer.trust
    assert answer.next_step.startswith("Measure cublas_tuned beside it")
    aligned = only(at("pipelined", 60.0, 1024), at("cublas", 20.0, 1024))
    assert "as they lie" not in aligned.trust


def test_charts_are_held_against_the_best_line() -> None:
    (product,) = [each for each in shared_products(RUN) if each.size == "1025"]
    assert product.line.name == "cublas, padded to 1088"
    assert [share.value for share in product.shares] == pytest.approx([0.6 / USEFUL, 0.2 / USEFUL])
    (field,) = winners(RUN)
    assert [cell and round(cell.percent) for cell in field.cells[0]] == [72]
    (bars,) = beside([*RUN, at("pipelined", 1.0, 1088)])
    assert [round(library.gflops or 0) for _, library in bars.pairs] == [84, 100]


def test_what_a_report_says_of_it() -> None:
    assert [(size, line.name) for size, line in lines_at_their_best(RUN).items()] == [
        ("1025", "cublas, padded to 1088")
    ]
    assert lines_at_their_best([OWN, LYING]) == {}
    assert sizes_below_its_best([OWN, LYING]) == ["1025"]
    assert sizes_below_its_best(RUN) == sizes_below_its_best([OWN, TUNED, LYING]) == []


def test_the_recorded_report_is_held_against_padded_operands() -> None:
    """`grade` has 2047 and 2048: at 2047 the library is fastest on operands padded to 2048."""
    subject = of_publication(PUBLISHED["h200_grade"])
    text = "\n".join(map(str, [*speeds(subject.pairs), *limitations(subject)]))
    assert "at 2047 cublas on operands padded with zeros to 2048" in text
    assert "At 1025 the library took the operands as they lie" in text


def test_the_best_results_of_a_kernel_are_held_against_a_tuned_library() -> None:
    """Nearly three times cuBLAS as it lies is less than cuBLAS tuned."""
    own = row("hopper_fp16", 773.0, fraction=2.9)
    ragged = entry(1025, rows=[row("cublas_tuned", 788.0, fraction=2.95), own, row("cublas", 267.0)], baseline="cublas")
    best = BestResult("Test GPU", ragged, own)
    assert best.library and best.library.kernel == "cublas_tuned"
    assert best.fraction_of_library == pytest.approx(773 / 788)
    alone = BestResult("Test GPU", entry(1025, rows=[own, row("cublas", 267.0)], baseline="cublas"), own)
    assert alone.fraction_of_library == 2.9


@pytest.mark.parametrize(
    ("value", "lo", "hi", "group"),
    [
        (1.003, 0.99, 1.01, "within 5 % of it"),  # a coin's toss, not a win
        (1.02, 1.01, 1.03, "faster than the baseline"),
        (0.94, 0.9, 1.01, "as fast by what the samples tell"),
        (0.94, 0.93, 0.945, "ahead by more than 5 %"),
        (0.96, 0.955, 0.965, "within 5 % of it"),
    ],
)
def test_a_kernel_is_ahead_only_beyond_what_the_samples_leave_open(
    value: float, lo: float, hi: float, group: str
) -> None:
    results = recorded_results("grade")
    best = next(pair[0] for pair in best_at_each_size(of_results(results)) if pair[0].n == 2048)
    changed = best.model_copy(update={"fraction_of_baseline": Ratio(value=value, lo=lo, hi=hi)})
    records = tuple(changed if case is best else case for case in results.records)
    subject = of_results(results.model_copy(update={"records": records}))
    (items,) = (block for block in conclusion(subject, ReportOptions()) if isinstance(block, Items))
    (held,) = (text for text in items.texts if "2048 (" in text)
    assert group in held
    before, after = (sum(map(is_ahead, best_at_each_size(of))) for of in (of_results(results), subject))
    assert after - before == (lo > 1)
