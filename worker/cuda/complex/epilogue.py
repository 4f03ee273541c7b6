"""What the two functions of src/complex_epilogue.cu are launched with. Needs no device."""

from __future__ import annotations

from kernels.model.groups import tiles
from kernels.model.launch_plan import Launch
from worker.cuda.pitch import Layout

THREADS, BLOCKS = 256, 8192  # blocks at most


def complex_epilogue_launch(d: Layout) -> Launch:
    """The launch of the complex epilogue and of its check; `d` is what is written."""
    return Launch((min(BLOCKS, tiles(d.batch * d.rows * d.columns, THREADS)), 1, 1), (THREADS, 1, 1))
