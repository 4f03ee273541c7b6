"""`make stress`: its draws, that it sees a single wrong element, and a short run of it on the CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.tables.stress import stress
from jobs.formats.elements import Array
from kernels.catalog import BY_NAME
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.numerics import Problem
from tests.stress.__main__ import main
from tests.stress.cases import MAX_LONG_SIZE, MAX_MULTIPLICATIONS, WAYS, Deck, described
from tests.stress.shares import Share, shares
from worker.cpu import blas as cpu_blas
from worker.cpu import runner as runner_module
from worker.cuda.sources import kernel_program

H200 = DeviceTraits("gpu", (9, 0), 232_448, 132, "NVIDIA H200")
CPU = ["--device", "cpu", "--seed", "5"]
DRAWN = 2000


def test_a_number_gives_the_same_product_whatever_else_is_drawn() -> None:
    deck = Deck(3, H200)
    numbers = range(40, 60)
    backwards = {number: Deck(3, H200).case(number) for number in reversed(numbers)}
    assert [deck.case(number) for number in numbers] == [backwards[number] for number in numbers]
    assert deck.case(40) != Deck(4, H200).case(40)


def test_every_kernel_has_its_share_of_products_of_every_sort() -> None:
    deck = Deck(1, H200)
    cases = [deck.case(number) for number in range(DRAWN)]
    counts = described(cases)
    on_gpu = {name for name, kernel in BY_NAME.items() if kernel.unsupported_because(H200) is None}
    assert set(counts) == on_gpu
    least = DRAWN // len(on_gpu)
    for one in counts.values():
        assert one["products"] in (least, least + 1)
        assert one["products"] > one["exact"] > one["products"] / 2
        assert one["batched"] > 0
    assert {(case.problem.transpose_a, case.problem.transpose_b) for case in cases} == {
        (one, other) for one in (False, True) for other in (False, True)
    }
    assert {(case.problem.a_batched, case.problem.b_batched) for case in cases if case.problem.batch > 1} == {
        (True, True),
        (True, False),
        (False, True),
    }


def test_sizes_are_ragged_and_long_and_no_product_is_too_large_for_its_reference() -> None:
    problems = [case.problem for case in map(Deck(2, H200).case, range(DRAWN))]
    sizes = [size for one in problems for size in (one.m, one.n)]
    assert min(sizes) == 1 and 1500 < max(sizes) <= MAX_LONG_SIZE + 128
    assert any(one.k == 0 for one in problems)
    assert all(one.batch * one.m * one.n * one.k <= MAX_MULTIPLICATIONS["gpu"] for one in problems)
    assert 0.3 < sum(size % 2 for size in sizes) / len(sizes) < 0.5


def test_a_run_compiles_few_programs_and_each_case_fits_its_kernel() -> None:
    deck = Deck(6, H200)
    programs = set()
    for number in range(DRAWN):
        case = deck.case(number)
        if isinstance(case.kernel, CudaKernel):
            assert case.kernel.misfit(case.config, case.problem.dtype, H200) is None
            programs.add(kernel_program(case.kernel, case.config, case.problem))
    assert len(programs) < 2 * WAYS * len(deck.kernels)


def test_only_the_kernels_asked_for() -> None:
    assert {Deck(1, H200, ["cublas"]).case(number).kernel.name for number in range(5)} == {"cublas"}
    with pytest.raises(ValueError, match="none of these"):
        Deck(1, H200, ["cpu_blas"])


def test_a_run_on_the_cpu_finds_nothing_wrong_and_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "cpu_stress.json"
    assert main([*CPU, "--count", "60", "--out", str(out)]) == 0
    assert "60 of 60 products" in capsys.readouterr().out
    record = json.loads(out.read_text())
    assert (record["seed"], record["products"], record["failures"]) == (5, 60, [])
    assert sum(each["products"] for each in record["by_kernel"].values()) == 60
    assert record["by_kernel"].keys() == {"cpu_blas", "cpu_float64", "cpu_exact"}
    assert record["device"]["device_class"] == "cpu" and record["environment"]["numpy"]
    heading, said, counts = stress(out)
    assert heading.startswith("## Random products") and "(seed 5): 60 products" in said and "none of the" in said
    assert "| `cpu_blas` | 20 |" in counts


def test_processes_share_the_same_products(tmp_path: Path) -> None:
    out = tmp_path / "cpu_stress.json"
    assert main([*CPU, "--first", "3", "--count", "20", "--processes", "2", "--out", str(out)]) == 0
    record, deck = json.loads(out.read_text()), Deck(5, DeviceTraits("cpu"))
    assert (record["first"], record["asked"], record["products"]) == (3, 20, 20)
    assert record["by_kernel"] == described([deck.case(number) for number in range(3, 23)])


def test_shares_are_all_there_is_and_about_equal() -> None:
    assert shares(7, 10, 3) == [Share(7, 3), Share(10, 3), Share(13, 4)]
    assert shares(0, 2, 4) == [Share(0, 1), Share(1, 1)]


def test_no_product_is_begun_after_the_time_is_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CPU, "--count", "50", "--seconds", "0"]) == 0
    assert "0 of 50 products" in capsys.readouterr().out


def test_one_wrong_element_is_found_told_and_had_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By one in the last place of a float32: the service's own check lets so little pass."""
    case = next(
        case
        for case in map(Deck(5, DeviceTraits("cpu")).case, range(600))
        if case.kernel.name == "cpu_blas"
        and case.exact
        and case.problem.dtype == "float32"
        and case.problem.k > 100
        and case.problem.m > 100
    )
    right = cpu_blas.multiply

    def spoilt(problem: Problem, a: Array, b: Array, out: Array | None = None) -> Array:
        c = right(problem, a, b, out)
        c.reshape(-1)[-1] += 2.0**-12
        return c

    monkeypatch.setattr(runner_module, "CPU_KERNELS", {"cpu_blas": spoilt})
    assert main([*CPU, "--first", str(case.number), "--count", "1"]) == 1
    told = capsys.readouterr().out
    assert f"seed 5, number {case.number}: cpu_blas" in told and f"m={case.problem.m}" in told
    assert f"1 of {case.problem.batch * case.problem.m * case.problem.n} elements are wrong" in told
