"""8-bit operands multiplied by their block scales, in the emulation: by the function that products go through and by
the check's, against what the host makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.formats.elements import Array
from tests.emulation import launches
from tests.emulation.launches import Memory, Run, execute
from tests.emulation.programs import Emulator
from tests.support.scaled.operands import scaled_operands, scaled_problem, true_matrix
from worker.cuda.pitch import Layout, operand_layout
from worker.cuda.scaled.arrangement import by_stage, dequantised_layout, launch_of, sizes_of
from worker.cuda.sources import scales_program


def lying(elements: Array, at: Layout) -> Memory:
    items = elements.reshape(at.batch, at.rows, at.columns)
    return Memory(items.shape, items.dtype, launches.Layout(at.pitch, at.pitch * at.kept_rows), items.tobytes())


@pytest.mark.parametrize(("transposed", "width"), [(False, 1), (True, 128)])
def test_both_functions_find_every_scale(emulator: Emulator, transposed: bool, width: int) -> None:
    problem = scaled_problem(
        37, 140, 261, width, batch=2, transpose_a=transposed, transpose_b=transposed, b_batched=True
    )
    pair = scaled_operands(problem, np.random.default_rng(3), 1 if transposed else 128)
    functions = [emulator.compile(scales_program(), name) for name in ("dequantise", "dequantise_check")]
    for order, (operand, name) in enumerate(zip(pair, "ab", strict=True)):
        at = operand_layout("float8_e4m3", operand.shape)
        to = dequantised_layout(at)
        room = Memory(
            (to.batch, to.rows, to.columns),
            np.dtype(np.float32),
            launches.Layout(to.pitch, to.pitch * to.kept_rows),
            is_result=True,
        )
        stages, sent = by_stage(problem, operand, name), operand.scales.elements
        of_item = stages[0].size if len(stages) > 1 else 0
        own = 1 if name == "a" else width
        numbers = [
            (*sizes_of(at, to), stages.shape[2], of_item, own, int((name == "a") != transposed)),
            (*sizes_of(at, to), *operand.block),
        ]
        expected = true_matrix(operand).astype(np.float32).reshape(room.shape)
        for function, scales, own_numbers in zip(functions, (stages, sent), numbers, strict=True):
            memories = lying(operand.elements, at), room, Memory.flat(scales)
            ((found,),) = execute(function, [Run(launch_of(at), memories, own_numbers, order)])
            np.testing.assert_array_equal(found, expected)
