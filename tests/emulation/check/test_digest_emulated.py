"""Digests of a matrix's parts in the emulation: XXH3-64 to the last bit, however the matrix lies."""

from __future__ import annotations

from concurrent.futures import Executor

import numpy as np
import pytest
import xxhash

from jobs.formats.elements import Array
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTypeName
from tests.emulation import launches
from tests.emulation.launches import Memory, Run, execute
from tests.emulation.programs import Compiled, Emulator
from worker.cuda.digests.plan import PART_BYTES, THREADS, digest_plan
from worker.cuda.pitch import Layout
from worker.cuda.sources import digest_program

BY_SIZE: dict[int, DTypeName] = {1: "int8", 2: "float16", 4: "float32", 8: "float64"}
# Batch, rows, columns, elements between rows, rows between matrices.
WHOLE_CHUNKS = [
    (4, 1, 64, 64, 16, 0),
    (4, 1, 64, 64, 0, 0),
    (8, 3, 10, 256, 2, 1),
    (4, 1, 1, 4352, 4, 0),
    (2, 2, 40, 512, 8, 0),
    (1, 1, 1025, 64, 64, 0),
    (4, 1, 8191, 4, 4, 0),
]
OTHERS = [
    (4, 1, 73, 57, 3, 0),
    (4, 1, 73, 57, 0, 0),
    (8, 3, 7, 391, 1, 2),
    (2, 1, 129, 129, 7, 0),
    (2, 2, 101, 83, 5, 1),
    (1, 1, 163, 131, 13, 0),
    (1, 2, 99, 331, 0, 3),
    (1, 1, 20000, 1, 15, 0),
    (4, 1, 61, 5, 3, 0),
    (4, 1, 4097, 1, 0, 0),
]


@pytest.fixture(scope="module")
def compiled(emulator: Emulator, pool: Executor) -> dict[str, Compiled]:
    names = ("digest_aligned", "digest_any")
    return dict(zip(names, pool.map(lambda name: emulator.compile(digest_program(), name), names), strict=True))


def expected_digests(elements: Array) -> list[int]:
    data = elements.tobytes()
    parts = max(1, len(data) // PART_BYTES)
    ends = [*range(PART_BYTES, parts * PART_BYTES, PART_BYTES), len(data)]
    return [xxhash.xxh3_64_intdigest(data[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]


def run_of(case: tuple[int, int, int, int, int, int], order: int, offset: int) -> tuple[str, Run, list[int]]:
    itemsize, batch, rows, columns, gap, rows_between = case
    bits = np.random.default_rng(order).integers(0, 256, (batch, rows, columns * itemsize), np.uint8)
    elements = bits.view(f"u{itemsize}")
    layout = Layout(BY_SIZE[itemsize], batch, rows, columns, columns + gap, rows + rows_between, in_groups=False)
    lies = launches.Layout(layout.pitch, layout.pitch * layout.kept_rows, offset=offset)
    planned = digest_plan(layout, offset * itemsize)
    memory = Memory(elements.shape, elements.dtype, lies, elements.tobytes())
    found = Memory.flat(np.zeros(planned.parts, np.uint64), is_result=True)
    launch = Launch((planned.blocks, 1, 1), (THREADS, 1, 1))
    return planned.function, Run(launch, (memory, found), planned.numbers, order, case), expected_digests(elements)


@pytest.mark.parametrize(("function", "cases"), [("digest_aligned", WHOLE_CHUNKS), ("digest_any", OTHERS)])
def test_digests_are_those_of_the_stored_bytes(
    compiled: dict[str, Compiled], function: str, cases: list[tuple[int, int, int, int, int, int]]
) -> None:
    made = [run_of(case, order, 0) for order, case in enumerate(cases)]
    assert {name for name, _, _ in made} == {function}
    for (found,), (_, _, expected) in zip(execute(compiled[function], [run for _, run, _ in made]), made, strict=True):
        assert found.reshape(-1).tolist() == expected


@pytest.mark.parametrize("case", [WHOLE_CHUNKS[0], WHOLE_CHUNKS[4], OTHERS[0]])
def test_a_matrix_may_begin_anywhere(compiled: dict[str, Compiled], case: tuple[int, int, int, int, int, int]) -> None:
    function, run, expected = run_of(case, 5, offset=1)
    assert function == "digest_any"
    ((found,),) = execute(compiled[function], [run])
    assert found.reshape(-1).tolist() == expected


@pytest.mark.parametrize("size", [*range(16384, 16384 + 70, 13), 32767, 32768, 33793, 65536, 69999])
def test_parts_of_any_length(compiled: dict[str, Compiled], size: int) -> None:
    function, run, expected = run_of((1, 1, 1, size, 0, 0), size, 0)
    assert function == ("digest_aligned" if size % 16 == 0 else "digest_any")
    ((found,),) = execute(compiled[function], [run])
    assert found.reshape(-1).tolist() == expected
