"""The input of the CUDA compiler: source, headers, options, and the cache key of the result. Needs no GPU, so tests can
compile every kernel without one.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from kernels.model.activations import ActivationName
from kernels.model.edge import MAX_EDGE, is_small
from kernels.model.entry.config import TileConfig
from kernels.model.fused import FusedEpilogue
from kernels.model.kernel import CudaKernel
from kernels.model.launch_plan import LaunchPlan
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.model.scales import SCALED_DTYPE
from kernels.model.sources import source_files

TRANSPOSE_SOURCE = Path(__file__).parent / "src" / "transpose.cu"
EDGE_SOURCE = TRANSPOSE_SOURCE.with_name("edge.cu")
BENCHMARK_SOURCE = TRANSPOSE_SOURCE.with_name("benchmark.cu")
RANDOM_SOURCE = TRANSPOSE_SOURCE.with_name("random.cu")
SKETCH_SOURCE = TRANSPOSE_SOURCE.with_name("sketch.cu")
DIRECT_SOURCE = TRANSPOSE_SOURCE.with_name("direct.cu")
RECHECK_SOURCE = TRANSPOSE_SOURCE.with_name("recheck.cu")
DIGEST_SOURCE = TRANSPOSE_SOURCE.with_name("digest.cu")
RESULTS_SOURCE = TRANSPOSE_SOURCE.with_name("results.cu")
EPILOGUE_SOURCE = TRANSPOSE_SOURCE.with_name("epilogue.cu")
FUSED_CHECK_SOURCE = TRANSPOSE_SOURCE.with_name("fused_check.cu")
EPILOGUE_CHECK_SOURCE = TRANSPOSE_SOURCE.with_name("epilogue_check.cu")
COMPLEX_LAYOUT_SOURCE = TRANSPOSE_SOURCE.with_name("complex_layout.cu")
COMPLEX_FINITE_SOURCE = TRANSPOSE_SOURCE.with_name("complex_finite.cu")
COMPLEX_CHECK_SOURCE = TRANSPOSE_SOURCE.with_name("complex_check.cu")
COMPLEX_EPILOGUE_SOURCE = TRANSPOSE_SOURCE.with_name("complex_epilogue.cu")
SCALES_SOURCE = TRANSPOSE_SOURCE.with_name("dequantise.cu")
FINGERPRINT_SOURCE = TRANSPOSE_SOURCE.with_name("fingerprint.cu")
GATHER_SOURCE = TRANSPOSE_SOURCE.with_name("gather.cu")
SKETCH_CHUNK = 512  # columns whose random vectors a block keeps in shared memory
COPY_SOURCE = TRANSPOSE_SOURCE.with_name("copy_rows.cu")
MIRROR_SOURCE = TRANSPOSE_SOURCE.with_name("mirror.cu")
TRANSPOSE_TILES = {1: 128, 2: 64, 4: 64, 8: 64}  # rows and columns for a block, by bytes of an element
TRANSPOSE_THREADS = 256
LANGUAGE = "--std=c++17"
TRIANGLE = ("-DTRIANGLE",)  # tiles of one triangle of C alone: triangle.cuh
GROUPED = ("-DGROUPED",)  # rows of A have groups: tile_groups.cuh
GATED = ("-DGATED",)  # a last argument says on the device whether the launch takes effect: gate.cuh
_INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Program:
    """One translation unit with its macros."""

    path: Path
    options: tuple[str, ...]
    architecture_specific: bool = False  # it uses instructions that no other architecture has

    def arch(self, arch: str) -> str:
        """The compiler's architecture option for `sm_90`: `sm_90`, or `sm_90a` for architecture-specific programs."""
        return f"{arch}a" if self.architecture_specific else arch

    @property
    def source(self) -> str:
        return _text(self.path)

    @property
    def headers(self) -> dict[str, str]:
        """The project's headers that the source includes, directly or indirectly: contents by the name in
        `#include`.
        """
        return _headers(self.path)

    def key(self, arch: str, compiler: str) -> str:
        """The cache key: it changes with everything that the compiled result depends on, but not with comments or
        layout.
        """
        texts = map(_tokens, (self.source, *self.headers.values()))
        parts = (self.path.name, *texts, *self.options, self.arch(arch), compiler)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BETWEEN_TOKENS = re.compile(r"(?<!\w) | (?!\w)")


@lru_cache(maxsize=64)
def _tokens(text: str) -> str:
    """CUDA C++ without comments, and without spaces but those that part two words; a directive keeps its line."""
    lines = (" ".join(line.split()) for line in _COMMENT.sub("", text).split("\n"))
    return _BETWEEN_TOKENS.sub("", "".join(line + ("\n" if line.startswith("#") else " ") for line in lines))


