"""Data that a spec's element types cannot hold is refused before anything is timed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jobs.benchmarks.magnitudes import check_magnitudes
from jobs.benchmarks.presets import PRESETS
from jobs.benchmarks.spec import BenchmarkSpec, DataDistribution
from jobs.errors import InvalidRequest
from kernels.model.numerics import DTypeName

Array = np.ndarray[Any, np.dtype[np.float64]]


def spec(dtype: str, distribution: str = "normal", scale: float = 1.0, k: int = 64) -> BenchmarkSpec:
    given: dict[str, Any] = {"kernels": ["naive"], "shapes": [{"m": 8, "n": 8, "k": k}], "dtypes": [dtype]}
    return BenchmarkSpec.model_validate(given | {"data": {"distribution": distribution, "scale": scale}})


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (spec("float16", scale=1e6), "Elements of the distribution normal times 1e\\+06 are too large for float16"),
        (spec("float16", scale=1e3), "Products with k = 64, of float16 elements .* are too large for float16"),
        (spec("float16", scale=1e-6), "Elements .* are too small for float16"),
        (spec("float16", scale=1e-3), "Products .* are too small for float16"),
        (spec("float32", scale=1e-300), "Elements .* are too small for float32"),
        (spec("complex64", scale=1e-25), "Products .* are too small for complex64"),
        (spec("float8_e4m3", scale=100.0), "Elements .* are too large for float8_e4m3"),
        (spec("float16", "uniform", k=1 << 18), "Products with k = 262144, .* are too large for float16"),
    ],
)
def test_what_would_be_zeros_or_infinities_is_refused(asked: BenchmarkSpec, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as refused:
        check_magnitudes(asked)
    assert refused.value.field == "data.scale"


@pytest.mark.parametrize(
    "asked",
    [
        spec("float16", k=1 << 20),
        spec("float32", scale=1e6, k=1 << 20),
        spec("float64", scale=1e-100),
        spec("int8", scale=1e6),
        spec("float16", "integers", k=1 << 16),
        spec("float16", "zeros", scale=1e6),
        spec("bfloat16", scale=1e-6),
        spec("float8_e4m3", "integers"),
        *(BenchmarkSpec.model_validate(preset.fields()) for preset in PRESETS.values()),
    ],
)
def test_what_types_hold_is_taken(asked: BenchmarkSpec) -> None:
    check_magnitudes(asked)


LARGE = 1 << 20


@pytest.mark.parametrize(
    ("shape", "dtype", "is_taken"),
    [
        ({"m": LARGE, "n": LARGE, "k": LARGE, "batch": 4}, "float32", False),
        ({"m": LARGE, "n": LARGE, "k": LARGE, "batch": 3}, "float32", True),
        (LARGE, "complex64", False),
        (LARGE, "float32", True),
        ({"start": 64, "stop": LARGE, "count": 2}, "complex64", False),
        ({"m": [64, LARGE], "n": [LARGE], "k": [LARGE]}, "complex128", False),
        ({"m": LARGE, "n": LARGE, "k": 1, "batch": LARGE}, "float64", False),  # of bytes, and not of operations
    ],
)
@pytest.mark.parametrize("distribution", ["normal", "zeros"])
def test_what_no_table_could_hold_is_refused(shape: Any, dtype: str, is_taken: bool, distribution: str) -> None:
    """Such a case would be skipped, but its number of operations is in all results of the benchmark."""
    given = {"kernels": ["naive"], "shapes": [16, shape], "dtypes": [dtype], "data": {"distribution": distribution}}
    asked = BenchmarkSpec.model_validate(given)
    if is_taken:
        check_magnitudes(asked)
        return
    with pytest.raises(InvalidRequest, match="has 2\\^63 or more operations or bytes; ask for less") as refused:
        check_magnitudes(asked)
    assert refused.value.field == "shapes"


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("distribution", ["normal", "uniform", "integers"])
def test_what_is_taken_holds_no_infinities(dtype: DTypeName, distribution: DataDistribution) -> None:
    """The largest power of two that is taken, and the smallest."""
    rng, k = np.random.default_rng(1), 4096
    taken = [exponent for exponent in range(-20, 20) if _is_taken(spec(dtype, distribution, 2.0**exponent, k))]
    for scale in (2.0 ** taken[0], 2.0 ** taken[-1]):
        a, b = (_drawn(rng, distribution, shape) * scale for shape in ((16, k), (k, 16)))
        product = (a @ b).astype(dtype)
        assert np.isfinite(product).all() and np.isfinite(a.astype(dtype)).all()
        assert (product != 0).all() and (a.astype(dtype) != 0).mean() > 0.9


def _drawn(rng: np.random.Generator, distribution: DataDistribution, shape: tuple[int, int]) -> Array:
    if distribution == "integers":
        return rng.integers(-8, 9, shape).astype(np.float64)
    return rng.standard_normal(shape) if distribution == "normal" else rng.random(shape)


def _is_taken(asked: BenchmarkSpec) -> bool:
    try:
        check_magnitudes(asked)
    except InvalidRequest:
        return False
    return True
