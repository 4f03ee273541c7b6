"""The forms of random products: plain ones, and one for each option of a request. A form says which kernels and which
types it is for, and draws a product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from kernels.model.bounds import Magnitudes, proven_bound
from kernels.model.entry.config import NO_CONFIG, ConfigError, TileConfig
from kernels.model.kernel import CudaKernel, DeviceTraits, Kernel
from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.numerics import ACCURACY_RANGE, DTYPES, DTypeName, Problem
from kernels.model.outputs import WIDENED
from kernels.model.scales import SCALE_WIDTHS, SCALED_DTYPE
from kernels.selection.demands import ToleranceKind
from kernels.selection.triangles import computes_triangle
from tests.stress.endings import Ending, ending, fused_ending
from tests.stress.sizes import may_be_empty, most_of, sizes
from tests.stress.ways import FusedWay, Way
from worker.cuda.epilogue.fusable import NARROW_CLASSES

FormName = Literal[
    "plain", "symmetric", "grouped", "scaled", "stacked", "epilogue", "fused", "widened", "tolerance", "reproducible"
]
BATCHED, LARGEST_BATCH = 0.25, 12
STACKED, LARGEST_STACKED = 16, 1024  # jobs of a launch, and rows or columns of a light product
RAGGED_ELEMENTS = 3 << 14  # of all matrices of jobs of unequal sizes, which share a launch where they are small
LARGE = (64, 1500)  # sizes of which kernels with passes multiply themselves
FEW_GROUPS, MANY_GROUPS = 8, 64
LARGEST_SYMMETRIC = 2048
# Sizes of products that are checked by a sketch: only such have an epilogue of their kernel's.
LONG_MULTIPLICATIONS, LONG_EXTENTS = 1 << 28, ((256, 3000), (256, 3000), (72, 4096))
PROVEN = Magnitudes(8.0, 2.0**-6)  # of operands of products with a tolerance
# Multiply-adds of these: the reference of float64 is summed in longer numbers, without BLAS.
PROVEN_MULTIPLICATIONS, PROVEN_FLOAT64 = 1 << 24, 1 << 22
KINDS: tuple[ToleranceKind, ...] = ("componentwise", "normwise")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A product, and what is asked of it. `config`: as it is asked for."""

    problem: Problem
    config: TileConfig
    ending: Ending | None = None
    scale_width: int = 0  # rows of A that share a scale; 0 without scales
    stored: DTypeName | None = None  # the type of operands that are widened
    tolerance: tuple[ToleranceKind, float] | None = None
    ragged: bool = False  # jobs of unequal sizes


