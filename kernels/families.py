"""Families of kernels, for learning and choosing: the ladder in order, and the kernels outside it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from kernels.catalog import KERNEL_NAMES


@dataclass(frozen=True, slots=True)
class Family:
    """A family. `names` are in reading order; `steps`: whether each kernel changes one thing of the previous one."""

    name: str
    title: str
    summary: str
    names: tuple[str, ...]
    steps: bool = False


_LISTED: tuple[Family, ...] = (
    Family(
        "ladder",
        "The ladder",
        "From the simplest kernel up, on CUDA cores alone. Each rung changes one thing of the rung before.",
        (
            *("naive_uncoalesced", "naive", "unrolled", "coarsened", "shared_tiled", "shared_tiled_privatized"),
            *(
                "shared_tiled_prefetch",
                "register_tiled_rows",
                "register_tiled",
                "vectorized",
                "warp_tiled",
                "pipelined",
            ),
        ),
        steps=True,
    ),
    Family(
        "tensor",
        "Tensor cores",
        "The matrix instructions of a warp: by WMMA, for float64, and for floats put together of integers.",
        ("tensor_wmma", "tensor_fp64", "fp32_emulated", "fp64_emulated"),
    ),
    Family(
        "hopper",
        "Hopper",
        "What compute capability 9.0 added: bulk tensor copies (TMA), matrix instructions of four warps, clusters.",
        ("hopper_bf16", "hopper_fp16", "hopper_int8", "hopper_tf32", "hopper_fp8", "hopper_fp32", "hopper_fp64"),
    ),
    Family(
        "small",
        "Small and skinny products",
        "Where a product has too few tiles to fill a GPU, several blocks share one.",
        ("split_k", "cluster_split_k"),
    ),
    Family("algorithms", "Fewer multiplications", "Seven products of halves instead of eight.", ("strassen",)),
    Family(
        "composed",
        "Complex products",
        "Products that are made of other kernels' products, of real numbers.",
        ("complex_as_real",),
    ),
    Family(
        "libraries",
        "Libraries",
        "What all others are compared with.",
        (
            "cpu_blas",
            "cublas",
            "cublas_tuned",
            "cublas_tf32",
            "cublas_tf32_tuned",
            "cublas_bf16",
            "cublas_fp16",
            "cublas_fp8_fast",
            "cublas_fp8_blocks",
        ),
    ),
    Family(
        "from_host",
        "Libraries on several GPUs",
        "Products of matrices in the host's memory, by one call of a library, on all GPUs of a worker.",
        ("cublas_xt", "cublasmp"),
    ),
    Family(
        "exact",
        "More exact",
        "What a product takes that is to be within a tolerance, or to have the same bits on every device.",
        ("cpu_float64", "cpu_exact"),
    ),
)
_UNLISTED = tuple(name for name in KERNEL_NAMES if not any(name in family.names for family in _LISTED))
_OTHERS = Family("others", "Others", "Kernels of the catalogue that no other family lists.", _UNLISTED)
FAMILIES: tuple[Family, ...] = (*_LISTED, *((_OTHERS,) if _UNLISTED else ()))
FAMILY_OF = MappingProxyType({name: family for family in FAMILIES for name in family.names})


def neighbours(name: str) -> tuple[str | None, str | None]:
    """The kernels before and after it in its family."""
    names = FAMILY_OF[name].names
    at = names.index(name)
    return (names[at - 1] if at else None), (names[at + 1] if at + 1 < len(names) else None)


def rung_before(name: str) -> str | None:
    """The previous rung of a kernel on the ladder; otherwise None."""
    return neighbours(name)[0] if FAMILY_OF[name].steps else None
