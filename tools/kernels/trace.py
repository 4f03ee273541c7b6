"""Runs a kernel's own source on the CPU and tells every access to global and shared memory.

The emulator (tools/emulator) runs it, compiled so that each load and store is recorded (`tracing`). Needs g++.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from kernels.model.numerics import DTYPES, Problem
from kernels.model.sources import include_options
from tools.kernels.model import Model
from worker.cuda.sources import Program, kernel_program

ROOT = Path(__file__).resolve().parents[2]
RECORDER, EMULATOR = Path(__file__).parent / "tracing", ROOT / "tools" / "emulator"
RUNTIME = ("block", "fiber", "shared")  # and what main.cpp and copies.cpp are there, recorder.cpp is here
ROW_STEP = 1024  # elements from one row of a matrix to the next: rows share no line of memory
MIN_DEPTH = 128  # steps of k that are traced, at least
WARP, SECTOR_BYTES, BANKS, BANK_BYTES = 32, 32, 32, 4
A, B, C, SHARED, DYNAMIC_SHARED, WORKSPACE = range(6)  # spaces, as in recorder.cpp
ACCESS = np.dtype(
    [("thread", "u4"), ("block", "u4"), ("is_store", "u1"), ("space", "u1"), ("bytes", "u2"), ("offset", "u4")]
)
Accesses = NDArray[np.void]
Integers = NDArray[np.int64]


def traced_problem(model: Model) -> Problem:
    """One block's tile of C, or that of the blocks that share one, and a few steps of k."""
    rows, columns = model.tile
    return Problem(rows, columns, max(MIN_DEPTH, 2 * model.depth) * model.splits, model.dtype)


def program_of(model: Model) -> Program:
    return kernel_program(model.kernel, model.config, Problem(1, 1, 1, model.dtype))


def has_fragments(model: Model) -> bool:
    """Whether it multiplies on tensor cores, by fragments of which nobody knows what lane holds what."""
    return "wmma.cuh" in program_of(model).headers


def trace(model: Model) -> Accesses:
    """Of that product; each thread's accesses stand in the order in which it makes them."""
    problem = traced_problem(model)
    plan = model.kernel.plan(problem, model.config)
    launch, workspace = plan.main, [plan.workspace.bytes] if plan.workspace is not None else []
    itemsizes = (DTYPES[problem.dtype].itemsize, DTYPES[problem.product_dtype].itemsize)
    grid = (launch.grid[0], *launch.block[:2], launch.shared_bytes, launch.cluster)
    numbers = (*grid, problem.m, problem.n, problem.k, ROW_STEP, *itemsizes, *workspace)
    with TemporaryDirectory() as directory:
        binary = _build(model, Path(directory))
        told = subprocess.run([binary, *map(str, numbers)], capture_output=True, check=True).stdout
    return np.frombuffer(told, ACCESS)


def _build(model: Model, directory: Path) -> Path:
    """The program that runs and records."""
    program = program_of(model)
    options = [option for option in program.options if option.startswith("-D")]
    options += [f'-DSOURCE="{program.path}"', f"-DKERNEL={model.kernel.name}"]
    options += ["-include", str(RECORDER / "fragments.hpp")] if has_fragments(model) else []
    options += ["-include", str(EMULATOR / "dmma_emulated.hpp")] if "dmma.cuh" in program.headers else []
    told = ["-fsanitize=thread", "--param", "tsan-instrument-func-entry-exit=0", *options]
    objects = [_compiled(EMULATOR / "kernel.cpp", directory, *told), _compiled(RECORDER / "recorder.cpp", directory)]
    objects += [_compiled(EMULATOR / f"{name}.cpp", directory) for name in RUNTIME]
    binary = directory / "traced"
    # The emulation speaks to the address sanitizer, which has nothing to watch here.
    subprocess.run(["g++", "-fsanitize=address", "-o", binary, *objects], check=True)
    return binary


def _compiled(source: Path, directory: Path, *options: str) -> Path:
    target = directory / f"{source.stem}.o"
    folders = (f"-I{EMULATOR}", *include_options())
    subprocess.run(["g++", "-std=c++20", "-O1", *options, *folders, "-c", "-o", target, source], check=True)
    return target


def of_spaces(found: Accesses, *spaces: int, stores: bool = False) -> Accesses:
    """Loads, or stores, of these spaces."""
    chosen: Accesses = found[np.isin(found["space"], spaces) & (found["is_store"] == stores)]
    return chosen


def instructions(found: Accesses) -> Integers:
    """Numbers the warps' instructions: the i-th accesses of a warp's threads are one. `found` is of one kind."""
    thread = found["block"].astype(np.int64) << 20 | found["thread"]
    order = np.argsort(thread, kind="stable")
    begins = np.searchsorted(thread[order], thread[order], side="left")
    turn = np.empty(len(found), np.int64)
    turn[order] = np.arange(len(found)) - begins
    numbers: Integers = (thread // WARP) << 24 | turn
    return numbers


def first_instruction(found: Accesses) -> Accesses:
    """What the first block's first warp does first, lane by lane."""
    warp = found[(found["block"] == 0) & (found["thread"] < WARP)]
    _, first = np.unique(warp["thread"], return_index=True)
    chosen: Accesses = warp[first]
    return chosen


def fetched_bytes(found: Accesses) -> int:
    """Of the sectors that loads of one operand touch, instruction by instruction, whatever caches keep of them."""
    sectors = np.unique(np.stack([instructions(found), found["offset"] // SECTOR_BYTES], axis=1), axis=0)
    return len(sectors) * SECTOR_BYTES


def asked_bytes(found: Accesses) -> int:
    """Of these sectors, what the loads asked for: an element that several threads load together counts once."""
    asked = np.unique(np.stack([instructions(found), found["offset"], found["bytes"]], axis=1), axis=0)
    return int(asked[:, 2].sum())


def bank_turns(found: Accesses) -> tuple[int, int]:
    """How often the banks of shared memory must be asked for these accesses, and how often at the least."""
    words = np.maximum(found["bytes"] // BANK_BYTES, 1).astype(np.int64)
    # Wide accesses are served for as many threads together as ask for 128 bytes.
    part = found["thread"] % WARP // (WARP // words)
    request = instructions(found) << 5 | part
    spread = np.repeat(np.arange(len(found)), words)
    word = found["offset"][spread] // BANK_BYTES + np.arange(len(spread)) - np.repeat(np.cumsum(words) - words, words)
    each = np.unique(np.stack([request[spread], word % BANKS, word], axis=1), axis=0)
    banks, loads = np.unique(each[:, :2], axis=0, return_counts=True)
    _, first, words_asked = np.unique(each[:, 0], return_index=True, return_counts=True)
    worst = np.maximum.reduceat(loads, np.searchsorted(banks[:, 0], each[first, 0])) if len(each) else loads
    return int(worst.sum()), int(-(-words_asked // BANKS).sum())


def elements(found: Accesses, itemsize: int) -> Integers:
    """(row, column) of every element that these accesses touch, each once."""
    counts = (found["bytes"] // itemsize).astype(np.int64)
    spread = np.repeat(np.arange(len(found)), counts)
    within = np.arange(len(spread)) - np.repeat(np.cumsum(counts) - counts, counts)
    index = np.unique(found["offset"][spread] // itemsize + within)
    return np.stack([index // ROW_STEP, index % ROW_STEP], axis=1)