@lru_cache(maxsize=64)
def _headers(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    waiting = _INCLUDE.findall(_text(path))
    while waiting:
        name = waiting.pop()
        if name not in found:
            beside = path.parent / name
            found[name] = _text(beside if beside.exists() else source_files()[name])
            waiting += _INCLUDE.findall(found[name])
    return dict(sorted(found.items()))


@lru_cache(maxsize=64)
def _text(path: Path) -> str:
    return path.read_text()


def kernel_program(
    kernel: CudaKernel,
    config: TileConfig,
    problem: Problem,
    *,
    gated: bool = False,
    fused: FusedEpilogue | None = None,
    plan: LaunchPlan | None = None,
) -> Program:
    """A kernel of the catalogue for a problem's element type and transpositions, as its function finds them. `plan`:
    its launches, if they are planned already."""
    plan = kernel.plan(problem, config) if plan is None else plan
    transposes = _transposes((plan.launched.transpose_a, plan.launched.transpose_b))
    scales = (f"-DSCALE_COLUMNS={problem.scale_columns}",) if problem.scale_columns else ()
    groups = GROUPED if plan.groups else ()
    macros = [f"-D{macro}" for macro in plan.workspace.macros] if plan.workspace is not None else []
    extras = (*scales, *groups, *macros, *(TRIANGLE if plan.mirrored else ()), *(GATED if gated else ()))
    options = (*_common(DTYPES[problem.dtype].real), *transposes, *kernel.defines(config), *extras, *_of_parts(problem))
    options += fused.defines(problem.dtype) if fused is not None else ()
    return Program(kernel.source_path, options, kernel.architecture_specific)


def sketch_program(
    dtype: DTypeName, transposed: tuple[bool, bool], chunk: int = SKETCH_CHUNK, output: DTypeName | None = None
) -> Program:
    """The check's projections of a product whose operands are stored transposed or not. `output`: where the product is
    not of their product's type."""
    own = (*_transposes(transposed), f"-DCHUNK={chunk}", *_after(None, output, has_bias=False))
    return Program(SKETCH_SOURCE, (*_common(dtype), *own))


def fused_check_program(dtype: DTypeName, fused: FusedEpilogue) -> Program:
    """The remaining check of a product whose kernel does the epilogue itself, before an activation."""
    macros = replace(fused, activation=None).defines(dtype)
    return Program(FUSED_CHECK_SOURCE, (*_common(dtype), *_transposes((False, False)), *macros))


def direct_program(dtype: DTypeName, transposed: tuple[bool, bool]) -> Program:
    """The comparison of every element of a product with its sum in float64."""
    return Program(DIRECT_SOURCE, (*_common(dtype), *_transposes(transposed)))


def recheck_program(dtype: DTypeName, output: DTypeName | None = None) -> Program:
    """Rows or columns of a product again, of operands stored in any way. `output` as in `sketch_program`."""
    own = (*_transposes((False, False)), *_after(None, output, has_bias=False))
    return Program(RECHECK_SOURCE, (*_common(dtype), *own))


def digest_program() -> Program:
    """XXH3-64 of parts of a matrix."""
    return Program(DIGEST_SOURCE, (LANGUAGE,))


def results_program() -> Program:
    """Copies results of kernels to the host."""
    return Program(RESULTS_SOURCE, (LANGUAGE,))


def fingerprint_program(itemsize: int) -> Program:
    """Fingerprints of parts of a matrix, for elements of `itemsize` bytes."""
    return Program(FINGERPRINT_SOURCE, (LANGUAGE, f"-DITEM_BYTES={itemsize}"))


def gather_program(dtype: DTypeName) -> Program:
    """Single elements of a matrix as float64."""
    return Program(GATHER_SOURCE, (*_common(dtype), *_transposes((False, False))))


def scales_program() -> Program:
    """8-bit operands multiplied by their block scales."""
    return Program(SCALES_SOURCE, (*_common(SCALED_DTYPE), *_transposes((False, False))))


def complex_layout_program(part: DTypeName, *, gated: bool = False) -> Program:
    """Writes a complex matrix as an operand of a real product, with parts of that type."""
    gate = GATED if gated else ()
    return Program(COMPLEX_LAYOUT_SOURCE, (*_common(part), *_transposes((False, False)), *gate))


def complex_finite_program(part: DTypeName) -> Program:
    """Whether a complex product is finite."""
    return Program(COMPLEX_FINITE_SOURCE, (*_common(part), *_transposes((False, False))))


def complex_check_program(part: DTypeName) -> Program:
    """Another way to compute what `complex_layout_program` does, for the check."""
    return Program(COMPLEX_CHECK_SOURCE, (*_common(part), *_transposes((False, False))))


def epilogue_program(
    dtype: DTypeName,
    activation: ActivationName | None = None,
    output: DTypeName | None = None,
    *,
    has_bias: bool = False,
) -> Program:
    """alpha·P + beta·C + bias, in the product's type; `output`: the type that is delivered, if it is another. For
    complex products, with the check."""
    source = COMPLEX_EPILOGUE_SOURCE if DTYPES[dtype].is_complex else EPILOGUE_SOURCE
    own = (*_transposes((False, False)), *_after(activation, output, has_bias=has_bias))
    return Program(source, (*_common(DTYPES[dtype].real), *own))


def epilogue_check_program(
    dtype: DTypeName,
    activation: ActivationName | None = None,
    output: DTypeName | None = None,
    *,
    has_bias: bool = False,
) -> Program:
    """The check of `epilogue_program`: computes it again and compares."""
    if DTYPES[dtype].is_complex:
        return epilogue_program(dtype)
    options = (*_common(dtype), *_transposes((False, False)), *_after(activation, output, has_bias=has_bias))
    return Program(EPILOGUE_CHECK_SOURCE, options)


def activation_check_program(fused: FusedEpilogue) -> Program:
    """The check of an activation that a kernel computes itself, in float32."""
    program = epilogue_check_program(fused.output, fused.activation)
    return replace(program, options=(*program.options, "-DOF_FLOAT32"))


def _after(activation: ActivationName | None, output: DTypeName | None, *, has_bias: bool) -> tuple[str, ...]:
    """Macros: what is not there takes no registers."""
    named = {"ACTIVATION": activation, "OUTPUT": output}
    macros = [f"-D{macro}_{name.upper()}" for macro, name in named.items() if name is not None]
    return (*macros, *(["-DHAS_BIAS"] if has_bias else []))


def transpose_program(itemsize: int, *, gated: bool = False) -> Program:
    """The transposition of matrices whose elements have so many bytes: 1, 2, 4 or 8."""
    return Program(TRANSPOSE_SOURCE, (LANGUAGE, f"-DITEM_BYTES={itemsize}", *(GATED if gated else ())))


def mirror_program(itemsize: int) -> Program:
    """The other triangle of a symmetric matrix whose elements have so many bytes: 2, 4 or 8."""
    return Program(MIRROR_SOURCE, (LANGUAGE, f"-DITEM_BYTES={itemsize}"))


def copy_program() -> Program:
    """Copies of rows, where a word on the device says so."""
    return Program(COPY_SOURCE, (LANGUAGE, *GATED))


def edge_program(problem: Problem, vectors: int, *, narrow: bool) -> Program:
    """The product of so many rows or columns, 1, 2, 4 or 8, with operands as they lie."""
    transposes = _transposes((problem.transpose_a, problem.transpose_b))
    own = (f"-DVECTORS={vectors}", f"-DNARROW={int(narrow)}")
    return Program(EDGE_SOURCE, (*_common(problem.dtype), *transposes, *own))


def edge_program_of(problem: Problem, inner: Problem) -> Program | None:
    """The program that multiplies a product's edge; None if `inner`, the kernel's part, is the whole product."""
    missing = max(problem.m - inner.m, problem.n - inner.n)
    if not missing:
        return None
    vectors = min(size for size in (1, 2, 4, MAX_EDGE) if size >= missing)
    return edge_program(problem, vectors, narrow=is_small(problem, inner))


def benchmark_program() -> Program:
    """The functions that time kernels and measure roofs."""
    return Program(BENCHMARK_SOURCE, (LANGUAGE,))


def random_program(dtype: DTypeName) -> Program:
    """Operands out of a seed."""
    return Program(RANDOM_SOURCE, _common(dtype))


def _of_parts(problem: Problem) -> tuple[str, ...]:
    """Of a kernel whose elements are pairs of numbers."""
    if not DTYPES[problem.dtype].is_complex:
        return ()
    return "-DCOMPLEX", f"-DCONJUGATE_A={int(problem.conjugate_a)}", f"-DCONJUGATE_B={int(problem.conjugate_b)}"


def _transposes(transposed: tuple[bool, bool]) -> tuple[str, str]:
    return f"-DTRANSPOSE_A={int(transposed[0])}", f"-DTRANSPOSE_B={int(transposed[1])}"


def _common(dtype: DTypeName) -> tuple[str, ...]:
    return (LANGUAGE, f"-DDTYPE_{dtype.upper()}")
