"""Who says that a launch may overlap another has a source that waits for what it needs of it."""

from __future__ import annotations

from kernels.catalog import CATALOG
from kernels.model.architectures import H200
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem
from kernels.selection.defaults import default_config, main_dtype
from worker.cuda.sources import Program, edge_program, kernel_program, transpose_program

WAITS, LETS = "wait_on_dependency();", "launch_dependents();"


def says(program: Program, words: str) -> bool:
    """In a source or header of it, but for the one that explains these words."""
    texts = [program.source, *(text for name, text in program.headers.items() if name != "dependent_launch.cuh")]
    return any(words in text for text in texts)


def test_a_kernel_follows_if_and_only_if_it_waits() -> None:
    following = set()
    for kernel in (one for one in CATALOG if isinstance(one, CudaKernel)):
        program = kernel_program(kernel, default_config(kernel, H200.traits), Problem(1, 1, 1, main_dtype(kernel)))
        assert kernel.supports_dependent_launch == says(program, WAITS), kernel.name
        following |= {kernel.name} if kernel.supports_dependent_launch else set()
    assert {"hopper_fp32", "hopper_tf32", "hopper_fp8"} <= following


def test_predecessors_release_dependents_and_the_edge_waits_for_its_kernel() -> None:
    assert all(says(transpose_program(itemsize), LETS) for itemsize in (1, 2, 4, 8))
    assert says(edge_program(Problem(9, 9, 9, "float32"), 1, narrow=True), WAITS)
