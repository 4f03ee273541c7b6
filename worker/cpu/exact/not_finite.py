"""Elements of a product that NaN and infinities decide, by IEEE rules and by counting: how finite terms are added up,
or whether one of them overflows, does not matter to them."""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import Array


def write_not_finite(values: Array, a: Array, b: Array, rows: Array, columns: Array) -> None:
    """Into C (m, n), of lines (m, k) and (n, k), where the row or the column has something that is not finite."""
    if len(rows):
        values[rows] = _decided(a[rows], b)
    if len(columns):
        values[:, columns] = _decided(a, b[columns])


def _decided(a: Array, b: Array) -> Array:
    infinite_a, infinite_b = (np.where(np.isinf(each), np.sign(each), 0.0) for each in (a, b))
    signs_a, signs_b = (np.nan_to_num(np.sign(each)) for each in (a, b))
    finite_a = np.where(np.isinf(a), 0.0, signs_a)
    difference = infinite_a @ signs_b.T + finite_a @ infinite_b.T  # infinite terms above zero, less those below
    count = np.abs(infinite_a) @ np.abs(signs_b.T) + np.abs(finite_a) @ np.abs(infinite_b.T)
    undefined: Array = np.logical_or.outer(np.isnan(a).any(axis=1), np.isnan(b).any(axis=1))
    zeros_a, zeros_b = ((each == 0.0).astype(np.float64) for each in (a, b))
    undefined |= (np.abs(infinite_a) @ zeros_b.T + zeros_a @ np.abs(infinite_b.T)) > 0
    undefined |= np.abs(difference) < count
    values: Array = np.where(undefined, np.nan, np.copysign(np.inf, difference))
    return values
