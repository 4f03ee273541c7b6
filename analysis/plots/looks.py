"""How a curve looks, as indices of a backend's colours, dashes and marks. A kernel looks the same in every plot, and
kernels of one family have one colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType

from analysis.curves import is_library
from kernels.catalog import BY_NAME, KERNEL_NAMES

__all__ = ["DASHES", "FAMILIES", "HUES", "MARKS", "Look", "free_looks", "is_library", "look_of", "looks"]

HUES, DASHES, MARKS = 7, 4, 11  # every backend has this many
# Families of kernels, by what their threads share; a hue for each.
FAMILIES: tuple[tuple[str, ...], ...] = (
    ("warp_tiled", "pipelined", "strassen"),
    ("naive_uncoalesced", "naive", "unrolled", "coarsened"),
    ("register_tiled_rows", "register_tiled", "vectorized"),
    ("hopper_bf16", "hopper_fp16", "hopper_int8", "hopper_tf32", "hopper_fp32", "hopper_fp8"),
    ("split_k", "cluster_split_k"),
    ("shared_tiled", "shared_tiled_privatized", "shared_tiled_prefetch"),
    ("tensor_wmma", "tensor_fp64", "fp32_emulated", "fp64_emulated", "hopper_fp64", "complex_as_real"),
)


@dataclass(frozen=True, slots=True)
class Look:
    """`hue` is None for ink, the colour of libraries."""

    hue: int | None
    dash: int
    mark: int


def look_of(number: int, *, is_library: bool = False) -> Look:
    """The look of the curve with that number: no two of HUES × DASHES × MARKS are alike."""
    dash = number if is_library else number // HUES
    return Look(None if is_library else number % HUES, dash % DASHES, number % MARKS)


def _of_kernel(name: str) -> Look:
    """The family's hue, with a dash and mark that distinguish the kernel from others of the family."""
    number = KERNEL_NAMES.index(name)
    for hue, family in enumerate(FAMILIES):
        if name in family:
            return Look(hue, family.index(name) % DASHES, number % MARKS)
    return look_of(number, is_library=is_library(name))


KERNEL_LOOKS: Mapping[str, Look] = MappingProxyType({name: _of_kernel(name) for name in KERNEL_NAMES})


def free_looks() -> Iterator[Look]:
    """Looks that no kernel has."""
    kernels = set(KERNEL_LOOKS.values())
    return (look for number in count() if (look := look_of(number)) not in kernels)


def looks(curves: Iterable[tuple[str, str | None]]) -> dict[str, Look]:
    """Looks by label; `labels` maps each label to its kernel. A curve with a kernel's own name looks the same in every
    plot; the others get free looks, in ink for libraries."""
    free, numbers = free_looks(), count(len(KERNEL_NAMES))
    return {
        label: KERNEL_LOOKS[label]
        if label in BY_NAME
        else (look_of(next(numbers), is_library=True) if is_library(kernel) else next(free))
        for label, kernel in dict(curves).items()
    }
