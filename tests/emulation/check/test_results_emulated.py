"""Results of kernels, copied to the host by a kernel, in the emulation: every byte, and none beyond."""

from __future__ import annotations

import numpy as np

from kernels.model.launch_plan import Launch
from tests.emulation.launches import Memory, Run, execute
from tests.emulation.programs import Emulator
from worker.cuda.sources import results_program

THREADS = 256
SIZES = [1, 7, 8, 9, 2047, 2048, 2049, 40_003]


def test_every_byte_is_copied(emulator: Emulator) -> None:
    compiled, runs, sent = emulator.compile(results_program(), "copy_results"), [], []
    for order, (size, blocks) in enumerate((size, blocks) for size in SIZES for blocks in (1, 3, 40)):
        sent.append(np.random.default_rng(order).integers(0, 256, size, np.uint8))
        memories = Memory.flat(sent[-1]), Memory.flat(np.zeros(size, np.uint8), is_result=True)
        runs.append(Run(Launch((blocks, 1, 1), (THREADS, 1, 1)), memories, (size,), order, (size, blocks)))
    for (found,), expected in zip(execute(compiled, runs), sent, strict=True):
        np.testing.assert_array_equal(found.reshape(-1), expected)
