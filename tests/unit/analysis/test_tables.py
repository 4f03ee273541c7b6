"""Tidy tables: the same columns always, units in names, values as the results have them."""

from __future__ import annotations

import csv
import io
import sys

import pytest

from analysis.results import Results, collect
from analysis.tables import COLUMNS, rows, to_csv, to_parquet
from jobs.errors import ExtraMissing
from tests.unit.analysis.findings import DOCUMENT, job, kept, record, two_rounds


@pytest.fixture(scope="module")
def results() -> Results:
    return collect(job(), kept(two_rounds()))


def test_csv_has_a_row_for_each_case(results: Results) -> None:
    found = list(csv.DictReader(io.StringIO(to_csv(results))))
    assert len(found) == len(results.cases)
    for row, case in zip(found, results.cases, strict=True):
        assert (row["kernel"], int(row["n"]), float(row["gflops"])) == (case.kernel, case.n, case.gflops)
        assert row["is_baseline"] == str(case.case == case.baseline).lower()
        assert row["verified"] == "true" and row["energy_mj"] == ""
        assert {name: row[name] for name in case.config} == {name: str(value) for name, value in case.config.items()}
        assert float(row["h2d_ms"]) == (case.copies and case.copies.h2d_ms)


def test_columns_are_the_same_whatever_was_measured(results: Results) -> None:
    reason = 'It needs 3 bytes, "more" than\nthere are.'
    skipped = record(DOCUMENT["records"][0], status="skipped", reason=reason, kernel_ms=None, gflops=None)
    small = collect(job(), kept([skipped]))
    assert to_csv(small).splitlines()[0] == to_csv(results).splitlines()[0] == ",".join(COLUMNS)
    (row,) = csv.DictReader(io.StringIO(to_csv(small), newline=""))
    assert (row["status"], row["reason"], row["gflops"]) == ("skipped", reason, "")
    assert to_csv(collect(job(), {})) == ",".join(COLUMNS) + "\r\n"


@pytest.mark.parametrize("begins", ["=", "+", "-", "@", "\t", "\r"])
def test_no_text_is_a_formula_of_a_spreadsheet(begins: str) -> None:
    """A file of results that was imported may hold any reason, and any name of a case."""
    evil = f'{begins}HYPERLINK("http://evil","open")'
    wrong = record(DOCUMENT["records"][0], status="skipped", reason=evil, case=evil, kernel_ms=None, gflops=None)
    (row,) = csv.DictReader(io.StringIO(to_csv(collect(job(), kept([wrong]))), newline=""))
    assert (row["reason"], row["case"], row["status"]) == (f"'{evil}", f"'{evil}", "skipped")


def test_every_value_is_of_its_columns_kind(results: Results) -> None:
    kinds: dict[str, type | tuple[type, ...]] = {"text": str, "integer": int, "number": (int, float), "truth": bool}
    for row in rows(results):
        for name, value in row.items():
            assert value is None or isinstance(value, kinds[COLUMNS[name][0]]), name


def test_parquet_without_pyarrow_names_the_extra(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ExtraMissing, match="install the extra `parquet`"):
        to_parquet(results)


def test_parquet_has_the_same_rows_typed(results: Results) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(to_parquet(results)))
    assert table.column_names == list(COLUMNS) and table.to_pylist() == rows(results)
    empty = pq.read_table(io.BytesIO(to_parquet(collect(job(), {}))))
    assert empty.schema.equals(table.schema) and empty.num_rows == 0
