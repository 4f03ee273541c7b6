"""Groups of rows: what is multiplied, how tiles are counted, and what is chosen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.catalog import BY_NAME
from kernels.model.groups import group_table, groups_of, tile_rows, tiles
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.candidates import NoKernelError
from kernels.selection.choose import choose, choose_again
from tests.support.grouped.operands import grouped_problem
from worker.cuda.pitch import stored_shapes
from worker.cuda.sources import kernel_program

H100 = DeviceTraits("gpu", (9, 0), multiprocessors=132)
AMPERE = DeviceTraits("gpu", (8, 0), multiprocessors=108)
CPU = DeviceTraits("cpu")


@given(sizes=st.lists(st.integers(0, 300), min_size=1, max_size=8), rows=st.sampled_from([16, 64, 256]))
def test_tiles_do_not_cross_groups(sizes: list[int], rows: int) -> None:
    """The table finds for each tile the one group that has it, as kernels do: the last that begins there or before."""
    problem = grouped_problem(sizes, 5, 7)
    table, owners = group_table(problem, lambda own: tiles(own.m, rows)), []
    assert table[-1] == (tile_rows(problem, rows), problem.m)
    for tile in range(table[-1][0]):
        group = max(index for index in range(len(sizes)) if table[index][0] <= tile)
        first = table[group][1] + (tile - table[group][0]) * rows
        owners += [(row, group) for row in range(first, min(first + rows, table[group + 1][1]))]
    expected = [(each.first_row + row, each.index) for each in groups_of(problem) for row in range(each.problem.m)]
    assert owners == expected


def test_groups_that_have_rows_are_multiplied() -> None:
    problem = grouped_problem((3, 0, 2), 5, 7, transpose_b=True)
    assert problem.flops == 2 * 5 * 5 * 7 and problem.product_shape == (5, 5)
    assert [*stored_shapes(problem)] == [(5, 7), (3, 5, 7)] and problem.operand_bytes == (5 * 7 + 3 * 7 * 5) * 4
    own = [(each.index, each.first_row, each.problem) for each in groups_of(problem)]
    assert own == [
        (0, 0, Problem(3, 5, 7, "float32", transpose_b=True)),
        (2, 3, Problem(2, 5, 7, "float32", transpose_b=True)),
    ]


@pytest.mark.parametrize(
    ("device", "dtype", "rows", "kernel"),
    [
        (H100, "bfloat16", 100, "hopper_bf16"),
        (H100, "float16", 100, "hopper_fp16"),
        (H100, "float32", 100, "pipelined"),
        (H100, "float32", 5000, "cublas"),
        (H100, "int8", 5000, "warp_tiled"),
        (AMPERE, "bfloat16", 5000, "cublas"),
        (AMPERE, "float64", 10, "pipelined"),
        (CPU, "int32", 10, "cpu_blas"),
    ],
)
def test_what_auto_takes(device: DeviceTraits, dtype: DTypeName, rows: int, kernel: str) -> None:
    problem = grouped_problem((rows, rows), 512, 512, dtype)
    accuracy = BY_NAME[kernel].accuracy[dtype]
    taken = choose("auto", {}, problem, accuracy, device)
    assert taken.kernel.name == kernel and "group_sizes" in taken.why
    again = choose_again(problem, accuracy, device)
    assert again.kernel.takes_groups_of(problem)


def test_kernels_without_groups_are_refused_by_name() -> None:
    problem = grouped_problem((2, 2), 5, 7)
    with pytest.raises(NoKernelError, match="naive does not take group_sizes for float32"):
        choose("naive", {}, problem, "fp32", H100)


def test_programs_do_not_depend_on_the_groups() -> None:
    """But on there being some: one is compiled for all."""
    kernel = BY_NAME["pipelined"]
    assert isinstance(kernel, CudaKernel)
    config = kernel.resolve_config()
    one, other, plain = (
        kernel_program(kernel, config, each)
        for each in (grouped_problem((2, 2), 5, 7), grouped_problem((1, 9, 4), 50, 70), Problem(4, 5, 7, "float32"))
    )
    assert one == other and "-DGROUPED" in one.options and "-DGROUPED" not in plain.options
