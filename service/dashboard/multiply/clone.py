"""The form of `/ui/multiply` that asks for the same product as a job did."""

from __future__ import annotations

from jobs.models import MatmulRequest, OperandRef
from service.dashboard.multiply.form import MultiplyForm


def clone_of(request: MatmulRequest) -> MultiplyForm:
    """Operands that came with their request are not kept after it: the form then has its options, and asks for files.

    The same for operands that the form cannot say: of mixed kinds, or with a batch axis.
    """
    options = {
        "kernel": request.kernel,
        "config": ", ".join(f"{name} {value}" for name, value in request.config.items()),
        "accuracy": request.accuracy,
        "transpose_a": "1" if request.transpose_a else "",
        "transpose_b": "1" if request.transpose_b else "",
    }
    return MultiplyForm(**options | _operands(request.a, request.b, request))


def _operands(a: OperandRef, b: OperandRef, request: MatmulRequest) -> dict[str, str]:
    if a.matrix is not None and b.matrix is not None and a.source == b.source == "matrix":
        return {"source": "stored", "matrix_a": a.matrix, "matrix_b": b.matrix}
    is_plain = len(a.shape) == len(b.shape) == 2 and a.dtype == b.dtype
    if a.random is None or b.random is None or not is_plain or a.random.distribution != b.random.distribution:
        return {"source": "files"}
    m, k = reversed(a.shape) if request.transpose_a else a.shape
    n = b.shape[0] if request.transpose_b else b.shape[1]
    follows = b.random.seed == a.random.seed + 1
    return {
        "source": "random",
        "m": str(m),
        "n": str(n),
        "k": str(k),
        "seed": str(a.random.seed),
        "seed_b": "" if follows else str(b.random.seed),
        "distribution": a.random.distribution,
        "dtype": a.dtype,
    }
