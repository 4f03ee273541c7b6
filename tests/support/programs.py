"""Programs that tests ask the compiler about: kernels with every transposition, for the H200, and what runs around a
kernel, for every architecture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kernels.catalog import CATALOG
from kernels.entries.hopper.waves import BLOCK_M, cut_always
from kernels.model.activations import ACTIVATION_NAMES, ActivationName
from kernels.model.architectures import ARCHITECTURES, H200
from kernels.model.buckets import BucketName
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.fused import FusedEpilogue
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPE_NAMES, DTYPES, DTypeName, Problem
from kernels.selection.defaults import example, main_dtype
from tests.support.grouped.programs import of_groups, of_hopper_groups
from tests.support.kernels.catalogue import cuda_kernel, pair_dtypes
from worker.cuda.sources import (
    TRANSPOSE_TILES,
    Program,
    activation_check_program,
    copy_program,
    digest_program,
    direct_program,
    epilogue_check_program,
    epilogue_program,
    fingerprint_program,
    fused_check_program,
    gather_program,
    kernel_program,
    mirror_program,
    recheck_program,
    results_program,
    scales_program,
    sketch_program,
    transpose_program,
)

KERNELS = [kernel for kernel in CATALOG if isinstance(kernel, CudaKernel)]
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
HOPPER: list[tuple[str, DTypeName]] = [
    ("hopper_bf16", "bfloat16"),
    ("hopper_fp16", "float16"),
    ("hopper_int8", "int8"),
    ("hopper_tf32", "float32"),
    ("hopper_fp8", "float8_e4m3"),
]
# Kernels that multiply an MN-major B out of registers, and the configs in which they do.
B_FROM_REGISTERS: list[tuple[str, DTypeName, TileConfig]] = [
    ("hopper_tf32", "float32", {"edge": 0}),
    ("hopper_int8", "int8", {}),
    ("hopper_fp8", "float8_e4m3", {"promote": 0}),
]
# Kernels with an epilogue of their own: the type of operands, and that of what is delivered.
FUSED: list[tuple[str, DTypeName, DTypeName]] = [
    ("hopper_bf16", "bfloat16", "bfloat16"),
    ("hopper_bf16", "bfloat16", "float32"),
    ("hopper_fp16", "float16", "float16"),
    ("hopper_fp16", "float16", "float32"),
    ("hopper_tf32", "float32", "float32"),
]
PROMOTED_WIDTHS = (64, 128, 192, 256)
SCALED_WIDTHS = ((64, 1), (128, 1), (64, 128), (128, 128), (256, 128))  # block_n, and columns of B that share a scale
WMMA_BUCKETS: tuple[BucketName, ...] = ("large", "medium", "small")


def program(
    kernel: CudaKernel, config: TileConfig, dtype: DTypeName, transposes: tuple[bool, bool] = (False, False)
) -> Program:
    return kernel_program(kernel, config, Problem(1, 1, 1, dtype, 1, *transposes))


def of_every_type(kernel: CudaKernel) -> list[Program]:
    """Each element type with two transpositions, so that each operand comes both ways."""
    return [
        program(kernel, kernel.resolve_config({}, Problem(1, 1, 1, dtype)), dtype, transposes)
        for index, dtype in enumerate(kernel.dtypes)
        for transposes in (TRANSPOSES[index % 2], TRANSPOSES[2 + index % 2])
    ]


def of_every_transposition(kernel: CudaKernel, dtype: DTypeName) -> list[Program]:
    """In the config that large products get on an H200."""
    config = kernel.resolve_config({}, example("large", dtype), H200.traits)
    return [program(kernel, config, dtype, transposes) for transposes in TRANSPOSES]


def of_pairs(kernel: CudaKernel) -> list[Program]:
    """Of complex operands that a kernel takes as they lie, in every config: both along and both across memory, with and
    without conjugates."""
    return [
        kernel_program(kernel, config, Problem(1, 1, 1, dtype, 1, way, not way, conjugate_a=way, conjugate_b=way))
        for dtype in pair_dtypes(kernel)
        for config in kernel.configs()
        for way in (False, True)
    ]


def of_every_width(name: str, dtype: DTypeName) -> list[Program]:
    """The default configs of a Hopper kernel and the transpositions, in step."""
    kernel = cuda_kernel(name)
    configs = [kernel.resolve_config(default.config) for default in kernel.defaults]
    count = max(len(configs), len(TRANSPOSES))
    each = [(configs[at % len(configs)], TRANSPOSES[at % len(TRANSPOSES)]) for at in range(count)]
    return [program(kernel, config, dtype, transposes) for config, transposes in each]


def with_b_from_registers(name: str, dtype: DTypeName, own: TileConfig) -> list[Program]:
    kernel = cuda_kernel(name)
    return [program(kernel, config, dtype) for config in kernel.configs() if {**config, **own} == config]


def promoted(block_n: int) -> Program:
    kernel = cuda_kernel("hopper_fp8")
    return program(kernel, kernel.resolve_config({"block_n": block_n, "promote": 1}), "float8_e4m3")


def of_fused(name: str, dtype: DTypeName, output: DTypeName) -> list[Program]:
    """In every size of a tile, with C and a bias; each activation once, with C or without; B in turn along and across
    k."""
    plain = FusedEpilogue(output, has_c=True, has_bias=True)
    by_width = list(enumerate(zip(PROMOTED_WIDTHS, ACTIVATION_NAMES, strict=True)))
    activated = [replace(plain, has_c=index // 2 == 1, activation=activation) for index, (_, activation) in by_width]
    of_widths = [
        fused_program(name, dtype, {"block_n": width}, fused, flip=index % 2 == 1)
        for index, (width, _) in by_width
        for fused in (plain, activated[index])
    ]
    every = [each.config for each in cuda_kernel(name).defaults]
    sizes = [config for config in every if config["block_m"] > BLOCK_M or config["block_n"] not in PROMOTED_WIDTHS]
    return of_widths + [fused_program(name, dtype, config, plain, flip=True) for config in sizes]


def fused_program(name: str, dtype: DTypeName, config: TileConfig, fused: FusedEpilogue, *, flip: bool) -> Program:
    kernel, problem = cuda_kernel(name), Problem(1, 1, 1, dtype, transpose_b=flip)
    return kernel_program(kernel, kernel.resolve_config(config), problem, fused=fused)


def of_the_fused_check(dtype: DTypeName, output: DTypeName) -> list[Program]:
    other, fused = None if output == dtype else output, FusedEpilogue(output, has_c=True, has_bias=True)
    again = sketch_program(dtype, (False, False), output=other), recheck_program(dtype, other)
    return [fused_check_program(dtype, fused), *again]


def with_scales(block_n: int, columns: int) -> Program:
    kernel = cuda_kernel("hopper_fp8")
    problem = Problem(1, 1, 1, "float8_e4m3", scale_columns=columns)
    return kernel_program(kernel, kernel.resolve_config({"block_n": block_n}, problem), problem)


def of_long() -> list[Program]:
    """Of products whose clusters are kept in step, in every width; B by turns along and across k."""
    found: list[Program] = []
    for kernel, dtype in ((cuda_kernel(name), dtype) for name, dtype in HOPPER):
        for index, default in enumerate(kernel.defaults):
            problem = Problem(30_208, 18_176, 90_000, dtype, transpose_b=index % 2 == 1)
            found.append(kernel_program(kernel, kernel.resolve_config(default.config), problem))
    return list(dict.fromkeys(found))


def of_cut() -> list[Program]:
    """Of products whose tiles are cut along k, in every width that such tiles have; B by turns along and across k, with
    what may follow a product and without."""
    found: list[Program] = []
    for name, dtype in HOPPER[:2]:
        kernel, fused = cut_always(cuda_kernel(name)), FusedEpilogue(dtype, has_c=True, has_bias=True)
        configs = [each.config for each in kernel.defaults if each.config["block_m"] == BLOCK_M]
        for index, config in enumerate(configs):
            problem = Problem(1024, 1024, 16_384, dtype, transpose_b=index % 2 == 1)
            for after in (None, fused, replace(fused, activation="gelu")):
                found.append(kernel_program(kernel, kernel.resolve_config(config), problem, fused=after))
    return list(dict.fromkeys(found))


def on_cuda_cores() -> list[Program]:
    """`hopper_fp32` in its defaults."""
    kernel = cuda_kernel("hopper_fp32")
    return [program(kernel, kernel.resolve_config(default.config), "float32") for default in kernel.defaults]


def of_float64(transposes: tuple[bool, bool], resident: int) -> Program:
    kernel = cuda_kernel("tensor_fp64")
    config = kernel.resolve_config({"resident": resident}, example("large", "float64"), H200.traits)
    return program(kernel, config, "float64", transposes)


def of_wmma(bucket: BucketName, transposes: tuple[bool, bool]) -> Program:
    kernel = cuda_kernel("tensor_wmma")
    dtype: DTypeName = "float16" if transposes[0] == transposes[1] else "bfloat16"
    return program(kernel, kernel.resolve_config(NO_CONFIG, example(bucket, dtype), H200.traits), dtype, transposes)


# What may follow a sum: on each architecture the type of A·B, an activation, and the type of what is delivered.
AFTER: tuple[tuple[DTypeName, ActivationName, DTypeName | None], ...] = (
    ("float32", "relu", "float16"),
    ("float32", "gelu", "bfloat16"),
    ("float64", "gelu_tanh", "float32"),
    ("bfloat16", "silu", None),
    ("float16", "gelu", None),
    ("float64", "silu", "float16"),
    ("float32", "gelu_tanh", None),
)


def of_the_check(arch: str) -> list[Program]:
    """Its sketches and what reads elements back: on each architecture the main element type and one other, so that
    every type and every way to lie has its turn."""
    index = tuple(ARCHITECTURES).index(arch)
    dtypes = _checked_on(index)
    floats = [each for each in dtypes if not DTYPES[each[0]].is_integer]
    again = [program for each in floats for program in (direct_program(*each), recheck_program(each[0]))]
    product = DTYPES[DTYPE_NAMES[index]].product
    return [
        *(*(sketch_program(*each) for each in dtypes), *again, gather_program(DTYPE_NAMES[index]), digest_program()),
        *(results_program(), fingerprint_program(DTYPES[DTYPE_NAMES[index]].itemsize)),
        *(epilogue_program(product), epilogue_check_program(product), scales_program()),
        *(make(*AFTER[index], has_bias=True) for make in (epilogue_program, epilogue_check_program)),
        activation_check_program(FusedEpilogue("float32", activation=AFTER[index][1])),
    ]


def _checked_on(index: int) -> list[tuple[DTypeName, tuple[bool, bool]]]:
    both = {"float32": TRANSPOSES[index % 4], DTYPE_NAMES[index]: TRANSPOSES[-1 - index % 4]}
    return [(dtype, transposes) for dtype, transposes in both.items()]


def of_transposition() -> list[Program]:
    return [transpose_program(itemsize) for itemsize in TRANSPOSE_TILES]


def of_triangles() -> list[Program]:
    """Of symmetric products that large, both ways."""
    found = []
    for kernel in KERNELS:
        if kernel.triangle is not None:
            for transposes in ((False, True), (True, False)):
                problem = Problem(4096, 4096, 4096, main_dtype(kernel), 1, *transposes, symmetric=True)
                found.append(kernel_program(kernel, kernel.resolve_config({}, problem, H200.traits), problem))
    return list(dict.fromkeys(found))


def of_the_mirror() -> list[Program]:
    return [mirror_program(itemsize) for itemsize in (2, 4, 8)]


def behind_others() -> list[tuple[Program, Program]]:
    """Kernels that stand behind another one, as they are and with a gate."""
    found = []
    for kernel in KERNELS:
        if kernel.fallback is not None:
            behind, problem = kernel.fallback.kernel, Problem(1, 1, 1, kernel.dtypes[0])
            for default in behind.defaults:
                plain, gated = (kernel_program(behind, default.config, problem, gated=gate) for gate in (False, True))
                found.append((plain, gated))
    return found


def of_a_gate() -> list[Program]:
    """What a kernel behind another one may need before it."""
    return [transpose_program(4, gated=True), copy_program()]


def programs() -> Iterator[tuple[Program, str]]:
    """All of the above, each with its architecture."""
    yield from ((program, H200.name) for program in _of_kernels())
    yield from ((sketch_program("float32", transposes), H200.name) for transposes in TRANSPOSES)
    yield from ((program, H200.name) for pair in behind_others() for program in pair)
    yield from ((program, H200.name) for program in (*of_a_gate(), *of_triangles()))
    yield from ((program, H200.name) for program in (*of_hopper_groups(), *of_long(), *of_cut()))
    for arch in ARCHITECTURES:
        around = (*of_the_check(arch), *of_transposition(), *of_the_mirror(), *of_groups(arch))
        yield from ((program, arch) for program in around)


def _of_kernels() -> Iterator[Program]:
    for kernel in KERNELS:
        yield from (*of_every_type(kernel), *of_pairs(kernel))
        for dtype in {main_dtype(kernel), kernel.dtypes[-1]}:
            yield from of_every_transposition(kernel, dtype)
    for name, dtype in HOPPER:
        yield from of_every_width(name, dtype)
    for name, dtype, own in B_FROM_REGISTERS:
        yield from with_b_from_registers(name, dtype, own)
    yield from map(promoted, PROMOTED_WIDTHS)
    for name, dtype, output in FUSED:
        yield from (*of_fused(name, dtype, output), *of_the_fused_check(dtype, output))
    yield from (with_scales(*widths) for widths in SCALED_WIDTHS)
    yield from on_cuda_cores()
    for transposes in TRANSPOSES:
        yield from (of_float64(transposes, resident) for resident in (0, 1))
        yield from (of_wmma(bucket, transposes) for bucket in WMMA_BUCKETS)