@dataclass(frozen=True, slots=True)
class Draw:
    """What a form draws with. `exact`: the product is of small integers."""

    random: Random
    kernel: Kernel
    way: Way
    fused: FusedWay | None
    device: DeviceTraits
    exact: bool

    @property
    def most(self) -> int:
        return most_of(self.kernel.device_class, self.way.dtype)

    def problem(self) -> Problem:
        """Any: transposed or not, conjugated or not, some in batches."""
        random, way = self.random, self.way
        batch, over_a, over_b = self.batch()
        m, n, k = sizes(random, 3, self.most // batch, self.extents())
        of_a, of_b = (DTYPES[way.dtype].is_complex and random.random() < 0.5 for _ in range(2))
        return Problem(m, n, may_be_empty(random, k), way.dtype, batch, *way.transposes, over_a, over_b, of_a, of_b)

    def extents(self) -> Sequence[tuple[int, int]]:
        """Usual ones; of a kernel that leaves small products to another way, in half of them larger ones."""
        has_passes = isinstance(self.kernel, CudaKernel) and self.kernel.passes is not None
        return (LARGE,) * 3 if has_passes and self.random.random() < 0.5 else ()

    def batch(self) -> tuple[int, bool, bool]:
        if self.random.random() >= BATCHED:
            return 1, False, False
        return self.random.randint(2, LARGEST_BATCH), *self.random.choice(((True, True), (True, False), (False, True)))


def plain(draw: Draw) -> Drawn:
    return Drawn(draw.problem(), draw.way.config)


def symmetric(draw: Draw) -> Drawn:
    """A matrix times its own transpose. A kernel that can compute one triangle does so in most of them."""
    random = draw.random
    n, k = sizes(random, 2, draw.most, ((1, LARGEST_SYMMETRIC), (1, LARGEST_SYMMETRIC // 2)))
    n = min(n, int((draw.most // max(k, 1)) ** 0.5))
    first = draw.way.transposes[0]
    problem = Problem(n, n, k, draw.way.dtype, 1, first, not first, symmetric=True)
    configs = [draw.way.config, *(default.config for default in draw.kernel.defaults)]
    halves = [each for each in configs if _halves(draw, each, problem)]
    return Drawn(problem, random.choice(halves) if halves else draw.way.config)


def _halves(draw: Draw, config: TileConfig, problem: Problem) -> bool:
    try:
        full = draw.kernel.resolve_config(config, problem, draw.device)
    except ConfigError:
        return False
    return isinstance(draw.kernel, CudaKernel) and computes_triangle(draw.kernel, full, problem)


def grouped(draw: Draw) -> Drawn:
    random = draw.random
    m, n, k = sizes(random, 3, draw.most)
    count = random.randint(1, FEW_GROUPS) if random.random() < 0.7 else random.randint(FEW_GROUPS, MANY_GROUPS)
    ends = sorted(random.randint(0, m) for _ in range(count - 1))
    sizes_of_groups = tuple(end - begin for begin, end in zip([0, *ends], [*ends, m], strict=True))
    problem = Problem(
        m, n, may_be_empty(random, k), draw.way.dtype, transpose_b=draw.way.transposes[1], group_sizes=sizes_of_groups
    )
    return Drawn(problem, draw.way.config)


def scaled(draw: Draw) -> Drawn:
    """Half of them with an epilogue."""
    problem = replace(draw.problem(), scale_columns=draw.random.choice(SCALE_WIDTHS))
    problem = replace(problem, k=max(problem.k, 1))
    after = ending(draw.random, problem, exact=draw.exact) if draw.random.random() < 0.5 else None
    return Drawn(problem, _with_scales(draw, problem), after, draw.random.choice(SCALE_WIDTHS))


def _with_scales(draw: Draw, problem: Problem) -> TileConfig:
    """The way's config, where it takes scales."""
    try:
        draw.kernel.resolve_config(draw.way.config, problem, draw.device)
    except ConfigError:
        return NO_CONFIG
    return draw.way.config


def stacked(draw: Draw) -> Drawn:
    """Light products of several jobs in one launch."""
    random = draw.random
    batch = random.randint(2, STACKED)
    m, n, k = (min(size, LARGEST_STACKED) for size in sizes(random, 3, draw.most // batch, draw.extents()))
    problem = Problem(m, n, k, draw.way.dtype, batch, *draw.way.transposes, a_batched=True, b_batched=True)
    elements = batch * (m * n + (m + n) * k)
    return Drawn(problem, draw.way.config, ragged=elements <= RAGGED_ELEMENTS and random.random() < 0.5)


def with_epilogue(draw: Draw) -> Drawn:
    problem = draw.problem()
    return Drawn(problem, draw.way.config, ending(draw.random, problem, exact=draw.exact))


def fused(draw: Draw) -> Drawn:
    """So long that the kernel itself does the epilogue; of 8-bit operands half with scales."""
    assert draw.fused is not None
    problem, config = _long(draw, draw.way), draw.way.config
    width = 0
    if draw.kernel.scales is not None and draw.random.random() < 0.5:
        width, columns = (draw.random.choice(SCALE_WIDTHS) for _ in range(2))
        problem = replace(problem, scale_columns=columns)
        config = _with_scales(draw, problem)
    if any(parameter.name == "edge" for parameter in draw.kernel.parameters):
        config = {**config, "edge": 0}
    return Drawn(problem, config, fused_ending(draw.random, problem, draw.fused.fused, exact=draw.exact), width)


def widened(draw: Draw) -> Drawn:
    """Of 16-bit operands, delivered in float32. A kernel for these may multiply them as they are, where the class is
    theirs: then half of them are so long that one does, some with an epilogue."""
    has_range = draw.kernel.accuracy[draw.way.dtype] in ACCURACY_RANGE
    stored: DTypeName = "float16" if has_range else draw.random.choice(WIDENED)
    if is_free(draw.kernel, draw.way.dtype) and draw.random.random() < 0.5:
        problem = _long(draw, draw.way)
        assert draw.fused is not None
        after = fused_ending(draw.random, problem, draw.fused.fused, exact=draw.exact)
        return Drawn(problem, draw.way.config, draw.random.choice((None, after)), stored=stored)
    return Drawn(draw.problem(), draw.way.config, stored=stored)


def is_free(kernel: Kernel, dtype: DTypeName) -> bool:
    """Whether a request for `auto`, in the kernel's class, could be served by a kernel for the shorter type."""
    return kernel.accuracy[dtype] in NARROW_CLASSES


def _long(draw: Draw, way: Way) -> Problem:
    while True:
        batch, over_a, over_b = draw.batch()
        m, n, k = sizes(draw.random, 3, draw.most // batch, LONG_EXTENTS)
        if batch * m * n * k > LONG_MULTIPLICATIONS:
            return Problem(m, n, k, way.dtype, batch, *way.transposes, over_a, over_b)


def with_tolerance(draw: Draw) -> Drawn:
    """The lowest that is proven for such operands by the kernel; sums are as deep as something is."""
    random, dtype = draw.random, draw.way.dtype
    batch, over_a, over_b = draw.batch()
    m, n, k = sizes(random, 3, (PROVEN_FLOAT64 if dtype == "float64" else PROVEN_MULTIPLICATIONS) // batch)
    problem = Problem(m, n, k, dtype, batch, *draw.way.transposes, over_a, over_b)
    while not (bounds := proven(draw.kernel, problem)):
        problem = replace(problem, k=problem.k // 2)
    return Drawn(problem, draw.way.config, tolerance=random.choice(bounds))


def proven(kernel: Kernel, problem: Problem) -> Sequence[tuple[ToleranceKind, float]]:
    bound = proven_bound(kernel, problem, PROVEN, PROVEN)
    each = zip(KINDS, (bound.componentwise, bound.normwise), strict=True)
    return [(kind, value) for kind, value in each if value is not None]


def _takes_any(kernel: Kernel, _dtype: DTypeName) -> bool:
    return not kernel.needs_scales


def _is_real(kernel: Kernel, dtype: DTypeName) -> bool:
    return not kernel.needs_scales and not DTYPES[dtype].is_complex


def _has_own_epilogue(kernel: Kernel, dtype: DTypeName) -> bool:
    return bool(getattr(kernel, "fused_outputs", {}).get(dtype))


def _has_bound(kernel: Kernel, dtype: DTypeName) -> bool:
    is_float = not DTYPES[dtype].is_integer
    return is_float and not kernel.needs_scales and bool(proven(kernel, Problem(1, 1, 1, dtype)))


@dataclass(frozen=True, slots=True)
class Form:
    """`weight`: how many products have it for one of the others."""

    suits: Callable[[Kernel, DTypeName], bool]
    draw: Callable[[Draw], Drawn]
    weight: int = 1


FORMS: Mapping[FormName, Form] = {
    "plain": Form(_takes_any, plain, 3),
    "symmetric": Form(_is_real, symmetric),
    "grouped": Form(lambda kernel, dtype: kernel.groups is not None and dtype in kernel.groups.dtypes, grouped),
    "scaled": Form(lambda kernel, dtype: kernel.scales is not None and dtype == SCALED_DTYPE, scaled, 2),
    "stacked": Form(
        lambda kernel, _: not kernel.needs_scales and not isinstance(kernel, HostLibraryKernel), stacked, 2
    ),
    "epilogue": Form(_takes_any, with_epilogue, 2),
    "fused": Form(_has_own_epilogue, fused, 4),
    "widened": Form(lambda kernel, dtype: dtype == "float32" and not kernel.needs_scales, widened),
    "tolerance": Form(_has_bound, with_tolerance),
    "reproducible": Form(lambda kernel, dtype: kernel.is_reproducible(dtype), plain),
}
