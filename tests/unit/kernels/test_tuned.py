"""Measured tables: what is read, what is near to a problem, and that the shipped ones are in order."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kernels.catalog import BY_NAME
from kernels.model.kernel import DeviceTraits
from kernels.model.numerics import AccuracyName, DTypeName, Problem
from kernels.selection.choose import choose
from kernels.selection.nearby import nearby, shared, table_for, tables_for
from kernels.selection.tuned import (
    DEVICE_CLASS,
    DIRECTORY,
    TABLES,
    TunedTable,
    best_results,
    file_name,
    read,
)
from kernels.strict_json import DataError
from kernels.text_files import read_text, write_text
from tests.support.kernels.tuned import GPU, entry, row, table

SIZES = (256, 512, 1024, 1025, 4096)


def near(problem: Problem, tables: Sequence[TunedTable], accuracy: AccuracyName = "fp32") -> list[int]:
    """N of the shapes that say something of it."""
    found = nearby(problem, accuracy, GPU, tables)
    return [one.n for one in found.entries] if found else []


def square(n: int, dtype: DTypeName = "float32", **fields: Any) -> Problem:
    return Problem(n, n, n, dtype, **fields)


# ---- which table ----
def test_a_device_has_its_own_table_else_that_of_its_family() -> None:
    own, large, small = table("Test GPU"), table("Large", multiprocessors=144), table("Small", multiprocessors=60)
    old, cpu = table("Old", compute_capability=(8, 0)), table("CPU", device_class="cpu", compute_capability=None)
    tables = [small, cpu, old, large, own]
    assert table_for(GPU, tables) is own
    assert table_for(GPU, tables[:-1]) is large
    assert table_for(GPU, [cpu, old]) is None
    assert table_for(DeviceTraits("cpu", name="CPU"), tables) is cpu
    assert table_for(DeviceTraits("cpu", name="Another"), tables) is None


def test_models_with_the_same_chip_share_what_they_have_measured() -> None:
    own, twin = table("Test GPU", entries=[entry(512)]), table("Twin", entries=[entry(512), entry(2048)])
    others = [table("Small", multiprocessors=60), table("Old", compute_capability=(8, 0))]
    both = shared(own, [own, twin, *others])
    assert [(one.n, both.device_of(one)) for one in both.entries] == [(512, "Test GPU"), (2048, "Twin")]
    assert both.device == "Test GPU" and both.entries[0] is own.entries[0]
    assert shared(own, [own, *others]) is own


def test_what_ships_is_shared_and_says_where_it_was_measured() -> None:
    h200, h100 = (next(one for one in TABLES if one.device.startswith(name)) for name in ("NVIDIA H200", "NVIDIA H100"))
    (serving,) = tables_for(h200.traits)
    assert serving.entries[: len(h200.entries)] == h200.entries
    theirs = serving.entries[len(h200.entries)]
    assert serving.device_of(theirs) == h100.device
    choice = choose("auto", {}, theirs.problem, theirs.accuracy, h200.traits)
    assert f"measured on an {h100.device} at" in choice.why and "this is an NVIDIA H200" in choice.why


def test_a_device_that_nobody_named_has_none() -> None:
    assert table_for(DeviceTraits("gpu", (9, 0), 232448, 132), [table("Test GPU")]) is None


# ---- which shape ----
@pytest.mark.parametrize(
    ("n", "measured"),
    [
        (1024, [1024]),  # the very shape: no other says more
        (1025, [1025]),
        (1200, [1025, 1024, 512, 4096, 256]),
        (1001, [1024, 1025, 512, 256, 4096]),
        (200, [256, 512]),
        (4000, [4096, 1025, 1024]),
        (8192, [4096]),
        (257, [256, 512, 1024, 1025]),
    ],
)
def test_near_are_shapes_within_reach_and_the_nearest_come_first(n: int, measured: list[int]) -> None:
    tables = [table(entries=[entry(size) for size in reversed(SIZES)])]
    assert near(square(n), tables) == measured


@pytest.mark.parametrize(
    ("n", "measured"),
    [
        (1200, [1024, 512, 1025, 4096, 256]),
        (1000, [1024, 512, 1025, 256, 4096]),  # rows of 4000 bytes are whole runs
        (1001, [1025, 1024, 512, 256, 4096]),  # and these are not
        (257, [256, 512, 1025, 1024]),
    ],
)
def test_where_tensor_cores_multiply_shapes_of_the_same_alignment_are_nearer(n: int, measured: list[int]) -> None:
    tables = [table(entries=[entry(size, accuracy="tf32") for size in SIZES])]
    assert near(square(n), tables, "tf32") == measured


@pytest.mark.parametrize(
    "problem",
    [
        square(25),  # more than three doublings from 256, in each size
        square(40_000),
        Problem(16, 8192, 8192, "float32"),
        square(1024, "float64"),
        square(1024, transpose_a=True),
        square(1024, transpose_b=True),
        square(724, batch=2, a_batched=True),
    ],
)
def test_nothing_is_near(problem: Problem) -> None:
    assert near(problem, [table(entries=[entry(size) for size in SIZES])]) == []


def test_a_relative_that_knows_the_library_at_its_best_goes_first() -> None:
    """But not where the very shape was measured."""
    best = [row("cublas_tf32_tuned", 200.0), row("cublas_tf32", 100.0)]
    own, relative = (
        table(entries=[entry(1000, accuracy="tf32")]),
        table("Relative", entries=[entry(2000, accuracy="tf32", rows=best)]),
    )
    for n, device in ((1000, "Test GPU"), (1100, "Relative"), (2000, "Relative")):
        found = nearby(square(n), "tf32", GPU, [relative, own])
        assert found is not None and found.table.device == device
    found = nearby(square(1100), "tf32", GPU, [table("Another", entries=[entry(1100, accuracy="tf32")]), own])
    assert found is not None and found.table is own


def test_batches_are_near_to_batches() -> None:
    batches = entry(256, batch=16)
    tables = [table(entries=[entry(1024), batches])]
    assert near(square(256, batch=20, a_batched=True, b_batched=True), tables) == [256]


def test_stricter_classes_serve_too_and_looser_ones_do_not() -> None:
    tables = [table(entries=[entry(1024, accuracy="tf32"), entry(1024), entry(512, accuracy="tf32")])]
    asked: dict[AccuracyName, list[AccuracyName]] = {"tf32": ["tf32", "fp32"], "fp32": ["fp32"]}
    for accuracy, classes in asked.items():
        found = nearby(square(1024), accuracy, GPU, tables)
        assert found is not None and [one.accuracy for one in found.entries] == classes
    assert near(square(512), tables) == [1024]


# ---- a kernel's best ----
def test_best_results_of_a_kernel() -> None:
    first, second = row("naive", 10.0), row("naive", 20.0)
    tables = [table(entries=[entry(256, rows=[first]), entry(512, rows=[row("cublas", 30.0), second])]), table("B")]
    found = best_results("naive", tables)
    assert [(one.device, one.entry.n, one.row) for one in found] == [
        ("Test GPU", 256, first),
        ("Test GPU", 512, second),
    ]


# ---- files ----
def test_the_file_is_named_after_the_device() -> None:
    assert file_name("NVIDIA H200") == "nvidia_h200.json.gz"
    assert file_name("Intel(R) Xeon(R) Processor @ 2.0GHz") == "intel_r_xeon_r_processor_2_0ghz.json.gz"


def _another_device(given: dict[str, Any]) -> None:
    given["device"] = "NVIDIA H100"


def _unknown_field(given: dict[str, Any]) -> None:
    given["entries"][0]["rank"] = 1


def _out_of_order(given: dict[str, Any]) -> None:
    given["entries"][0]["ranking"][0][2] = 0.1


def _nothing_ranked(given: dict[str, Any]) -> None:
    given["entries"][0]["ranking"] = []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_another_device, "whose file is nvidia_h100.json.gz"),
        (_unknown_field, "no field 'rank'"),
        (_out_of_order, "from the fastest on"),
        (_nothing_ranked, "from the fastest on"),
    ],
)
def test_a_file_that_is_not_in_order_is_refused(
    tmp_path: Path, spoil: Callable[[dict[str, Any]], None], said: str
) -> None:
    given = json.loads(read_text(DIRECTORY / "nvidia_h200.json.gz"))
    spoil(given)
    spoiled = tmp_path / "nvidia_h200.json.gz"
    write_text(spoiled, json.dumps(given))
    with pytest.raises(DataError, match=said):
        read(spoiled)


def test_there_is_a_table_of_the_h200() -> None:
    (h200,) = [one for one in TABLES if one.device == "NVIDIA H200"]
    assert {(one.dtype, one.accuracy) for one in h200.entries} >= {("float32", "fp32"), ("float16", "tf32")}
    assert best_results("naive") and best_results("cublas")


@pytest.mark.parametrize("shipped", TABLES, ids=lambda shipped: shipped.device)
def test_shipped_tables_name_kernels_and_configs_that_there_are(shipped: TunedTable) -> None:
    assert shipped.sources and shipped.entries
    for one in shipped.entries:
        assert len({ranked.kernel for ranked in one.ranking}) == len(one.ranking)
        for ranked in (*one.ranking, *one.trials):
            kernel = BY_NAME[ranked.kernel]
            assert kernel.accuracy[one.dtype] == one.accuracy
            resolved = kernel.resolve_config(ranked.config, one.problem)
            assert resolved == {**resolved, **ranked.config}, "what came later has its default"
            assert ranked.gflops > 0


def test_what_ships_is_read_when_it_is_looked_at_and_not_for_a_cpu() -> None:
    """Most processes start without it; a worker of a CPU, and an API that takes products, never read it."""
    looks = (
        "import service.app, worker.process.tasks\n"
        "from kernels.selection import choose, tuned\nfrom kernels.published import PUBLISHED\n"
        "from kernels.model.kernel import DeviceTraits\nfrom kernels.model.numerics import Problem\n"
        "choose.choose('auto', {}, Problem(8, 8, 8, 'float32'), 'fp32', DeviceTraits('cpu', name='CPU'))\n"
        "assert not any('_made' in vars(each) for each in (tuned.TABLES, PUBLISHED))\n"
    )
    subprocess.run([sys.executable, "-c", looks], check=True)
    assert {table.device_class for table in TABLES} == {DEVICE_CLASS}
