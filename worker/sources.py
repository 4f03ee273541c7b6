"""What is given to the CUDA compiler: source, headers, options, and the name under which the result is kept.

No GPU is needed to say it, so tests compile every kernel without one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kernels.kernel import SOURCE_DIR, CudaKernel, TileConfig
from kernels.numerics import DTypeName, Problem

CHECK_SOURCE = Path(__file__).parent / "cuda" / "sums.cu"
TURN_SOURCE = CHECK_SOURCE.with_name("turn.cu")
LANGUAGE = "--std=c++17"
HEADERS = (SOURCE_DIR / "common.cuh",)
CHECK_THREADS = 256  # of a block of the check's kernels
# Columns that one warp (or, where the matrix lies transposed, one thread) sums.
CHECK_CHUNK, CHECK_CHUNK_TRANSPOSED = 2048, 128


@dataclass(frozen=True, slots=True)
class Program:
    """One translation unit with its macros."""

    path: Path
    options: tuple[str, ...]

    @property
    def source(self) -> str:
        return _text(self.path)

    def key(self, arch: str, compiler: str) -> str:
        """Changes with anything that the compiled result depends on."""
        headers = (_text(path) for path in HEADERS)
        parts = (self.path.name, self.source, *headers, *self.options, arch, compiler)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def headers() -> dict[str, str]:
    """Contents by the name that `#include` gives."""
    return {path.name: _text(path) for path in HEADERS}


@lru_cache(maxsize=64)
def _text(path: Path) -> str:
    return path.read_text()


def kernel_program(kernel: CudaKernel, config: TileConfig, problem: Problem) -> Program:
    """A kernel of the catalogue for a problem's element type and transpositions."""
    transposes = (f"-DTRANSPOSE_A={int(problem.transpose_a)}", f"-DTRANSPOSE_B={int(problem.transpose_b)}")
    return Program(kernel.source_path, (*_common(problem.dtype), *transposes, *kernel.defines(config)))


def check_program(dtype: DTypeName, *, transposed: bool) -> Program:
    """The check's kernels for a matrix that lies row-major, or transposed."""
    chunk = CHECK_CHUNK_TRANSPOSED if transposed else CHECK_CHUNK
    sizes = (f"-DTRANSPOSED={int(transposed)}", f"-DTHREADS={CHECK_THREADS}", f"-DCHUNK={chunk}")
    return Program(CHECK_SOURCE, (*_common(dtype), *sizes))


def turn_program() -> Program:
    """The transposition of int8 matrices."""
    return Program(TURN_SOURCE, (LANGUAGE,))


def _common(dtype: DTypeName) -> tuple[str, ...]:
    return (LANGUAGE, f"-DDTYPE_{dtype.upper()}")
