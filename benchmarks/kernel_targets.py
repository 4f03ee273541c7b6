"""Targets for the fast kernels: speed over the library's kernel of the same class, in the same run. Data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from jobs.benchmarks.cases import library_of
from kernels.catalog import BY_NAME
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.selection.distance import whole_runs

Bounds = tuple[float, float]  # what a ratio must reach, and what it aims at
PADDED_TO = 64
AUTO = "auto"  # in place of a kernel: what `auto` takes


class TargetShape(NamedTuple):
    """A product, or a batch of products in one launch: m×k times k×n."""

    m: int
    n: int
    k: int
    batch: int = 1

    def __str__(self) -> str:
        """For example 64×64×64 in batches of 1024; N alone for a square."""
        extents = str(self.n) if self.m == self.n == self.k else f"{self.m}×{self.n}×{self.k}"
        return extents if self.batch == 1 else f"{self.batch} of {extents}"

    @property
    def padded(self) -> TargetShape:
        """The shape with m, n and k at the next multiples of PADDED_TO."""
        m, n, k = (-(-size // PADDED_TO) * PADDED_TO for size in self[:3])
        return TargetShape(m, n, k, self.batch)

    @property
    def spec_fields(self) -> dict[str, int]:
        """The fields of a benchmark's spec."""
        return {name: size for name, size in self._asdict().items() if name != "batch" or size > 1}


Size = int | TargetShape  # an int is the N of a square product

# Many short rounds: at the power limit a kernel's clock varies by a tenth from round to round.
CAREFUL: Mapping[str, float] = {
    "rounds": 6,
    "warmup_ms": 40.0,
    "min_samples": 10,
    "min_time_s": 0.06,
    "timeout_s": 4.0,
}
# For a curve of many sizes: enough to see its shape.
QUICK: Mapping[str, float] = {
    "rounds": 1,
    "warmup_ms": 20.0,
    "min_samples": 5,
    "max_samples": 30,
    "min_time_s": 0.03,
    "timeout_s": 4.0,
}
ENERGY_S = 0.5  # of a steady loop

# Speeds over the library's best, which pads odd sizes and takes the fastest of its own proposals.
SIXTEEN_BITS: Mapping[Size, Bounds | None] = dict.fromkeys(
    (2047, 2049, 3072, 4096, 4097, 5120, 8192, 8193, 16_384), (1.0, 1.05)
)
TF32: Mapping[Size, Bounds | None] = dict.fromkeys((4096, 4097, 8192, 8193), (1.0, 1.1))
FLOAT64: Mapping[Size, Bounds | None] = dict.fromkeys((2047, 2048, 3000, 4096, 4097, 8192), (1.0, 1.03))
# Of the kernel without TMA. Other devices were not measured; on Hopper it must be level where rows are not aligned.
FLOAT64_WITHOUT_TMA: Mapping[Size, Bounds | None] = {**dict.fromkeys(FLOAT64), 2047: (1.0, 1.03), 4097: (1.0, 1.03)}
INT8: Mapping[Size, Bounds | None] = {
    **dict.fromkeys((2047, 2049, 4097, 8193), (1.3, 1.7)),
    **dict.fromkeys((4096, 8192), (1.2, 1.3)),
}
FLOAT32: Mapping[Size, Bounds | None] = {
    **dict.fromkeys((1025, 4097), (1.05, 1.3)),
    **dict.fromkeys((1500, 3000, 6000), (1.05, 1.1)),
    **dict.fromkeys((4096, 8192), (1.0, 1.12)),
}
FLOAT8: Mapping[Size, Bounds | None] = dict.fromkeys((4096, 8192), (1.0, 1.25))
STRASSEN: Mapping[Size, Bounds | None] = dict.fromkeys((8192, 16384), (1.05, 1.1))

