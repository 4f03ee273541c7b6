"""From recorded results to the tables that `auto` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recorded import files
from benchmarks.tuned_table import RESULTS, documents, library_for, tables, text
from kernels.model.numerics import AccuracyName, DTypeName
from kernels.selection.ranking import error_ratio
from kernels.selection.tuned import DIRECTORY, TABLES, Entry, RankedRow, TunedTable, file_name, read
from kernels.text_files import read_text, write_text

DEVICE: dict[str, Any] = {
    "name": "Test GPU",
    "device_class": "gpu",
    "compute_capability": [9, 0],
    "multiprocessors": 132,
    "versions": {"driver": "1.0"},
}
JOB = {"created_at": "2026-02-01T00:00:00Z", "finished_at": "2026-02-02T00:00:00Z"}


def result(kernel: str, *round_ms: float | None, n: int = 512, **fields: Any) -> dict[str, Any]:
    """As a benchmark's results have one: the rounds that there were, and their pooled time."""
    rounds = [{"round": number, "kernel_ms": ms} for number, ms in enumerate(round_ms) if ms is not None]
    shape = {"m": n, "n": n, "k": n, "batch": 1}
    given = {"kernel": kernel, "dtype": "float32", **shape, "config": {}, "kernel_ms": 0.123, "rounds": rounds}
    return given | {"status": "ok", "cache": "cold", "contended": False, "throttled": False} | fields


def results(
    *records: dict[str, Any], distribution: str = "normal", job: Mapping[str, str] = JOB, **data: str
) -> dict[str, Any]:
    spec = {"timing": {"rounds": 2}, "data": {"distribution": distribution} | data}
    return {"job": job, "environment": {}, "spec": spec, "device": DEVICE, "records": list(records)}


def made(*given: dict[str, Any]) -> TunedTable:
    (table,) = tables((f"{number}.json", document) for number, document in enumerate(given))
    return table


def only(*given: dict[str, Any]) -> Entry:
    (entry,) = made(*given).entries
    return entry


def ranking(entry: Entry) -> list[tuple[str, float, float | None]]:
    return [(row.kernel, row.gflops, row.fraction_of_baseline) for row in entry.ranking]


def test_a_recorded_run_is_ranked_beside_its_library() -> None:
    ms = 2 * 512**3 / 1e6  # at one GFLOPS
    entry = only(results(result("naive", ms / 50), result("pipelined", ms / 125), result("cublas", ms / 100)))
    assert (entry.dtype, entry.accuracy, entry.shape, entry.baseline) == (
        "float32",
        "fp32",
        (512, 512, 512, 1),
        "cublas",
    )
    assert ranking(entry) == [("pipelined", 125.0, 1.25), ("cublas", 100.0, 1.0), ("naive", 50.0, 0.5)]


def test_classes_are_held_against_the_library_of_their_own() -> None:
    found = made(results(result("cublas", 4.0), result("cublas_tf32", 1.0), result("naive", 8.0))).entries
    assert [(one.accuracy, one.baseline) for one in found] == [("fp32", "cublas"), ("tf32", "cublas_tf32")]
    assert [row.fraction_of_baseline for one in found for row in one.ranking] == [1.0, 0.5, 1.0]


def test_rounds_are_paired_and_heats_left_out() -> None:
    """In the second round the device was at half its speed; what only ran in heats was not timed in full."""
    entry = only(
        results(
            result("cublas", 1.0, 2.0),
            result("vectorized", 2.0, 4.0, 0.1, config={"tile": 1}),
            result("vectorized", None, None, 0.2, config={"tile": 2}),
        )
    )
    assert [(row.kernel, row.config, row.fraction_of_baseline) for row in entry.ranking] == [
        ("cublas", {}, 1.0),
        ("vectorized", {"tile": 1}, 0.5),
    ]
    assert entry.ranking[1].gflops == round(2 * 512**3 / 3.0e6, 1)


def test_a_kernel_is_ranked_by_its_best_config() -> None:
    tried = (result("shared_tiled", ms, config={"tile": tile}) for tile, ms in ((8, 3.0), (16, 2.0)))
    entry = only(results(result("cublas", 4.0), *tried))
    assert [row.config for row in entry.ranking] == [{"tile": 16}, {}]


def test_where_the_library_s_own_time_does_not_count_nothing_does() -> None:
    """But where the library does not multiply the type, others are the best of themselves."""
    naive = result("naive", 1.0)
    assert made(results(result("cublas", 1.0, throttled=True), naive)).entries == ()
    entry = only(results(naive | {"dtype": "int32"}))
    assert (entry.baseline, entry.ranking[0].fraction_of_baseline) == (None, None)


