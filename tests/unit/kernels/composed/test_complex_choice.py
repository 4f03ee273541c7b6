"""What `auto` takes for complex products, and what these are made of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.catalog import BY_NAME
from kernels.model.architectures import ARCHITECTURES
from kernels.model.entry.config import NO_CONFIG, ConfigError, TileConfig
from kernels.model.kernel import DeviceTraits, Kernel
from kernels.model.kinds.composed import ComposedKernel
from kernels.model.kinds.pairs import inner_problem
from kernels.model.numerics import COMPLEX_ACCURACY, DTYPES, DTypeName, Problem
from kernels.selection.candidates import Choice
from kernels.selection.choose import choose, choose_from
from kernels.selection.composed import real_choice
from kernels.selection.tuned import TABLES, TunedTable

H100, H200 = (DeviceTraits("gpu", (9, 0), 232448, 132, name) for name in ("NVIDIA H100 80GB HBM3", "NVIDIA H200"))


def taken(n: int, dtype: DTypeName, device: DeviceTraits) -> Choice:
    return choose("auto", NO_CONFIG, Problem(n, n, n, dtype), COMPLEX_ACCURACY[dtype], device)


def real_tables() -> list[TunedTable]:
    """The shipped ones, without what was measured of complex products."""
    return [
        replace(each, entries=tuple(entry for entry in each.entries if not DTYPES[entry.dtype].is_complex))
        for each in TABLES
    ]


@pytest.mark.parametrize("device", [H100, H200], ids=lambda each: each.name)
def test_auto_makes_large_complex_products_of_real_ones(device: DeviceTraits) -> None:
    """Where tables have real products that are several times as fast as the library's, and none of complex ones."""
    problem = Problem(4096, 4096, 4096, "complex64")
    choice = choose_from(real_tables(), problem, "fp32", device)
    assert choice.kernel.name == "complex_as_real" and choice.config == {"emulated": 0}
    assert choice.why.startswith("auto: as a real product of 4096×8192×8192: fp32_emulated should be the fastest")
    assert real_choice(choice, problem, device).kernel.name == "fp32_emulated"
    transposed = Problem(4096, 4096, 4096, "complex64", 1, True, True, conjugate_a=True)
    assert choose_from(real_tables(), transposed, "fp32", device).kernel.name == "complex_as_real"
    assert taken(4096, "complex64", device).kernel.name == "complex_as_real"  # by what was measured of complex ones


def test_auto_weighs_three_products_where_four_are_not_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a table that has the real product, which is less than WORTH_ARRANGING times as fast as the library's."""
    problem = Problem(4096, 2048, 2048, "complex128")
    choice = choose_from(real_tables(), problem, "fp64", H100)
    assert choice.kernel.name == "complex_as_real" and choice.config == {"emulated": 1}
    assert "fp64_emulated was the fastest" in choice.why
    inner = real_choice(choice, problem, H100)
    assert inner.kernel.name == "fp64_emulated" and inner_problem(inner.kernel, problem) == problem
    monkeypatch.setattr("kernels.selection.choose.FOUR_OVER_THREE", 1.0)
    assert choose_from(real_tables(), problem, "fp64", H100).kernel.name == "cublas"


@pytest.mark.parametrize("device", [H100, H200], ids=lambda each: each.name)
@pytest.mark.parametrize(
    ("n", "name"), [(512, "cublas"), (1024, "cublas"), (4096, "complex_as_real"), (7000, "complex_as_real")]
)
def test_complex128_goes_by_the_forecast_of_the_real_product(n: int, name: str, device: DeviceTraits) -> None:
    """Complex products of three sizes were measured. They say little of smaller ones, where the library is faster."""
    choice = taken(n, "complex128", device)
    assert choice.kernel.name == name
    assert (
        name == "cublas" or real_choice(choice, Problem(n, n, n, "complex128"), device).kernel.name == "fp64_emulated"
    )


@pytest.mark.parametrize("size", [(63, 500, 500), (500, 63, 500), (500, 500, 63)])
def test_small_complex_products_are_real_ones(size: tuple[int, int, int]) -> None:
    problem = Problem(*size, "complex128")
    asked = choose("complex_as_real", {"emulated": 1}, problem, "fp64", H100)
    inner = real_choice(asked, problem, H100)
    assert inner_problem(inner.kernel, problem) == problem.as_real
    of_digits = choose("complex_as_real", {"emulated": 1}, Problem(500, 500, 500, "complex64"), "fp32", H100)
    problem = Problem(500, 500, 500, "complex64")
    assert inner_problem(real_choice(of_digits, problem, H100).kernel, problem) == problem.as_real


@pytest.mark.parametrize(("n", "dtype"), [(64, "complex64"), (256, "complex64"), (1024, "complex64")])
def test_auto_leaves_others_to_the_library(n: int, dtype: DTypeName) -> None:
    problem = Problem(n, n, n, dtype)
    for device in (H100, H200, ARCHITECTURES["sm_80"].traits):
        assert choose_from(real_tables(), problem, COMPLEX_ACCURACY[dtype], device).kernel.name == "cublas"
        assert n >= 1024 or taken(n, dtype, device).kernel.name == "cublas"


def test_auto_waits_for_what_is_not_compiled() -> None:
    def is_compiled(kernel: Kernel, _: TileConfig) -> bool:
        return not isinstance(kernel, ComposedKernel)

    problem = Problem(4096, 4096, 4096, "complex64")
    assert choose_from(TABLES, problem, "fp32", H100, is_compiled).kernel.name == "cublas"


@pytest.mark.parametrize(("dtype", "name"), [("complex64", "fp32_emulated"), ("complex128", "fp64_emulated")])
def test_a_caller_may_ask_for_emulated_parts(dtype: DTypeName, name: str) -> None:
    problem = Problem(2048, 2048, 2048, dtype)
    asked = choose("complex_as_real", {"emulated": 1}, problem, COMPLEX_ACCURACY[dtype], H100)
    assert real_choice(asked, problem, H100).kernel.name == name
    with pytest.raises(ConfigError, match=f"{name} "):
        choose("complex_as_real", {"emulated": 1}, problem, COMPLEX_ACCURACY[dtype], ARCHITECTURES["sm_80"].traits)


def test_a_library_s_real_product_is_the_same_library_s() -> None:
    problem = Problem(300, 200, 100, "complex128")
    assert real_choice(Choice(BY_NAME["cublas"], NO_CONFIG, ""), problem, H100).kernel.name == "cublas"
