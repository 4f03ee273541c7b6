"""Client of the matmul service: `Client` and `AsyncClient`.

from matmul_client import Client

with Client() as client:            # MATMUL_URL, MATMUL_API_KEY, or http://127.0.0.1:8000
    c = client.matmul(a, b)         # numpy, CuPy, PyTorch, anything with __dlpack__
    A, B = client.upload(a), client.upload(b)
    d = (A @ B @ x).result()        # computed there; one product comes back
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from matmul_client.version import __version__

if TYPE_CHECKING:
    from matmul_client.async_client import AsyncClient
    from matmul_client.client import Client
    from matmul_client.core.errors import (
        Busy,
        Conflict,
        DeadlineExceeded,
        InvalidOperand,
        InvalidRequest,
        JobCancelled,
        JobFailed,
        MatmulError,
        NotAllowed,
        NotFound,
        ServerError,
        ServiceFailed,
        Unreachable,
    )
    from matmul_client.core.quantized import per_block_cast_to_fp8, per_token_cast_to_fp8


__all__ = [
    "AsyncClient",
    "Busy",
    "Client",
    "Conflict",
    "DeadlineExceeded",
    "InvalidOperand",
    "InvalidRequest",
    "JobCancelled",
    "JobFailed",
    "MatmulError",
    "NotAllowed",
    "NotFound",
    "ServerError",
    "ServiceFailed",
    "Unreachable",
    "__version__",
    "per_block_cast_to_fp8",
    "per_token_cast_to_fp8",
]
_MODULES = {
    "AsyncClient": "matmul_client.async_client",
    "Client": "matmul_client.client",
    "per_block_cast_to_fp8": "matmul_client.core.quantized",
    "per_token_cast_to_fp8": "matmul_client.core.quantized",
}


def __getattr__(name: str) -> Any:
    """Loads submodules on demand, so that importing the package is cheap."""
    if name not in __all__:
        raise AttributeError(f"module 'matmul_client' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES.get(name, "matmul_client.core.errors")), name)
