"""What the fast kernels are to reach: speed over the library's kernel of the same class, in the same run. Data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernels.numerics import DTypeName

Bounds = tuple[float, float]  # what a ratio must reach, and what it aims at

LARGE: Mapping[int, Bounds] = dict.fromkeys((4096, 8192, 16384), (1.02, 1.15))
# cuBLAS is far slower there; the aim is no dip at all beside the size next to it.
ODD: Mapping[int, Bounds] = {2047: (2.0, 5.0), 2049: (2.5, 5.0), 4097: (3.0, 5.0), 8193: (3.5, 5.0)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A kernel of one element type, and what it is to reach at square sizes."""

    kernel: str
    dtype: DTypeName
    bounds: Mapping[int, Bounds]  # by N

    @property
    def spec(self) -> dict[str, Any]:
        """The benchmark that measures it, with its baseline in every round and the energy of each."""
        return {
            "title": f"{self.kernel} beside the library",
            "kernels": [self.kernel],
            "dtypes": [self.dtype],
            "shapes": sorted(self.bounds),
            "energy": {"enabled": True},
        }


TARGETS = (
    Target(kernel="hopper_bf16", dtype="bfloat16", bounds={**LARGE, **ODD}),
    Target(kernel="hopper_fp16", dtype="float16", bounds={**LARGE, **ODD}),
    Target(kernel="fp32_emulated", dtype="float32", bounds={2048: (1.5, 2.5), 4096: (2.5, 4.0), 8192: (3.0, 5.0)}),
)