PADDED = "_padded"  # suffix of names of benchmarks of a library at padded sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A kernel of one element type, and the speeds that it must reach."""

    kernel: str  # or AUTO
    dtype: DTypeName
    bounds: Mapping[Size, Bounds | None]  # None: only the mean over all sizes has a bound
    mean: Bounds | None = None  # for the geometric mean over all sizes
    products: str = ""  # which products these are, if a kernel has several targets
    config: Mapping[str, int] = field(default_factory=dict)  # requested config of the kernel
    baseline: str = "auto"  # what it is compared with: the library, or a kernel by its name
    others: Sequence[Mapping[str, int]] = ()  # further configs measured beside it, for the tables that `auto` reads
    beside: Sequence[str] = ()  # further kernels in the same rounds: the tuned library, and other candidates of `auto`
    timing: Mapping[str, float] = field(default_factory=lambda: CAREFUL)

    @property
    def name(self) -> str:
        """The unique name under which its benchmark's results are kept."""
        return "_".join(filter(None, (self.kernel, self.products)))

    @property
    def by_shape(self) -> Mapping[TargetShape, Bounds | None]:
        """Its bounds, small products first."""
        of_shapes = {_shape(size): bounds for size, bounds in self.bounds.items()}
        return dict(sorted(of_shapes.items(), key=lambda item: (item[0].batch, item[0])))

    @property
    def dense_name(self) -> str:
        """The name of its benchmark on dense rows."""
        return f"{self.name}_dense"

    @property
    def specs(self) -> Mapping[str, dict[str, Any]]:
        """The benchmarks that measure it, by name: on padded rows, then on dense rows if these differ.

        Each has its baseline in every round. If a caller might pad a shape for the library, the library alone is also
        measured at the padded shape, unless it is tuned together with the kernel: then it pads by itself.
        """
        pitched, dense = list(self.by_shape), [shape for shape in self.by_shape if self._is_ragged(shape)]
        found = {self.name: self._spec(self.name, "padded", pitched)}
        if dense:
            found[self.dense_name] = self._spec(self.dense_name, "dense", dense)
        if (padded := self.padded_shapes) and self.tuned_library is None:
            alone = {"kernels": [self.library], "baseline": "none", "title": f"{self.library} at padded sizes"}
            found[self.padded_name] = self._spec(self.padded_name, "padded", sorted(set(padded.values()))) | alone
        return found

    @property
    def padded_name(self) -> str:
        """Name of the benchmark of the library at padded sizes."""
        return f"{self.name}{PADDED}"

    @property
    def padded_shapes(self) -> Mapping[TargetShape, TargetShape]:
        """Shapes that a caller might pad with zeros for the library, because their rows are not aligned for wide loads;
        with the padded shapes."""
        if self.baseline != "auto":
            return {}
        return {shape: shape.padded for shape in self.by_shape if self._is_ragged(shape)}

    @property
    def library(self) -> str:
        """The library's kernel of the same element type and accuracy."""
        accuracy = DTYPES[self.dtype].accuracy if self.kernel == AUTO else BY_NAME[self.kernel].accuracy[self.dtype]
        return library_of(self.dtype, accuracy, promoted=self.config.get("promote") != 0)

    @property
    def tuned_library(self) -> str | None:
        """The tuned library, on sizes as they are or zero-padded, if it is measured together with the kernel."""
        tuned = f"{self.library}_tuned"
        return tuned if tuned in self.beside else None

    def _is_ragged(self, shape: TargetShape) -> bool:
        """Whether dense rows begin at addresses that are not aligned for wide loads."""
        return not whole_runs(Problem(*shape[:3], self.dtype))

    def _spec(self, name: str, layout: str, shapes: Sequence[TargetShape]) -> dict[str, Any]:
        configs = [dict(config) for config in (self.config, *self.others)]
        others = [{"kernel": name, "configs": [{}]} for name in self.beside]
        return {
            "title": f"{name} beside {'the library' if self.baseline == 'auto' else self.baseline}",
            "kernels": "best" if self.kernel == AUTO else [{"kernel": self.kernel, "configs": configs}, *others],
            "dtypes": [self.dtype],
            "shapes": [shape.spec_fields for shape in shapes],
            "data": {"layout": layout},
            "timing": dict(self.timing),
            "baseline": self.baseline,
            "energy": {"enabled": self.timing is CAREFUL, "window_s": ENERGY_S},
        }


def _shape(size: Size) -> TargetShape:
    return size if isinstance(size, TargetShape) else TargetShape(size, size, size)


