"""Which parts of matrices lie on which GPU: together they are the matrices, and no part is larger than another."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.model.numerics import Problem
from worker.cuda.from_host.parts import Parts

SHAPES = ((1, 1, 1), (33, 17, 29), (601, 499, 60), (64, 5, 7), (16_384, 16_384, 16_384))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("transposed", [(False, False), (True, True)])
def test_all_elements_are_in_one_part(shape: tuple[int, int, int], ranks: int, transposed: tuple[bool, bool]) -> None:
    m, n, k = shape
    problem = Problem(m, n, k, "float32", transpose_a=transposed[0], transpose_b=transposed[1])
    parts = Parts(problem, ranks)
    stored = {"a": (k, m) if transposed[0] else (m, k), "b": (n, k) if transposed[1] else (k, n), "c": (m, n)}
    for name, (rows, columns) in stored.items():
        of_rows, of_columns = np.zeros(rows, int), np.zeros(columns, int)
        for rank in range(ranks):
            part = getattr(parts, name)(rank)
            of_rows[part.rows.start : part.rows.stop] += part.columns.size
            of_columns[part.columns.start : part.columns.stop] += part.rows.size
            assert part.rows.size <= part.kept_rows and part.columns.size <= part.pitch
        assert set(of_rows) == {columns} and set(of_columns) == {rows}


@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_the_library_sees_the_memory_that_there_is(transposed: tuple[bool, bool]) -> None:
    """A part's block, column-major, has as many elements as the part has, row-major, at the same pitch."""
    parts = Parts(Problem(601, 499, 61, "float32", transpose_a=transposed[0], transpose_b=transposed[1]), 2)
    for described, part in zip(parts.described(), (parts.b(0), parts.a(0), parts.c(0)), strict=True):
        assert described.block[0] == part.pitch
        assert part.elements == described.rows * described.columns // 2
    assert parts.m % 32 == parts.n % 32 == parts.k % 16 == 0


def test_what_it_takes_of_each_gpu() -> None:
    n = 16_384
    parts_and_a = (3 * n * n // 2 + n * n) * 8
    assert Parts(Problem(n, n, n, "float64"), 2).device_bytes == parts_and_a + (100 << 20)


def test_room_for_the_workspace_that_the_library_asks_for() -> None:
    """As it does on two H100s, with NCCL's pages of 2 MiB."""
    n, asked = 16_384, 637_534_224
    parts = Parts(Problem(n, n, n, "float16"), 2)
    of_parts = sum(part.elements for part in (parts.a(0), parts.b(0), parts.c(0))) * 2
    assert 0 <= parts.device_bytes - of_parts - -(-asked // (2 << 20)) * (2 << 20) < 4 << 20
