"""Element types, accuracy classes, and the arithmetic of a product: operations and bytes.

Words: m×k times k×n gives m×n; one multiply and one add per inner step, so a product costs 2·m·n·k operations. A
complex multiply and add is four multiplies and four adds of real numbers, so a complex product costs 8·m·n·k.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

DTypeName = Literal[
    "float16", "bfloat16", "float32", "float64", "int8", "int32", "float8_e4m3", "complex64", "complex128"
]
AccuracyName = Literal["bf16", "fp16", "tf32", "fp32", "fp64", "exact", "fp8", "fp32_normwise"]

# Operations on each operand: names of fields in requests, options and problems.
OPERAND_FLAGS = ("transpose_a", "transpose_b", "conjugate_a", "conjugate_b")
DTYPE_NAMES: tuple[DTypeName, ...] = get_args(DTypeName)
ACCURACY_NAMES: tuple[AccuracyName, ...] = get_args(AccuracyName)


@dataclass(frozen=True, slots=True)
class DType:
    """One element type a matrix may have."""

    name: DTypeName
    itemsize: int  # bytes
    product: DTypeName  # element type of the product of two such operands
    accuracy: AccuracyName  # error class the product meets unless the caller asks for less
    unit_roundoff: float  # half the gap between 1 and the next value; 0 for integers; of complex types, of a part
    largest: float  # largest finite magnitude; of complex types, of a part
    part: DTypeName | None = None  # of complex types: what their real and imaginary parts are

    @property
    def is_integer(self) -> bool:
        return self.accuracy == "exact"

    @property
    def is_complex(self) -> bool:
        return self.part is not None

    @property
    def real(self) -> DTypeName:
        """The type of an element's numbers: the parts of a complex type, otherwise the type itself."""
        return self.part or self.name

    @property
    def accumulator_bytes(self) -> int:
        """The size of this type's accumulator: float32, float64 or int32."""
        return 8 if self.name == "float64" else 4


DTYPES: dict[DTypeName, DType] = {
    d.name: d
    for d in (
        # float16 keeps 11 significant bits, as tf32 does: hence its class.
        DType("float16", 2, "float16", "tf32", 2.0**-11, 65504.0),
        DType("bfloat16", 2, "bfloat16", "bf16", 2.0**-8, 3.3895313892515355e38),
        DType("float32", 4, "float32", "fp32", 2.0**-24, 3.4028234663852886e38),
        DType("float64", 8, "float64", "fp64", 2.0**-53, 1.7976931348623157e308),
        DType("int8", 1, "int32", "exact", 0.0, 127.0),
        DType("int32", 4, "int32", "exact", 0.0, 2147483647.0),
        # Products of two such numbers leave the range of 16-bit floats, and float32 holds every sum of them.
        DType("float8_e4m3", 1, "float32", "fp8", 2.0**-4, 448.0),
        DType("complex64", 8, "complex64", "fp32", 2.0**-24, 3.4028234663852886e38, part="float32"),
        DType("complex128", 16, "complex128", "fp64", 2.0**-53, 1.7976931348623157e308, part="float64"),
    )
}

REAL_NAMES: tuple[DTypeName, ...] = tuple(name for name in DTYPE_NAMES if not DTYPES[name].is_complex)

# Each real type in its own class: kernels sum 16-bit floats in float32, and int8 in int32. 8-bit floats are for
# tensor cores; one kernel takes them for devices whose tensor cores do not.
OWN_ACCURACY: dict[DTypeName, AccuracyName] = {
    d.name: d.accuracy for d in DTYPES.values() if d.name != "float8_e4m3" and not d.is_complex
}
COMPLEX_ACCURACY: dict[DTypeName, AccuracyName] = {d.name: d.accuracy for d in DTYPES.values() if d.is_complex}

# Relative error of one rounding step in the arithmetic that a class allows for operands and partial sums.
ACCURACY_UNIT_ROUNDOFF: dict[AccuracyName, float] = {
    "bf16": 2.0**-8,
    "fp16": 2.0**-11,
    "tf32": 2.0**-11,
    "fp32": 2.0**-24,
    "fp64": 2.0**-53,
    "exact": 0.0,
    "fp8": 2.0**-12,
    "fp32_normwise": 2.0**-24,
}

# Magnitudes of operands between which a class keeps that roundoff, where it has not the exponents of float32: smaller
# ones are rounded as the smallest is, larger ones are lost.
ACCURACY_RANGE: dict[AccuracyName, tuple[float, float]] = {"fp16": (2.0**-14, DTYPES["float16"].largest)}

# Classes whose partial sums are shorter than what kernels sum that type in, and the same of them: Hopper's tensor cores
# keep 14 bits of a sum of 8-bit products and cut the rest (DeepSeek-V3 Technical Report, arXiv 2412.19437, section
# 3.3.2): a cut is off by up to a whole unit of the last place, where a rounding is by half of one. Operands are taken
# as they are.
# Products put together from sums of quarters round that much more (docs/notes/strassen.md derives it).
ACCURACY_SUM_ROUNDOFF: dict[AccuracyName, float] = {
    "fp8": ACCURACY_UNIT_ROUNDOFF["fp8"],
    "fp32_normwise": 11 * ACCURACY_UNIT_ROUNDOFF["fp32_normwise"],
}

