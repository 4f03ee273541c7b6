"""Whether operands and products of a spec are numbers of its element types. Otherwise a kernel would be timed on zeros
or infinities, on which devices draw less power and so run faster, and every check would pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from jobs.benchmarks.cases import problems
from jobs.benchmarks.spec import BenchmarkSpec, DataDistribution
from jobs.errors import InvalidRequest
from kernels.model.numerics import DTYPES, DType

# Of an element: the magnitude that none in 10⁹ exceeds, and the root of the mean square.
LARGEST: Mapping[DataDistribution, float] = {"normal": 6.0, "uniform": 1.0, "integers": 8.0}
ROOT_MEAN_SQUARE: Mapping[DataDistribution, float] = {"normal": 1.0, "uniform": 0.577, "integers": 4.9}
DEVIATIONS = 6.0  # of a sum of numbers of both signs
COUNTED = 2**63  # operations and bytes are fewer: files and replies hold them in 64 bits
SMALLEST = 4.0  # over a float type's largest number: its smallest one of full precision, about


def check_magnitudes(spec: BenchmarkSpec) -> None:
    """Raises InvalidRequest if elements or sums of these would leave a type's range, or if a product is larger than can
    be written down.
    """
    for problem in problems(spec):
        if max(problem.flops, problem.operand_bytes + problem.product_bytes) >= COUNTED:
            batch = f"{problem.batch} × " if problem.batch > 1 else ""
            told = f"{batch}{problem.m}×{problem.n}×{problem.k} has 2^63 or more operations or bytes; ask for less."
            raise InvalidRequest(f"The product {told}", field="shapes")
    data = spec.data
    if data.distribution == "zeros" or spec.kind == "ceilings":
        return
    k = max(problem.k for problem in problems(spec))
    root = data.scale * ROOT_MEAN_SQUARE[data.distribution]
    sums = root**2 * (k if data.distribution == "uniform" else DEVIATIONS * sqrt(k))
    for dtype in (DTYPES[name] for name in spec.dtypes):
        if dtype.is_integer:
            continue
        product = DTYPES[dtype.product]
        _check(spec, dtype, "Elements", data.scale, data.scale * LARGEST[data.distribution])
        _check(spec, product, f"Products with k = {k}, of {dtype.name} elements", root**2, sums)


def _check(spec: BenchmarkSpec, dtype: DType, what: str, small: float, large: float) -> None:
    if SMALLEST / dtype.largest <= small and large <= dtype.largest:
        return
    data = spec.data
    raise InvalidRequest(
        f"{what} of the distribution {data.distribution} times {data.scale:g} are too "
        f"{'large' if large > dtype.largest else 'small'} for {dtype.name}, so zeros or infinities would be timed; "
        "choose another data.scale.",
        field="data.scale",
    )
