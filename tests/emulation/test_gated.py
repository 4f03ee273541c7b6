"""Launches that a word on the device holds back, on the CPU under sanitizers: with the word 0 they write nothing, else
they do what they do without a gate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels.entries.hopper.fp32 import HOPPER_FP32
from kernels.entries.tensor_fp64 import TENSOR_FP64
from kernels.model.groups import tiles
from kernels.model.kernel import CudaKernel
from kernels.model.launch_plan import Launch
from kernels.model.numerics import Problem
from tests.emulation.boxed import Case, run_of
from tests.emulation.launches import Layout, Memory, Run, execute
from tests.emulation.products import Case as FloatCase
from tests.emulation.products import product
from tests.emulation.products import run_of as fp64_run
from tests.emulation.programs import Emulator
from tests.support.kernels.products import in_float64, operands
from worker.cuda.sources import TRANSPOSE_THREADS, TRANSPOSE_TILES, copy_program, kernel_program, transpose_program

WORDS = (0, 1)
LEFT = np.float32(-77.0)


def gate(word: int) -> Memory:
    return Memory.flat(np.array([word], np.uint32))


def started(memory: Memory) -> Memory:
    """A result that holds LEFT before the launch."""
    return replace(memory, contents=np.full(memory.shape, LEFT).tobytes())


def test_the_float32_kernel(emulator: Emulator) -> None:
    kernel, problem = HOPPER_FP32[0], Problem(130, 258, 290, "float32", transpose_a=True)
    config = kernel.resolve_config()
    compiled = emulator.compile(kernel_program(kernel, config, problem, gated=True), kernel.name)
    pair = operands(problem, np.random.default_rng(1), "integers")
    run = run_of(kernel, config, Case(problem, 3), pair, 0)
    a, b, c, *others = run.memories
    runs = [replace(run, memories=(a, b, started(c), *others, gate(word))) for word in WORDS]
    (closed,), (opened,) = execute(compiled, runs)
    assert np.all(closed == LEFT)
    np.testing.assert_array_equal(opened, in_float64(problem, *pair)[0][np.newaxis])


def test_the_float64_kernel(emulator: Emulator) -> None:
    kernel, problem = TENSOR_FP64[0], Problem(130, 70, 40, "float64")
    assert isinstance(kernel, CudaKernel)
    config = kernel.resolve_config({"block_m": 64, "block_n": 64, "warp_m": 32, "edge": 0})
    compiled = emulator.compile(kernel_program(kernel, config, problem, gated=True), kernel.name)
    run = fp64_run(kernel, config, FloatCase(problem, ("odd",) * 3), 0)
    a, b, c, *others = run.memories
    left = replace(c, contents=np.full(c.shape, float(LEFT)).tobytes())
    runs = [replace(run, memories=(a, b, left, *others, gate(word))) for word in WORDS]
    (closed,), (opened,) = execute(compiled, runs)
    assert np.all(closed == LEFT)
    np.testing.assert_array_equal(opened, product(problem, "whole"))


def test_the_transposition(emulator: Emulator) -> None:
    compiled = emulator.compile(transpose_program(4, gated=True), "transpose")
    elements = np.random.default_rng(2).standard_normal((1, 70, 130)).astype(np.float32)
    source = Memory(elements.shape, elements.dtype, Layout(132, 0), elements.tobytes())
    to = started(Memory((1, 130, 70), elements.dtype, Layout(72, 0), is_result=True))
    launch = Launch((tiles(70, TRANSPOSE_TILES[4]) * tiles(130, TRANSPOSE_TILES[4]), 1, 1), (TRANSPOSE_THREADS, 1, 1))
    runs = [Run(launch, (source, to, gate(word)), (70, 130, 132, 72, 0, 0, 1)) for word in WORDS]
    (closed,), (opened,) = execute(compiled, runs)
    assert np.all(closed == LEFT)
    np.testing.assert_array_equal(opened[0], elements[0].T)


@pytest.mark.parametrize("columns", [3, 300])
def test_copies_of_rows(columns: int, emulator: Emulator) -> None:
    compiled = emulator.compile(copy_program(), "copy_rows")
    elements = np.random.default_rng(3).standard_normal((1, 9, columns)).astype(np.float32)
    source = Memory(elements.shape, elements.dtype, Layout(columns + 1, 0), elements.tobytes())
    to = started(Memory(elements.shape, elements.dtype, Layout(columns + 5, 0), is_result=True))
    launch = Launch((4, 1, 1), (256, 1, 1))
    runs = [Run(launch, (source, to, gate(word)), (9, columns, columns + 1, columns + 5)) for word in WORDS]
    (closed,), (opened,) = execute(compiled, runs)
    assert np.all(closed == LEFT)
    np.testing.assert_array_equal(opened, elements)
