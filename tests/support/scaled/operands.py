"""8-bit operands with block scales, and what their product is."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobs.formats import float8
from jobs.formats.elements import Array
from kernels.model.numerics import Problem
from kernels.model.scales import block_of, scale_shape
from worker.device.operands import HostOperand
from worker.device.scaled import ScaledOperand


def scaled_problem(m: int, n: int, k: int, width: int = 128, **more: Any) -> Problem:
    """`width`: columns of B that share a scale."""
    return Problem(m, n, k, "float8_e4m3", scale_columns=width, **more)


def stored_shape(problem: Problem, name: str) -> tuple[int, ...]:
    rows, columns = (problem.m, problem.k) if name == "a" else (problem.k, problem.n)
    core = (columns, rows) if getattr(problem, f"transpose_{name}") else (rows, columns)
    return (problem.batch, *core) if getattr(problem, f"{name}_batched") else core


def scaled_operands(
    problem: Problem, rng: np.random.Generator, width_a: int = 1
) -> tuple[ScaledOperand, ScaledOperand]:
    """Normal numbers; scales of both signs over many powers of two, a few of them 0."""
    return _operand(problem, "a", width_a, rng), _operand(problem, "b", problem.scale_columns, rng)


def _operand(problem: Problem, name: str, width: int, rng: np.random.Generator) -> ScaledOperand:
    shape = stored_shape(problem, name)
    block = block_of(name, width, transposed=getattr(problem, f"transpose_{name}"))
    elements = float8.narrow(rng.standard_normal(shape).astype(np.float32) * np.float32(16))
    scales = rng.uniform(1, 2, scale_shape(shape, block)) * np.exp2(rng.integers(-8, 8, scale_shape(shape, block)))
    scales *= rng.choice([-1, 1, 1, 1, 0], scales.shape)
    return ScaledOperand(HostOperand(elements), HostOperand(scales.astype(np.float32)), block)


def true_matrix(operand: ScaledOperand) -> Array:
    """What its elements stand for, in float64, as stored: scales spread out block by block."""
    rows, columns = operand.block
    spread = operand.scales.elements.astype(np.float64).repeat(rows, axis=-2).repeat(columns, axis=-1)
    kept: Array = spread[..., : operand.shape[-2], : operand.shape[-1]]
    return float8.widen(operand.elements).astype(np.float64) * kept


def true_product(problem: Problem, a: ScaledOperand, b: ScaledOperand) -> tuple[Array, Array]:
    """A·B and |A|·|B| in float64, each (batch, m, n)."""
    of_a, of_b = (
        np.atleast_3d(true_matrix(each)) if each.elements.ndim == 3 else true_matrix(each)[np.newaxis]
        for each in (a, b)
    )
    of_a = of_a.swapaxes(1, 2) if problem.transpose_a else of_a
    of_b = of_b.swapaxes(1, 2) if problem.transpose_b else of_b
    shape = (problem.batch, problem.m, problem.n)
    return np.broadcast_to(of_a @ of_b, shape), np.broadcast_to(np.abs(of_a) @ np.abs(of_b), shape)
