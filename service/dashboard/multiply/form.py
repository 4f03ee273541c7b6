"""The form of `/ui/multiply`, and the request that it stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any
from urllib.parse import urlencode

from jobs.errors import InvalidConfig, InvalidRequest
from kernels.model.numerics import DTYPES
from service.dashboard.multiply.typed_numbers import factor_of, rows_of

SOURCES = ("random", "pasted", "files", "stored")
TYPED = ("random", "pasted")  # sources whose element type is chosen in the form
TICKED = ("reproducible", "transpose_a", "transpose_b", "conjugate_a", "conjugate_b")
ADVANCED = (
    *("accuracy", "tolerance", "tolerance_kind", "config", "alpha", "beta", "seed_b", "seed_c", "distribution"),
    *TICKED,
)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_PARAMETER = re.compile(r"(\w+)\s*[=: ]\s*(\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class MultiplyForm:
    """Fields as they were typed; a box that is not ticked is empty."""

    source: str = "random"
    kernel: str = "auto"
    config: str = ""
    dtype: str = ""
    accuracy: str = ""
    tolerance: str = ""
    tolerance_kind: str = ""  # used only with a tolerance
    reproducible: str = ""
    transpose_a: str = ""
    transpose_b: str = ""
    conjugate_a: str = ""
    conjugate_b: str = ""
    m: str = "512"
    n: str = "512"
    k: str = "512"
    seed: str = "1"
    seed_b: str = ""  # default: the seed after A's
    distribution: str = "normal"
    a: str = "1 2\n3 4"
    b: str = "5 6\n7 8"
    c: str = ""
    seed_c: str = ""  # without it there is no C
    file_a: str = ""  # file names, for the preview of the request
    file_b: str = ""
    file_c: str = ""
    matrix_a: str = ""  # ids
    matrix_b: str = ""
    matrix_c: str = ""
    alpha: str = ""
    beta: str = ""
    token: str = ""  # different for each page view, so that a form sent twice multiplies once

    @property
    def is_complex(self) -> bool:
        """Whether typed numbers become pairs in JSON."""
        return any(dtype.is_complex for dtype in DTYPES.values() if dtype.name == self.dtype)

    @property
    def is_advanced(self) -> bool:
        """Whether an advanced field is set."""
        usual = MultiplyForm()
        return any(getattr(self, name) != getattr(usual, name) for name in ADVANCED)

    def address(self, source: str) -> str:
        """The address of the page with the same options and another source of operands."""
        kept = (
            "kernel",
            "config",
            "accuracy",
            "tolerance",
            "tolerance_kind",
            *TICKED,
            "alpha",
            *(("dtype",) if source in TYPED else ()),
        )
        return self._address(source, kept)

    def whole_address(self) -> str:
        """The address of the page with this form."""
        return self._address(self.source, [name for name in FIELDS if name not in ("source", "token")])

    def _address(self, source: str, kept: Iterable[str]) -> str:
        usual, own = MultiplyForm(), asdict(self)
        changed = {name: own[name] for name in kept if own[name] != getattr(usual, name)}
        return f"/ui/multiply?{urlencode({'source': source} | changed)}"


FIELDS = tuple(field.name for field in fields(MultiplyForm))


def form_of(values: Mapping[str, str]) -> MultiplyForm:
    """The form with these values; other fields have their defaults."""
    form = MultiplyForm(**{name: values[name] for name in FIELDS if name in values})
    return form if form.source in SOURCES else MultiplyForm()


def document_of(form: MultiplyForm) -> dict[str, Any]:
    """The JSON body for the same product; not for files. Raises InvalidRequest and its subclasses."""
    return operands_of(form) | options_of(form)


def options_of(form: MultiplyForm) -> dict[str, Any]:
    """The options that differ from their defaults. Raises InvalidConfig."""
    options: dict[str, Any] = {
        "kernel": "" if form.kernel == "auto" else form.kernel,
        "config": _config(form.config),
        "dtype": form.dtype if form.source in TYPED else "",
        "accuracy": form.accuracy,
        "tolerance_kind": form.tolerance_kind if form.tolerance.strip() else "",
        **{name: bool(getattr(form, name)) for name in TICKED},
    }
    numbers = ("tolerance", "alpha", "beta")
    factors = {name: factor_of(text, name) for name in numbers if (text := getattr(form, name).strip())}
    return {name: value for name, value in options.items() if value} | factors


def operands_of(form: MultiplyForm) -> dict[str, Any]:
    """The operands as in a JSON body. Raises InvalidRequest, InvalidMatrix."""
    if form.source == "pasted":
        rows = partial(rows_of, is_complex=form.is_complex)
        added = {"c": rows(form.c, "c")} if form.c.strip() else {}
        return {"a": rows(form.a, "a"), "b": rows(form.b, "b")} | added
    if form.source == "stored":
        names = ("a", "b", "c") if form.matrix_c.strip() else ("a", "b")
        return {name: {"matrix": _matrix_id(getattr(form, f"matrix_{name}"), name)} for name in names}
    m, n, k = (_whole(getattr(form, name), name, 1) for name in ("m", "n", "k"))
    seed = _whole(form.seed, "seed", 0)
    seeds = (seed, _whole(form.seed_b, "seed_b", 0) if form.seed_b.strip() else seed + 1)
    shapes = [k, m] if form.transpose_a else [m, k], [n, k] if form.transpose_b else [k, n]
    made = {name: {"shape": shape, "seed": own} for name, shape, own in zip("ab", shapes, seeds, strict=True)}
    if form.seed_c.strip():
        made["c"] = {"shape": [m, n], "seed": _whole(form.seed_c, "seed_c", 0)}
    distribution = {} if form.distribution == "normal" else {"distribution": form.distribution}
    return {name: {"random": spec | distribution} for name, spec in made.items()}


def _matrix_id(text: str, name: str) -> str:
    if not text.strip():
        raise InvalidRequest(f"There is no {name.upper()}; give the id of a stored matrix.", field=f"matrix_{name}")
    return text.strip()


def _whole(text: str, name: str, minimum: int) -> int:
    if not _WHOLE.fullmatch(text.strip()) or int(text) < minimum:
        raise InvalidRequest(f"{name} must be a whole number from {minimum} on, of at most 18 digits.", field=name)
    return int(text)


def _config(text: str) -> dict[str, int]:
    """Parses a config such as `block_m 64, block_n 64`. Raises InvalidConfig."""
    config: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        if (match := _PARAMETER.fullmatch(part)) is None:
            raise InvalidConfig(
                "The tile config is a list such as “block_m 64, block_n 64”: names, each with a whole number.",
                field="config",
            )
        config[match[1]] = int(match[2])
    return config