TARGETS = (
    Target(kernel="hopper_bf16", dtype="bfloat16", bounds=SIXTEEN_BITS, beside=("cublas_tuned",)),
    Target(kernel="hopper_fp16", dtype="float16", bounds=SIXTEEN_BITS, beside=("cublas_tuned",)),
    Target(kernel="tensor_fp64", dtype="float64", bounds=FLOAT64_WITHOUT_TMA, beside=("cublas_tuned",)),
    Target(kernel="hopper_fp64", dtype="float64", bounds=FLOAT64, beside=("cublas_tuned",)),
    Target(kernel="hopper_int8", dtype="int8", bounds=INT8, beside=("cublas_tuned",)),
    Target(kernel="hopper_tf32", dtype="float32", bounds=TF32, beside=("cublas_tf32_tuned",)),
    # Compared with `cublas`, and without promotion with `cublas_fp8_fast`.
    Target(kernel="hopper_fp8", dtype="float8_e4m3", bounds=FLOAT8),
    Target(kernel="hopper_fp8", dtype="float8_e4m3", bounds=FLOAT8, products="fast", config={"promote": 0}),
    Target(kernel="hopper_fp32", dtype="float32", bounds=FLOAT32, beside=("cublas_tuned",)),
    # Over the kernel that computes its products, which it must outperform; over the library, whose class is stricter.
    Target(kernel="strassen", dtype="float32", bounds=STRASSEN, products="over_pipelined", baseline="pipelined"),
    Target(kernel="strassen", dtype="float32", bounds=STRASSEN),
    Target(
        kernel="fp32_emulated",
        dtype="float32",
        bounds={2048: (1.5, 2.5), 4096: (2.5, 4.0), 8192: (3.0, 5.0)},
        beside=("cublas_tuned",),
    ),
    Target(
        kernel="fp64_emulated",
        dtype="float64",
        bounds={4096: (1.2, 1.5), 8192: (1.4, 1.8), 16_384: (1.5, 2.0)},
        beside=("cublas_tuned", "tensor_fp64"),
    ),
    Target(
        kernel="complex_as_real",
        dtype="complex64",
        products="complex64",
        bounds={2048: None, 4096: (2.5, 4.0), 8192: None},
    ),
    Target(
        kernel="complex_as_real",
        dtype="complex128",
        products="complex128",
        config={"emulated": 1},
        bounds={2048: None, 4096: (1.5, 2.3), 8192: None},
    ),
    Target(
        kernel=AUTO,
        dtype="float32",
        products="small",
        bounds=dict.fromkeys((64, 128, 256, 512, TargetShape(16, 8192, 8192), TargetShape(8192, 16, 8192))),
        mean=(1.0, 1.3),
    ),
    Target(
        kernel=AUTO,
        dtype="float32",
        products="batched",
        bounds=dict.fromkeys((TargetShape(64, 64, 64, 1024), TargetShape(32, 32, 32, 4096)), (0.9, 1.2)),
    ),
)

# Further sizes of the plot: aligned ones, and those that follow them.
ALIGNED = (1024, 1536, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384)
# Configs that are measured besides the default: with more products a kernel is as exact as the library at more sizes,
# and `emulated` makes complex128 products of real ones that are more exact than the library's. Those of complex64 are
# not, unless `auto` chooses how many products they take.
FURTHER_CONFIGS: Mapping[tuple[str, DTypeName], Sequence[Mapping[str, int]]] = {
    ("fp32_emulated", "float32"): tuple({"min_products": min_products} for min_products in (7, 8, 10)),
    ("complex_as_real", "complex128"): ({"emulated": 1},),
}
MAX_OF_WIDE = 8192  # of types of four bytes and more: at 16,384 a sample of the library takes a fifth of a second


def plotted(dtype: DTypeName) -> tuple[int, ...]:
    """Every N of the plot, in rising order."""
    sizes = [n for n in ALIGNED if DTYPES[dtype].itemsize <= 2 or n <= MAX_OF_WIDE]
    return tuple(sorted(chain(sizes, (n + 1 for n in sizes))))


def _curve(target: Target) -> Target:
    """The sizes of the plot that are not sizes of the target."""
    sizes = [n for n in plotted(target.dtype) if _shape(n) not in target.by_shape]
    return Target(
        kernel=target.kernel,
        dtype=target.dtype,
        products="curve",
        bounds=dict.fromkeys(sizes),
        others=FURTHER_CONFIGS.get((target.kernel, target.dtype), ()),
        beside=target.beside,
        timing=QUICK,
    )


CURVES = tuple(
    _curve(target) for target in TARGETS if target.kernel != AUTO and not target.products and target.baseline == "auto"
)