# Classes whose errors are in proportion to the largest rows of A and columns of B, and not to an element's own.
NORMWISE: frozenset[AccuracyName] = frozenset({"fp32_normwise"})

# From loose to strict; `exact` stands apart because only integer products are exact.
_STRICTNESS: dict[AccuracyName, int] = {
    "fp8": 0,
    "bf16": 1,
    "fp16": 2,
    "tf32": 2,
    "fp32_normwise": 3,
    "fp32": 4,
    "fp64": 5,
    "exact": 6,
}


def loosest(classes: Iterable[AccuracyName]) -> AccuracyName:
    """The loosest of some classes; the first among equals."""
    return min(classes, key=_STRICTNESS.__getitem__)


def meets(offered: AccuracyName, asked: AccuracyName) -> bool:
    """Whether a kernel of class `offered` may serve a request for `asked`. A class with a narrow range, or with
    normwise errors, serves only requests for exactly that class, because it depends on the operands.
    """
    if offered in ACCURACY_RANGE or offered in NORMWISE:
        return offered == asked
    return _STRICTNESS[offered] >= _STRICTNESS[asked]


@dataclass(frozen=True, slots=True)
class Problem:
    """One product to compute: C[b] = op(A[b]) · op(B[b]), op being the transpose where asked, and of complex operands
    the conjugate where asked: both together are the conjugate transpose, BLAS's C.

    `m`, `n`, `k` are the sizes after transposition; `batch` is 1 for a plain product. An operand whose
    `batched` flag is off is one matrix used for every product of the batch. `symmetric`: both operands are one real
    matrix, one of them transposed, so that C is its own transpose (`kernels/model/triangle.py`).
    """

    m: int
    n: int
    k: int
    dtype: DTypeName
    batch: int = 1
    transpose_a: bool = False
    transpose_b: bool = False
    a_batched: bool = False
    b_batched: bool = False
    conjugate_a: bool = False
    conjugate_b: bool = False
    symmetric: bool = False
    scale_columns: int = 0  # columns of B that share a scale (kernels/model/scales.py); 0 without scales
    group_sizes: tuple[int, ...] = ()  # rows of A for each matrix of B (kernels/model/groups.py); () for all

    @classmethod
    def of_shapes(
        cls,
        a: tuple[int, ...],
        b: tuple[int, ...],
        dtype: DTypeName,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        conjugate_a: bool = False,
        conjugate_b: bool = False,
        symmetric: bool = False,
    ) -> Problem:
        """The problem of operands as stored, (rows, columns) or (batch, rows, columns), whose sizes fit each other. The
        conjugate flags are ignored for real types."""
        m, k = (a[-1], a[-2]) if transpose_a else (a[-2], a[-1])
        n = b[-2] if transpose_b else b[-1]
        batch = next((shape[0] for shape in (a, b) if len(shape) == 3), 1)
        conjugates = (conjugate_a, conjugate_b) if DTYPES[dtype].is_complex else (False, False)
        batched = len(a) == 3, len(b) == 3
        return cls(m, n, k, dtype, batch, transpose_a, transpose_b, *batched, *conjugates, symmetric)

    @classmethod
    def in_batch(cls, m: int, n: int, k: int, dtype: DTypeName, batch: int = 1) -> Problem:
        """A product or, if `batch` is above 1, that many, each with its own operands."""
        return cls(m, n, k, dtype, batch, a_batched=batch > 1, b_batched=batch > 1)

    @property
    def flops(self) -> int:
        """The number of real multiplications and additions in the whole batch."""
        steps = self.batch * self.m * self.n * self.k
        return (8 if DTYPES[self.dtype].is_complex else 2) * steps

    @property
    def as_real(self) -> Problem:
        """The equivalent real problem of a complex product; a real problem unchanged.

        Row i of A is (Re aᵢ₁, Im aᵢ₁, Re aᵢ₂, …), as it is stored, and so is row i of C. Each element b = r + is of B
        becomes the 2×2 block of its multiplication, (r, s) above (−s, r); conjugates are among its signs. So each part
        of an element of C is a sum of 2k real terms, and there are as many operations (F. G. Van Zee, "Implementing
        high-performance complex matrix multiplication via the 1m method", SIAM J. Sci. Comput. 42(5), 2020).
        """
        real = DTYPES[self.dtype].part
        if real is None:
            return self
        batched = self.a_batched, self.b_batched
        return Problem(self.m, 2 * self.n, 2 * self.k, real, self.batch, False, False, *batched)

    @property
    def product_dtype(self) -> DTypeName:
        return DTYPES[self.dtype].product

    @property
    def product_shape(self) -> tuple[int, ...]:
        core = (self.m, self.n)
        return (self.batch, *core) if self.a_batched or self.b_batched else core

    @property
    def product_bytes(self) -> int:
        return self.batch * self.m * self.n * DTYPES[self.product_dtype].itemsize

    @property
    def operand_bytes(self) -> int:
        """Bytes of both operands, each read once."""
        size = DTYPES[self.dtype].itemsize
        a = self.m * self.k * (self.batch if self.a_batched else 1)
        b = self.k * self.n * (self.batch if self.b_batched else len(self.group_sizes) or 1)
        return (a + b) * size


def gflops(problem: Problem, kernel_ms: float) -> float | None:
    """Billions of operations per second; None if the time was too short to measure."""
    return problem.flops / (kernel_ms * 1e6) if kernel_ms > 0 else None
