"""Products that differ in batch or aspect alone are kept apart in reports, plots and tables."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.curves import curves
from analysis.plots.configs import config_grids, config_lines, sweeps
from analysis.plots.device import breakdown_bars
from analysis.report.render import markdown_report
from analysis.report.subject import of_results
from analysis.results import Results, collect
from jobs.benchmarks.cases import Case
from jobs.benchmarks.records import CaseRecord, Checked
from kernels.model.numerics import DTypeName, Problem
from service.dashboard.charts import heatmap, tables
from tests.support.recorded import made
from tests.unit.analysis.findings import DOCUMENT, job, kept, record, spec
from worker.benchmark.summary import record_label

ONE = next(row for row in DOCUMENT["records"] if row["kernel"] == "naive" and row["n"] == 512)


def in_batch(batch: int, gflops: float, dtype: DTypeName = "float32") -> CaseRecord:
    problem = Problem.in_batch(512, 512, 512, dtype, batch)
    ms = problem.flops / (gflops * 1e6)
    case = Case("naive", ONE["config"], problem).id
    return record(ONE, case=case, batch=batch, dtype=dtype, flops=problem.flops, kernel_ms=ms, gflops=gflops)


def results(*records: CaseRecord, **fields: Any) -> Results:
    return collect(job(spec(**fields)), kept(records))


def test_a_report_has_a_row_for_each_batch() -> None:
    shapes = [{"m": 512, "n": 512, "k": 512, "batch": 16}, 512]
    found = results(in_batch(1, 100.0), in_batch(16, 200.0), shapes=shapes)
    assert [one.batch for one in found.records] == [16, 1]  # in the order of the spec
    text = markdown_report(of_results(found))
    assert "| 512 | 100 |" in text and "| 16 of 512 | 200 |" in text
    assert "at 2 sizes from 512 to 16 of 512 on" in text


def test_a_speed_up_with_copies_is_over_the_same_batch() -> None:
    text = markdown_report(of_results(results(in_batch(1, 100.0), in_batch(16, 200.0))))
    assert text.count("1.00×") == text.count("×") - text.count("×512")  # naive over itself, at each


def test_curves_of_batches_have_names_of_their_own() -> None:
    assert [each.label for each in curves([made(gflops=1.0), made(gflops=2.0, batch=4)])] == [
        "naive",
        "naive, batches of 4",
    ]


def test_bars_name_the_batch() -> None:
    split = [made(512, gflops=1.0, kernel_ms=1.0, h2d_ms=1.0, d2h_ms=1.0, batch=batch) for batch in (1, 8)]
    assert [bar.name for bar in breakdown_bars(split).bars] == ["naive, float32, 512", "naive, float32, 8 of 512"]


def test_configs_of_one_size_are_told_apart_by_shape() -> None:
    """16×64×64 and 64×16×64 have as many operations."""
    found = [
        made(gflops=speed, m=m, n=n, k=64, config={"block_m": block})
        for (m, n, block), speed in {(16, 64, 8): 1.0, (16, 64, 16): 2.0, (64, 16, 8): 9.0, (64, 16, 16): 3.0}.items()
    ]
    (sweep,), (grid,), (lines,) = sweeps(found), config_grids(found, 9), config_lines(found)
    assert sweep.sizes == grid.sizes == ("16×64×64", "64×16×64")
    assert [[cell.gflops if cell else None for cell in row] for row in grid.cells] == [[1.0, 9.0], [2.0, 3.0]]
    assert [series.name for series in lines.series] == ["16×64×64", "64×16×64"]
    assert "16×64×64" in heatmap.draw(grid)
    (table,) = tables.tables("heatmap", found)
    assert list(table.rows[0][1:]) == ["1", "9"]


def test_other_shapes_with_other_defaults_are_no_sweep() -> None:
    assert not sweeps([made(gflops=1.0, m=m, n=n, k=64, config={"block_m": m}) for m, n in ((16, 64), (64, 16))])


@pytest.mark.parametrize(("batch", "words"), [(1, "naive float32 512×512×512"), (4, "naive float32 4 of 512×512×512")])
def test_a_warning_names_the_batch(batch: int, words: str) -> None:
    assert record_label(in_batch(batch, 1.0)) == words


@pytest.mark.parametrize(
    ("dtypes", "words"),
    [
        (["float32"], "GFLOPS are 2·m·n·k over"),
        (["complex64"], "GFLOPS are 8·m·n·k real operations over"),
        (["float32", "complex64"], "GFLOPS are 2·m·n·k, or 8·m·n·k of complex numbers, over"),
    ],
)
def test_the_method_says_which_operations_count(dtypes: list[DTypeName], words: str) -> None:
    assert words in markdown_report(of_results(results(*(in_batch(1, 1.0, one) for one in dtypes), dtypes=dtypes)))


def test_the_method_says_where_no_check_could_be_exact() -> None:
    """Sums of integers may need more bits than the type has."""
    exactly, nearly = (Checked(mode=mode, passed=True, residual=0.0) for mode in ("exact", "freivalds"))
    both = [record(ONE, before=exactly), record(ONE, before=nearly, case="other", m=1024)]
    asked: dict[str, Any] = {"data": {"distribution": "integers"}, "verify": "exact"}
    told = "In 1 case the type cannot hold all sums exactly, so these products are checked by Freivalds' check"
    assert told in markdown_report(of_results(results(*both, **asked)))
    for found in (results(both[0], **asked), results(*both)):
        assert "the type cannot hold" not in markdown_report(of_results(found))
