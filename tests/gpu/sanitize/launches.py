"""The launches of the sweep: each kernel in each of its types, and with all that is compiled into it otherwise."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from kernels.catalog import CATALOG
from kernels.entries.hopper.waves import BLOCK_M, COUNTER, cut_always, workspace
from kernels.model.activations import ACTIVATION_NAMES
from kernels.model.edge import MAX_EDGE
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.fused import FusedEpilogue
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.model.scales import SCALE_WIDTHS
from kernels.selection.defaults import example, main_dtype
from kernels.selection.triangles import computes_triangle
from tests.gpu.sanitize.case import NORMAL, NOT_FINITE, Swept
from tests.gpu.sanitize.waves import with_several_tiles
from tests.support.kernels.catalogue import pair_dtypes

# m, n, k, batch: parts of tiles on every side. Rows of the second begin where bulk copies do not reach.
LARGER, BATCHED = (133, 261, 67, 1), (40, 50, 33, 2)
DEEP, DEEPER = (133, 261, 1031), (300, 300, 2100)  # whose tiles are cut along k, of some kernels and of all others
GROUP_SIZES = (65, 0, 1, 67)  # of the rows of the first
TRANSPOSES = ((False, False), (False, True), (True, False), (True, True))


def on_gpu(traits: DeviceTraits) -> tuple[CudaKernel, ...]:
    """Kernels of ours that this device runs."""
    ours = (kernel for kernel in CATALOG if isinstance(kernel, CudaKernel))
    return tuple(kernel for kernel in ours if kernel.unsupported_because(traits) is None)


def launches(traits: DeviceTraits, names: Collection[str]) -> Iterator[Swept]:
    """To be planned and launched within `mirrored_at_any_size`."""
    for kernel in on_gpu(traits):
        if kernel.name in names:
            for dtype in kernel.dtypes:
                if kernel.unsupported_because(traits, dtype) is None:
                    swept = [*_of_type(kernel, dtype, traits), *_otherwise_compiled(kernel, dtype, traits)]
                    yield from swept
                    yield from with_several_tiles(swept, traits)


def _of_type(kernel: CudaKernel, dtype: DTypeName, traits: DeviceTraits) -> Iterator[Swept]:
    """The defaults for large and small products in the main element type, for medium ones in the others; with an edge
    where there may be one.

    Kernels whose passes look at the operands meet numbers too that they leave to another way.
    """
    for config, problem in _plain(kernel, dtype, traits):
        for fill in (NORMAL,) if kernel.passes is None else (NORMAL, NOT_FINITE):
            yield Swept(kernel, config, problem, fill)


def _plain(kernel: CudaKernel, dtype: DTypeName, traits: DeviceTraits) -> Iterator[tuple[TileConfig, Problem]]:
    is_main = dtype == main_dtype(kernel)
    for bucket in ("large", "small") if is_main else ("medium",):
        config = kernel.resolve_config(_asked(kernel, MAX_EDGE), example(bucket, dtype), traits)
        for transposes in TRANSPOSES if is_main else TRANSPOSES[:1]:
            yield config, Problem(*LARGER[:3], dtype, 1, *transposes)
        m, n, k, batch = BATCHED
        yield config, Problem(m, n, k, dtype, batch, *TRANSPOSES[1], a_batched=True)
        for pairs in pair_dtypes(kernel) if is_main else ():
            for of_a, of_b in TRANSPOSES:  # the conjugate transpose of each
                pair = Problem(*LARGER[:3], pairs, 1, of_a, of_b, conjugate_a=of_a, conjugate_b=of_b)
                yield config, pair


def _asked(kernel: CudaKernel, edge: int) -> TileConfig:
    """With that edge, and so that small products go the way of large ones."""
    values = {"edge": edge} | {each.name: min(each.values) for each in kernel.parameters if each.name == "min_side"}
    return {name: value for name, value in values.items() if any(each.name == name for each in kernel.parameters)}


def _otherwise_compiled(kernel: CudaKernel, dtype: DTypeName, traits: DeviceTraits) -> Iterator[Swept]:
    """Rows in groups, block scales, one triangle, sums that are not promoted, tiles cut along k, clusters in step,
    epilogues of its own."""
    plain = Problem(*LARGER[:3], dtype)
    usual = kernel.resolve_config(_asked(kernel, 0), plain, traits)
    grouped = replace(plain, group_sizes=GROUP_SIZES)
    if kernel.takes_groups_of(grouped):
        for transpose_b in (False, True):
            problem = replace(grouped, transpose_b=transpose_b)
            yield Swept(kernel, kernel.resolve_config(NO_CONFIG, problem, traits), problem)
    for columns in SCALE_WIDTHS if kernel.scales is not None else ():
        scaled = replace(plain, scale_columns=columns, transpose_b=columns > 1)
        yield Swept(kernel, kernel.resolve_config(NO_CONFIG, scaled, traits), scaled)
        for output in kernel.fused_outputs.get(dtype, ())[:1]:
            yield Swept(
                kernel,
                kernel.resolve_config(NO_CONFIG, scaled, traits),
                scaled,
                fused=FusedEpilogue(output, True, True),
            )
    yield from _shared_out(kernel, dtype, traits)
    yield from _triangles(kernel, dtype, traits)
    if any(parameter.name == "promote" for parameter in kernel.parameters):
        for transpose_b in (False, True):
            alone = replace(plain, transpose_b=transpose_b)
            yield Swept(kernel, kernel.resolve_config({"promote": 0}, alone, traits), alone)
    if kernel.workspace is workspace:  # of all, the longest have clusters in step, and the deepest are cut
        yield Swept(replace(kernel, workspace=lambda *_: COUNTER), usual, plain)
    if kernel.passes is not None:
        yield Swept(kernel, usual, Problem(*DEEPER, dtype))
    is_cut = kernel.workspace is workspace and DTYPES[dtype].itemsize == 2
    if is_cut:
        usual = kernel.resolve_config({"block_m": BLOCK_M}, plain, traits)
        yield Swept(cut_always(kernel), usual, Problem(*DEEP, dtype))
    for index, fused in enumerate(epilogues(kernel, dtype)):
        product = replace(plain, transpose_b=index % 2 == 1)
        yield Swept(kernel, usual, product, fused=fused)
        if is_cut and fused.has_c:
            yield Swept(cut_always(kernel), usual, replace(product, k=DEEP[2]), fused=fused)


def _shared_out(kernel: CudaKernel, dtype: DTypeName, traits: DeviceTraits) -> Iterator[Swept]:
    """Few tiles, which resident blocks cut along k; Hopper's tensor cores, and kernels with passes, do so otherwise."""
    if kernel.workspace is workspace or kernel.passes is not None:
        return
    deep, asked = Problem(*DEEP, dtype), _asked(kernel, 0)
    asked = {**asked, "resident": 1} if any(each.name == "resident" for each in kernel.parameters) else asked
    one = Swept(kernel, kernel.resolve_config(asked, deep, traits), deep)
    if one.plan.main.parts > 1:
        yield one


def _triangles(kernel: CudaKernel, dtype: DTypeName, traits: DeviceTraits) -> Iterator[Swept]:
    if kernel.triangle is None:
        return
    m, k = LARGER[1:3]
    for transposes in TRANSPOSES[1:3]:
        problem = Problem(m, m, k, dtype, 1, *transposes, symmetric=True)
        every = (kernel.resolve_config(default.config, None, traits) for default in kernel.defaults)
        able = (each for each in every if computes_triangle(kernel, each, problem))
        config = min(able, key=lambda each: each["block_m"] * each["block_n"])
        yield Swept(kernel, config, problem)


def epilogues(kernel: CudaKernel, dtype: DTypeName) -> Iterator[FusedEpilogue]:
    """Each addend, each activation, each type. C and a bias are added where they have the type that is stored."""
    for output in kernel.fused_outputs.get(dtype, ()):
        yield FusedEpilogue(output)
        if DTYPES[output].itemsize < DTYPES[DTYPES[dtype].product].itemsize:
            continue
        yield from (FusedEpilogue(output, has_c, not has_c) for has_c in (False, True))
        for index, activation in enumerate(ACTIVATION_NAMES):
            yield FusedEpilogue(output, index % 2 == 1, index // 2 == 1, activation)
