"""Magnitudes of an operand's finite elements, by one pass."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.formats import float8
from jobs.formats.bfloat16 import narrow
from jobs.formats.elements import Array
from kernels.model.bounds import Magnitudes
from kernels.model.numerics import DTypeName
from worker.device.operands import HostOperand
from worker.product import magnitudes
from worker.product.magnitudes import MeasuredMagnitudes, magnitudes_of

VALUES = np.array([0.0, -0.0, -3.0, 0.125, np.inf, -np.inf, np.nan, 1.5])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_the_largest_and_the_smallest_but_zero(dtype: DTypeName) -> None:
    values: Array = narrow(VALUES.astype(np.float32)) if dtype == "bfloat16" else VALUES.astype(dtype)
    assert magnitudes_of(values, dtype) == Magnitudes(3.0, 0.125)
    assert magnitudes_of(np.zeros((3, 3), values.dtype), dtype) == Magnitudes(0.0, np.inf)
    assert magnitudes_of(values[4:7], dtype) == Magnitudes(0.0, np.inf)


def test_8_bit_floats_and_subnormal_numbers() -> None:
    short = float8.narrow(np.array([0, 448, -(2.0**-9), np.nan], np.float32))
    assert magnitudes_of(short, "float8_e4m3") == Magnitudes(448.0, 2.0**-9)
    ends = np.array([1e-45, -(2.0**126)], np.float32)
    assert magnitudes_of(ends, "float32") == Magnitudes(2.0**126, 2.0**-149)


def test_chunks_count_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).standard_normal((17, 23)).astype(np.float32)
    monkeypatch.setattr(magnitudes, "CHUNK", 7)
    sizes = np.abs(values)
    assert magnitudes_of(values, "float32") == Magnitudes(float(sizes.max()), float(sizes.min()))


def test_an_operand_with_an_id_is_measured_once() -> None:
    known, values = MeasuredMagnitudes(), np.ones((2, 2), np.float32)
    assert known.of(HostOperand(values, "its hash"), "float32") == Magnitudes(1.0, 1.0)
    assert known.of(HostOperand(values * 2, "its hash"), "float32") == Magnitudes(1.0, 1.0)
    assert known.of(HostOperand(values * 2), "float32") == Magnitudes(2.0, 2.0)
