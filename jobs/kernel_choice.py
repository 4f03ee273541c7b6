"""The name of a kernel, as a request may give it."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from kernels.catalog import BY_NAME, KERNEL_NAMES


def _known_kernel(name: str) -> str:
    if name != "auto" and name not in BY_NAME:
        raise ValueError(
            f"there is no kernel {name[:40]!r}; GET /v1/kernels lists the {len(KERNEL_NAMES)} there are, "
            "and auto picks one"
        )
    return name


KernelChoice = Annotated[
    str, AfterValidator(_known_kernel), WithJsonSchema({"type": "string", "enum": ["auto", *KERNEL_NAMES]})
]