@pytest.mark.parametrize(
    "spoilt",
    [
        {"status": "incorrect"},
        {"status": "implausible"},
        {"cache": "warm"},
        {"contended": True},
        {"throttled": True},
        {"kernel": "no_longer_there"},
    ],
)
def test_what_does_not_count(spoilt: dict[str, Any]) -> None:
    entry = only(results(result("cublas", 1.0, 1.0), result("naive", 0.5, 0.5) | spoilt))
    assert [row.kernel for row in entry.ranking] == ["cublas"]


@pytest.mark.parametrize(("own", "counts"), [(1e-7, True), (2e-7, True), (3e-7, False), (None, False)])
def test_a_kernel_made_of_another_types_products_counts_where_it_is_as_exact_as_the_library(
    own: float | None, counts: bool
) -> None:
    library = result("cublas", 1.0, 1.0, case="library", error_vs_float64=2e-7)
    emulated = result("fp32_emulated", 0.5, 0.5, case="ours", baseline="library", error_vs_float64=own)
    entry = only(results(library, emulated))
    assert [row.kernel for row in entry.ranking] == (["fp32_emulated", "cublas"] if counts else ["cublas"])
    assert [(trial.kernel, trial.is_as_exact) for trial in entry.trials] == [("fp32_emulated", counts)]


def tried(n: int, errors: Mapping[int, float], library: float = 6.6e-7) -> tuple[dict[str, Any], ...]:
    """The library, and a kernel with the fewer products the faster."""
    ours = (
        result("fp32_emulated", min_products / 20, n=n, case=f"{min_products}", baseline="own", error_vs_float64=error)
        | {"config": {"min_products": min_products}}
        for min_products, error in errors.items()
    )
    return result("cublas", 1.0, n=n, case="own", error_vs_float64=library), *ours


def test_of_a_kernel_s_configs_the_fastest_is_ranked_that_is_as_exact_as_the_library() -> None:
    errors = {6: 8.6e-7, 7: 6.0e-7, 8: 2.6e-7, 10: 2.6e-8}
    cases = ((6.6e-7, 7), (1.1e-6, 6), (4e-7, 8), (1e-7, 10), (1e-8, None))
    for library, count in cases:
        entry = only(results(*tried(4097, errors, library)))
        assert [row.config.get("min_products") for row in entry.ranking] == ([count, None] if count else [None])
        assert [trial.config["min_products"] for trial in entry.trials] == [6, 7, 8, 10]
        assert all(type(row) is RankedRow for row in entry.ranking)


@pytest.mark.parametrize(("min_products", "became"), [(6, 6.5e-7), (8, 6.7e-7)])
def test_of_two_runs_the_newer_counts(min_products: int, became: float) -> None:
    """The newer run counts for each config, whichever file comes first: accuracy and speed may have changed."""
    earlier = {"created_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:01.5Z"}
    later = {"created_at": "2025-12-31T00:00:00Z", "finished_at": "2026-01-01T00:00:02Z"}
    was = 13.2e-7 - became
    first = results(*tried(4097, {6: was, 8: 3e-7}), job=earlier)
    library, ours = tried(4097, {6: became})
    second = results(library, ours | {"rounds": [{"round": 0, "kernel_ms": 0.35}]}, job=later)
    for order in ((first, second), (second, first)):
        entry = only(*order)
        assert [row.config.get("min_products") for row in entry.ranking] == [min_products, None]
        assert [trial.error_of_baseline for trial in entry.trials] == [pytest.approx(became / 6.6e-7, abs=1e-4), 0.4546]
        assert [trial.fraction_of_baseline for trial in entry.trials] == [round(1 / 0.35, 4), 2.5]


def test_of_another_kernel_the_best_run_counts() -> None:
    later = {"created_at": "2026-03-01T00:00:00Z", "finished_at": "2026-03-01T00:00:01Z"}
    entry = only(results(result("cublas", 2.0)), results(result("cublas", 3.0), job=later))
    assert [row.gflops for row in entry.ranking] == [round(2 * 512**3 / 2e6, 1)]


@pytest.mark.parametrize(
    ("kernel", "gflops", "counts"),
    [("fp64_emulated", 130, True), ("fp64_emulated", 120, False), ("tensor_fp64", 90, True)],
)
def test_a_shape_counts_where_there_is_a_choice(kernel: str, gflops: float, counts: bool) -> None:
    """Beside the library a kernel that is worth its fallback, or one that has none."""
    ms = 2 * 512**3 / 1e6
    library = result("cublas", ms / 100, dtype="float64", case="1", error_vs_float64=2e-16)
    other = result(kernel, ms / gflops, dtype="float64", case="2", baseline="1", error_vs_float64=1e-16)
    assert len(made(results(library, other)).entries) == counts


