"""The emulation itself: a kernel that is right, and the same with each mistake that the emulation is there to catch."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor, Future
from pathlib import Path

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.launch_plan import Launch
from tests.emulation.launches import Layout, Memory, Run, execute
from tests.emulation.products import VAST_PITCH
from tests.emulation.programs import Emulator
from worker.cuda.sources import Program

HERE = Path(__file__).parent

THREADS = 64
BATCH, ROWS, COLUMNS = 2, 3, 45
WRONG = "Arrays are not equal"
EARLY = "ERROR: AddressSanitizer: (unknown-crash|use-after-poison)"
NOWHERE = "AddressSanitizer: SEGV on unknown address"
STUCK = "A barrier waits for threads that do not come to it"
CAUGHT_AS = {
    "READ_PAST_THE_END": "heap-buffer-overflow",
    "READ_BETWEEN_ROWS": "use-after-poison",
    "WRITE_BETWEEN_ROWS": "use-after-poison",
    "READ_PAST_DYNAMIC_SHARED": "heap-buffer-overflow",
    "READ_PAST_STATIC_SHARED": "insufficient space|global-buffer-overflow",
    "SHARED_NEVER_WRITTEN": WRONG,
    "REGISTER_NEVER_WRITTEN": WRONG,
    "ELEMENT_LEFT_OUT": WRONG,
    "MISSING_BARRIER": WRONG,
    "MISSING_LAST_BARRIER": WRONG,
    "DIVERGENT_BARRIER": STUCK,
    "EARLY_RETURN": STUCK,
    "SHUFFLE_WITHOUT_ALL": STUCK,
    "MISSING_WAIT": EARLY,
    "MISSING_COMMIT": EARLY,
    "MISALIGNED_COPY": "no multiple of 8",
    "COPY_TO_A_REGISTER": "is not in shared memory",
    "MISALIGNED_RUN": "misaligned address",
    "NULL_POINTER": NOWHERE,
    "WILD_POINTER": NOWHERE,
    "SIGNED_OVERFLOW": "signed integer overflow",
    "NARROW_INDEX": WRONG,
}

CLUSTER = 4
CAUGHT_IN_CLUSTERS = {
    "MISSING_CLUSTER_BARRIER": WRONG,
    "MISSING_LAST_CLUSTER_BARRIER": "use-after-poison",
    "NO_SUCH_RANK": "no such place in its shared memory",
}


def turn_rows(fault: str, emulator: Emulator) -> None:
    """Raises AssertionError with what was caught."""
    options = (f"-DTHREADS={THREADS}", f"-DFAULT={fault}")
    compiled = emulator.compile(Program(HERE / "faulty.cu", options), "faulty")
    rows = np.random.default_rng(0).random((BATCH, ROWS, COLUMNS), dtype=np.float32)
    near, far = (Layout(pitch, ROWS * pitch) for pitch in (COLUMNS + 3, VAST_PITCH))
    runs = [run_of(rows, layout, order) for layout, order in ((near, 0), (near, 1), (near, 2), (far, 3))]
    for (reversed,) in execute(compiled, runs):
        np.testing.assert_array_equal(reversed, rows[:, :, ::-1])


def run_of(rows: Array, layout: Layout, order: int) -> Run:
    launch = Launch((ROWS, 1, 1), (THREADS, 1, 1), THREADS * rows.itemsize)
    given = Memory(rows.shape, rows.dtype, layout, rows.tobytes())
    result = Memory(rows.shape, rows.dtype, layout, is_result=True)
    return Run(launch, (given, result), (COLUMNS, layout.pitch, layout.stride, BATCH), order)


@pytest.fixture(scope="module")
def tried(emulator: Emulator, pool: Executor) -> Mapping[str, Future[None]]:
    return {fault: pool.submit(turn_rows, fault, emulator) for fault in ("NONE", *CAUGHT_AS)}


def test_a_kernel_without_a_mistake_passes(tried: Mapping[str, Future[None]]) -> None:
    tried["NONE"].result()


@pytest.mark.parametrize("fault", CAUGHT_AS)
def test_a_mistake_is_caught(fault: str, tried: Mapping[str, Future[None]]) -> None:
    with pytest.raises(AssertionError, match=CAUGHT_AS[fault]):
        tried[fault].result()


def test_every_mistake_that_the_kernel_can_make_is_tried() -> None:
    listed = (HERE / "faulty.cu").read_text().partition("enum Fault {")[2].partition("}")[0]
    assert [word.strip() for word in listed.split(",")] == ["NONE", *CAUGHT_AS]


def pass_on(fault: str, emulator: Emulator) -> None:
    """Each block's numbers go to the next of its cluster. Raises AssertionError with what was caught."""
    options = (f"-DCLUSTER={CLUSTER}", f"-DFAULT={fault}")
    compiled = emulator.compile(Program(HERE / "faulty_cluster.cu", options), "faulty_cluster")
    numbers = np.random.default_rng(0).random(3 * CLUSTER * THREADS, dtype=np.float32)
    launch = Launch((3 * CLUSTER, 1, 1), (THREADS, 1, 1), THREADS * numbers.itemsize, cluster=CLUSTER)
    memories = (Memory.flat(numbers), Memory.flat(np.empty_like(numbers), is_result=True))
    expected = np.roll(numbers.reshape(3, CLUSTER, THREADS), -1, axis=1).reshape(1, 1, -1)
    for (found,) in execute(compiled, [Run(launch, memories, (), order) for order in range(3)]):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("fault", ["NONE", *CAUGHT_IN_CLUSTERS])
def test_a_mistake_of_a_cluster_is_caught(fault: str, emulator: Emulator) -> None:
    if fault == "NONE":
        pass_on(fault, emulator)
    else:
        with pytest.raises(AssertionError, match=CAUGHT_IN_CLUSTERS[fault]):
            pass_on(fault, emulator)
