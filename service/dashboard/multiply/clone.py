"""The form of `/ui/multiply` for the same product as an earlier job."""

from __future__ import annotations

from jobs.models import MatmulRequest
from service.dashboard.multiply.form import TICKED, MultiplyForm


def clone_of(request: MatmulRequest) -> MultiplyForm | None:
    """The form for a request. Operands that were sent with the request are no longer available, so the form then has
    only its options and asks for files. The same holds for operands that the form cannot express: of mixed kinds, or
    with a batch axis. None if the request has options without a field in the form, because the form would ask for
    another product.
    """
    others = request.bias, request.activation, request.output_dtype, request.scale_a, request.group_sizes
    if any(each is not None for each in others):
        return None
    options = {
        "kernel": request.kernel,
        "config": ", ".join(f"{name} {value}" for name, value in request.config.items()),
        "accuracy": request.accuracy if request.tolerance is None else "",
        "tolerance": "" if request.tolerance is None else _factor_text(request.tolerance),
        "tolerance_kind": "" if request.tolerance_kind == "componentwise" else request.tolerance_kind,
        **{name: "1" if getattr(request, name) else "" for name in TICKED},
        "alpha": "" if request.alpha == 1.0 else _factor_text(request.alpha),
        "beta": "" if request.c is None else _factor_text(request.beta),
    }
    return MultiplyForm(**options | _operands(request))


def _factor_text(factor: float | tuple[float, float]) -> str:
    """A factor as text, such as `0.5` or `1-2i`."""
    if isinstance(factor, tuple):
        return f"{_factor_text(factor[0])}{'' if str(factor[1]).startswith('-') else '+'}{_factor_text(factor[1])}i"
    return str(factor).removesuffix(".0")


def _operands(request: MatmulRequest) -> dict[str, str]:
    a, b, operands = request.a, request.b, request.operands
    if all(ref.matrix is not None and ref.source == "matrix" for ref in operands.values()):
        return {"source": "stored"} | {f"matrix_{name}": ref.matrix or "" for name, ref in operands.items()}
    is_plain = all(len(ref.shape) == 2 for ref in operands.values()) and a.dtype == b.dtype
    specs = [ref.random for ref in operands.values() if ref.random is not None]
    if not is_plain or len(specs) < len(operands) or len({spec.distribution for spec in specs}) > 1:
        return {"source": "files"}
    assert a.random is not None and b.random is not None, "all of them are"
    m, k = reversed(a.shape) if request.transpose_a else a.shape
    n = b.shape[0] if request.transpose_b else b.shape[1]
    is_next_seed = b.random.seed == a.random.seed + 1
    return {
        "source": "random",
        "m": str(m),
        "n": str(n),
        "k": str(k),
        "seed": str(a.random.seed),
        "seed_b": "" if is_next_seed else str(b.random.seed),
        "seed_c": str(specs[2].seed) if len(specs) == len("abc") else "",
        "distribution": a.random.distribution,
        "dtype": a.dtype,
    }
