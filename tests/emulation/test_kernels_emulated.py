"""The CUDA kernels themselves, run on the CPU under sanitizers: no element outside the operands is touched, every
element of the product is written, and integers come out to the last bit."""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from jobs.matrices import STORAGE_DTYPES, Array
from kernels.catalog import BY_NAME
from kernels.kernel import SOURCE_DIR, CudaKernel, TileConfig
from kernels.numerics import DTYPE_NAMES, DTypeName, Problem
from tests.support.products import assert_right, matrix, operands, stored
from worker.elements import core
from worker.sources import Program, check_program, kernel_program
from worker.sums import HostMatrix

HERE = Path(__file__).parent
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
PAD = 3  # elements between rows; no kernel may read or write them
SMALL: dict[str, TileConfig] = {"naive": {"block_m": 4, "block_n": 8}, "shared_tiled": {"tile": 8}}
Build = Callable[..., Path]
SHAPES = [(1, 1, 1), (8, 8, 8), (9, 17, 7), (7, 8, 25), (20, 3, 16), (5, 6, 0)]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Makes a program of its own out of a kernel, by g++. What all share is compiled once."""
    compiler = shutil.which("g++")
    if compiler is None and "CI" not in os.environ:
        pytest.skip("g++ is needed to run kernels on the CPU")
    assert compiler, "g++ is needed to run kernels on the CPU"
    flags = ["-std=c++20", "-O1", "-pthread", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    directory = tmp_path_factory.mktemp("emulated")
    shared: list[str | Path] = [
        compiler,
        *flags,
        "-x",
        "c++-header",
        HERE / "emulated.hpp",
        "-o",
        directory / "emulated.hpp.gch",
    ]
    subprocess.run(shared, check=True)

    def make(program: Program, driver: str, *options: str) -> Path:
        macros = [option for option in program.options if option.startswith("-D")]
        paths = [f"-I{directory}", f"-I{HERE}", f"-I{SOURCE_DIR}", f'-DSOURCE="{program.path}"']
        target = directory / f"kernel-{secrets.token_hex(4)}"
        subprocess.run([compiler, *flags, *macros, *options, *paths, "-o", target, HERE / driver], check=True)
        return target

    return make


def run(binary: Path, numbers: list[int], *arrays: Array) -> bytes:
    command = [str(binary), *map(str, numbers)]
    done = subprocess.run(command, input=b"".join(x.tobytes() for x in arrays), capture_output=True)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[:3000]
    return done.stdout


def spread(elements: Array, fill: int) -> tuple[Array, int, int]:
    """(batch, rows, columns) laid out with PAD elements of `fill` bytes between rows, and none after the last; its
    row step and its matrix step."""
    batch, rows, columns = elements.shape
    wide = np.full((batch, rows, (columns + PAD) * elements.itemsize), fill, np.uint8).view(elements.dtype)
    wide[:, :, :columns] = elements
    flat = wide.reshape(-1)
    return flat[: flat.size - PAD if rows else 0], columns + PAD, (columns + PAD) * rows


def multiply(binary: Path, kernel: CudaKernel, config: TileConfig, problem: Problem, a: Array, b: Array) -> Array:
    launch = kernel.launch(problem, config)
    flat_a, lda, stride_a = spread(core(a, transposed=False), 0xFF)
    flat_b, ldb, stride_b = spread(core(b, transposed=False), 0xFF)
    c = np.full((problem.batch, problem.m, problem.n), 1, STORAGE_DTYPES[problem.product_dtype])
    flat_c, ldc, stride_c = spread(c, 0x5A)
    steps = [stride_a if problem.a_batched else 0, stride_b if problem.b_batched else 0, stride_c]
    sizes = [flat_a.size, flat_b.size, flat_c.size, problem.m, problem.n, problem.k, lda, ldb, ldc, *steps]
    grid = [launch.grid[0], launch.grid[2], launch.block[0], launch.block[1]]
    given = np.frombuffer(run(binary, [*grid, *sizes, problem.batch], flat_a, flat_b, flat_c), flat_c.dtype)
    whole = np.concatenate([given, flat_c[:0], np.full(PAD, 0, given.dtype)]).reshape(problem.batch, problem.m, ldc)
    gaps = whole[:, :, problem.n :].view(np.uint8).reshape(-1)[: -PAD * given.itemsize]
    assert np.all(gaps == 0x5A), "the kernel wrote between the rows of C"
    return whole[:, :, : problem.n].reshape(problem.product_shape)


@pytest.mark.parametrize(("index", "dtype"), list(enumerate(DTYPE_NAMES)))
@pytest.mark.parametrize("name", ["naive", "shared_tiled"])
def test_a_kernel_touches_its_operands_and_nothing_else(name: str, index: int, dtype: DTypeName, build: Build) -> None:
    kernel = BY_NAME[name]
    assert isinstance(kernel, CudaKernel)
    config = kernel.resolve_config(SMALL[name])
    transposes = TRANSPOSES[index % 4]
    rng = np.random.default_rng(index)
    binary = build(
        kernel_program(kernel, config, Problem(1, 1, 1, dtype, 1, *transposes)),
        "run_kernel.cpp",
        f"-DKERNEL={name}",
    )
    for m, n, k in SHAPES:
        problem = Problem(m, n, k, dtype, 1, *transposes)
        a, b = operands(problem, rng)
        assert_right(problem, a, b, multiply(binary, kernel, config, problem, a, b))
    for batched in itertools.product((False, True), repeat=2):
        problem = Problem(9, 10, 11, dtype, 3 if any(batched) else 1, *transposes, *batched)
        a, b = operands(problem, rng)
        assert_right(problem, a, b, multiply(binary, kernel, config, problem, a, b))


@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_what_pads_a_tile_never_meets_an_infinity(transposes: tuple[bool, bool], build: Build) -> None:
    kernel = BY_NAME["shared_tiled"]
    assert isinstance(kernel, CudaKernel)
    config = kernel.resolve_config({"tile": 8})
    problem = Problem(9, 10, 11, "float32", 1, *transposes)
    binary = build(kernel_program(kernel, config, problem), "run_kernel.cpp", "-DKERNEL=shared_tiled")
    a, b = operands(problem, np.random.default_rng(0), "uniform")
    a[:], b[:] = np.where(a > 0.5, np.inf, 1), np.where(b > 0.5, np.inf, 1)
    np.testing.assert_array_equal(
        multiply(binary, kernel, config, problem, a, b), np.full((9, 10), np.inf, dtype=np.float32)
    )


@pytest.mark.parametrize(
    ("dtype", "transposed"), [("float16", False), ("float32", True), ("int8", True), ("int32", False)]
)
def test_the_check_s_pass_touches_its_matrix_and_nothing_else(dtype: DTypeName, transposed: bool, build: Build) -> None:
    program = check_program(dtype, transposed=transposed)
    threads, chunk = 64, 16
    options = tuple(x for x in program.options if not x.startswith(("-DTHREADS", "-DCHUNK")))
    small = Program(program.path, (*options, f"-DTHREADS={threads}", f"-DCHUNK={chunk}"))
    binary = build(small, "run_sums.cpp")
    rng = np.random.default_rng(1)
    for batch, rows, columns in ((1, 1, 1), (2, 5, 40), (3, 70, 3)):
        elements = matrix((batch, columns, rows) if transposed else (batch, rows, columns), dtype, rng)
        if "int" not in dtype:
            elements[-1, 0, 0] = stored(np.array(np.nan), dtype)
        vector = rng.integers(-9, 9, size=(batch, columns)).astype(np.int64 if "int" in dtype else np.float64)
        flat, ld, stride = spread(elements, 0xFF)
        at_once = threads if transposed else threads // 32
        blocks = -(-rows // at_once) * -(-columns // chunk)
        sizes = [blocks, batch, rows, columns, ld, stride, columns, 0, batch, flat.size, vector.size]
        found = np.frombuffer(run(binary, sizes, flat, vector), np.uint64).reshape(3, batch, rows)
        host = HostMatrix(core(elements, transposed=transposed), dtype)
        if "int" in dtype:
            np.testing.assert_array_equal(found[0].astype(np.int32), host.times_modulo(vector))
        else:
            expected = host.times(vector)
            np.testing.assert_allclose(found[0].view(np.float64), expected.products, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(found[1].view(np.float64), expected.squares, rtol=1e-5)
            np.testing.assert_array_equal(found[2], expected.bad)
