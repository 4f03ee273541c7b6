"""The matrices of one group, as they lie within those of a grouped product."""

from __future__ import annotations

from dataclasses import replace

from kernels.model.groups import Group
from worker.cuda.memory import DeviceMatrix, Matrices


def matrices_of(group: Group, matrices: Matrices) -> Matrices:
    """A, B and C of a group; they keep the memory of the whole."""
    a, b, c = matrices
    rows = group.first_row, group.problem.m
    return _rows_of(a, *rows), b.item(group.index), _rows_of(c, *rows)


def _rows_of(matrix: DeviceMatrix, first: int, count: int) -> DeviceMatrix:
    """Rows of the matrix. Nothing may be written beside or below them: other groups' rows are there."""
    layout = replace(matrix.layout, rows=count, kept_rows=count)
    return DeviceMatrix(layout, matrix.memory + first * matrix.layout.pitch_bytes)
