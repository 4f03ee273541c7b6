"""The exercise of a rung: beat it."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.catalog import BY_NAME
from kernels.families import FAMILY_OF, neighbours
from kernels.model.kernel import CudaKernel

# Hints, where the summary of the next rung would not do.
QUESTIONS = {
    "naive_uncoalesced": "Which addresses do the 32 threads of a warp read in one instruction? Make them neighbours.",
    "naive": "How many instructions of the loop multiply, and how many count and compare? Let the compiler unroll it.",
    "unrolled": "Each element of B is read for one multiply-add. How many elements of C could one thread make of it?",
    "coarsened": "Which elements do several threads of a block read? Where could they put them for each other?",
    "shared_tiled": "Two reads of shared memory make one multiply-add. What could stay in a register?",
    "shared_tiled_privatized": "While a tile is copied nobody multiplies. Could its copy begin earlier?",
    "shared_tiled_prefetch": "A thread makes one element. What changes if it makes eight of one column?",
    "register_tiled_rows": "With 8 rows a thread loads 9 words for 8 multiply-adds. What does 8×8 need?",
    "register_tiled": "Look at the instructions: how many LDS are there for each FFMA? How wide are they?",
    "vectorized": "Which threads of a warp read the same words of shared memory? Can they stand closer together?",
    "warp_tiled": "Registers hold the next tile while it is on its way. Who else could hold it?",
    "pipelined": "It comes close to the library. At which sizes does it fall back, and how many waves are there?",
}


@dataclass(frozen=True, slots=True)
class Exercise:
    """`hint` is the idea of the next rung; `tests` selects the emulation's tests of the kernel."""

    question: str
    file: str
    entry: str
    hint_name: str | None
    hint: str
    rivals: tuple[str, ...]

    @property
    def address(self) -> str:
        """The form of a benchmark that compares it with its competitors."""
        chosen = "&".join(f"kernels={name}" for name in self.rivals)
        return f"/ui/benchmarks/new?{chosen}"


def exercise_of(name: str) -> Exercise | None:
    """The exercise of a rung; None for a kernel outside the ladder, or of which no question is asked."""
    kernel = BY_NAME[name]
    if not FAMILY_OF[name].steps or not isinstance(kernel, CudaKernel) or name not in QUESTIONS:
        return None
    _, after = neighbours(name)
    return Exercise(
        question=QUESTIONS[name],
        file=f"kernels/cuda/ladder/{kernel.source_path.name}",
        entry="kernels/entries/",
        hint_name=after,
        hint=BY_NAME[after].summary if after else "",
        rivals=tuple(one for one in (name, after, "cublas") if one),
    )