def test_an_error_that_rounds_to_the_library_s_is_greater_all_the_same() -> None:
    assert [error_ratio(own, 1.0) for own in (1.0, 1.00001, 0.5)] == [1.0, 1.0001, 0.5]
    assert error_ratio(0.0, 0.0) == 1.0
    assert error_ratio(1e-9, 0.0) is error_ratio(None, 1.0) is error_ratio(1.0, None) is None


def test_what_was_tried_and_is_nowhere_as_exact_is_no_entry() -> None:
    assert made(results(*tried(4097, {6: 1e-6})[1:])).entries == ()


def test_a_file_that_holds_several_benchmarks_is_read(tmp_path: Path) -> None:
    several = {"one": results(result("cublas", 1.0)), "other": results(result("cublas", 2.0, n=256)), "seed": 7}
    path = tmp_path / "h200_vs_cublas.json"
    path.write_text(json.dumps(several))
    found = list(documents([path]))
    assert [name for name, _ in found] == ["h200_vs_cublas.json: one", "h200_vs_cublas.json: other"]
    (table,) = tables(found)
    assert [entry.n for entry in table.entries] == [256, 512]


def test_a_library_on_padded_operands_is_a_baseline_and_no_entry(tmp_path: Path) -> None:
    path = tmp_path / "several.json"
    alone = results(result("cublas", 1.0, 1.0))
    path.write_text(json.dumps({"hopper_bf16": alone, "hopper_bf16_padded": alone}))
    assert [name for name, _ in documents([path])] == ["several.json: hopper_bf16"]


def test_zeros_and_dense_rows_do_not_count() -> None:
    assert made(results(result("cublas", 1.0, 1.0), distribution="zeros")).entries == ()
    assert made(results(result("cublas", 1.0, 1.0), layout="dense")).entries == ()
    assert len(made(results(result("cublas", 1.0, 1.0), layout="padded")).entries) == 1


def test_several_runs_are_merged_by_the_best() -> None:
    earlier = {"created_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:01Z"}
    first = results(result("cublas", 1.0), result("naive", 4.0), result("cublas", 1.0, n=256), job=earlier)
    second = results(result("cublas", 1.2, 1.2), result("naive", 3.0, 3.0))
    table = made(first, second)
    assert [(source.file, source.date[:10]) for source in table.sources] == [
        ("0.json", "2026-01-01"),
        ("1.json", "2026-02-02"),
    ]
    assert [one.n for one in table.entries] == [256, 512]
    naive = table.entries[1].ranking[1]
    assert (naive.kernel, naive.fraction_of_baseline) == ("naive", 0.4)


def test_each_model_has_a_table() -> None:
    other = results(result("cublas", 1.0)) | {"device": DEVICE | {"name": "Another", "compute_capability": None}}
    found = list(tables([("a.json", results(result("cublas", 1.0))), ("b.json", other)]))
    assert [(one.device, one.compute_capability) for one in found] == [("Test GPU", (9, 0)), ("Another", None)]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    emulated = tried(4097, {6: 7e-7, 8: 2e-7})
    table = made(results(result("naive", 2.0), result("cublas", 1.0), result("cublas", 1.0, n=256), *emulated))
    assert [len(one.trials) for one in table.entries] == [0, 0, 2]
    path = tmp_path / file_name(table.device)
    write_text(path, text(table))
    assert read(path) == table


def test_other_recorded_runs_are_passed_over(tmp_path: Path) -> None:
    for name, content in (("a", {"results": []}), ("b", [1]), ("c", results())):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    assert [name for name, _ in documents(tmp_path.glob("*.json"))] == ["c.json"]


@pytest.mark.parametrize(
    ("dtype", "accuracy", "device_class", "name"),
    [
        ("float32", "fp32", "gpu", "cublas"),
        ("float32", "tf32", "gpu", "cublas_tf32"),
        ("float16", "tf32", "gpu", "cublas"),
        ("int32", "exact", "gpu", None),
        ("int32", "exact", "cpu", "cpu_blas"),
    ],
)
def test_the_library_of_a_class(dtype: DTypeName, accuracy: AccuracyName, device_class: Any, name: str | None) -> None:
    assert library_for(dtype, accuracy, device_class) == name


def test_shipped_tables_are_what_the_recorded_results_make() -> None:
    written = {file_name(table.device): text(table) for table in tables(documents(files(RESULTS, "**/*")))}
    assert written == {path.name: read_text(path) for path in DIRECTORY.glob("*.json.gz")}, "run `make recorded`"
    assert len(TABLES) == len(written)
