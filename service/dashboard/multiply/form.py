"""The form of `/ui/multiply`: what was typed, and the request that it stands for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any
from urllib.parse import urlencode

from jobs.errors import InvalidConfig, InvalidMatrix, InvalidRequest

SOURCES = ("random", "pasted", "files", "stored")
TYPED = ("random", "pasted")  # sources whose element type is chosen in the form
ADVANCED = (
    *("accuracy", "tolerance", "tolerance_kind", "reproducible", "config", "alpha", "beta", "seed_b", "seed_c"),
    *("distribution", "transpose_a", "transpose_b"),
)
MAX_NUMBER = 64  # characters
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_PARAMETER = re.compile(r"(\w+)\s*[=: ]\s*(\d{1,9})", re.ASCII)
_NAMED = ("NaN", "Infinity", "-Infinity")


@dataclass(frozen=True, slots=True)
class MultiplyForm:
    """Fields as they were typed; a box that is not ticked is empty."""

    source: str = "random"
    kernel: str = "auto"
    config: str = ""
    dtype: str = ""
    accuracy: str = ""
    tolerance: str = ""
    tolerance_kind: str = ""  # counts with a tolerance alone
    reproducible: str = ""
    transpose_a: str = ""
    transpose_b: str = ""
    m: str = "512"
    n: str = "512"
    k: str = "512"
    seed: str = "1"
    seed_b: str = ""  # without it the one after A's
    distribution: str = "normal"
    a: str = "1 2\n3 4"
    b: str = "5 6\n7 8"
    c: str = ""
    seed_c: str = ""  # without it there is no C
    file_a: str = ""  # names, for what the request would look like
    file_b: str = ""
    file_c: str = ""
    matrix_a: str = ""  # ids
    matrix_b: str = ""
    matrix_c: str = ""
    alpha: str = ""
    beta: str = ""
    token: str = ""  # another for each page that is shown: the same form sent twice multiplies once

    @property
    def is_advanced(self) -> bool:
        """Whether a field has something that most leave as it is."""
        usual = MultiplyForm()
        return any(getattr(self, name) != getattr(usual, name) for name in ADVANCED)

    def address(self, source: str) -> str:
        """The page with the same options and operands of another source."""
        kept = (
            "kernel",
            "config",
            "accuracy",
            "tolerance",
            "tolerance_kind",
            "reproducible",
            "transpose_a",
            "transpose_b",
            "alpha",
            *(("dtype",) if source in TYPED else ()),
        )
        return self._address(source, kept)

    def whole_address(self) -> str:
        """The page with this form, as it is."""
        return self._address(self.source, [name for name in FIELDS if name not in ("source", "token")])

    def _address(self, source: str, kept: Iterable[str]) -> str:
        usual, own = MultiplyForm(), asdict(self)
        changed = {name: own[name] for name in kept if own[name] != getattr(usual, name)}
        return f"/ui/multiply?{urlencode({'source': source} | changed)}"


FIELDS = tuple(field.name for field in fields(MultiplyForm))


def form_of(values: Mapping[str, str]) -> MultiplyForm:
    """What is not among them is as it is at first."""
    form = MultiplyForm(**{name: values[name] for name in FIELDS if name in values})
    return form if form.source in SOURCES else MultiplyForm()


def document_of(form: MultiplyForm) -> dict[str, Any]:
    """The JSON body that asks for the same product; not for files. Raises InvalidRequest and its kin."""
    return operands_of(form) | options_of(form)


def options_of(form: MultiplyForm) -> dict[str, Any]:
    """Those that are not as they are by default. Raises InvalidConfig."""
    told: dict[str, Any] = {
        "kernel": "" if form.kernel == "auto" else form.kernel,
        "config": _config(form.config),
        "dtype": form.dtype if form.source in TYPED else "",
        "accuracy": form.accuracy,
        "tolerance_kind": form.tolerance_kind if form.tolerance.strip() else "",
        "reproducible": bool(form.reproducible),
        "transpose_a": bool(form.transpose_a),
        "transpose_b": bool(form.transpose_b),
    }
    numbers = ("tolerance", "alpha", "beta")
    factors = {name: _factor(text, name) for name in numbers if (text := getattr(form, name).strip())}
    return {name: value for name, value in told.items() if value} | factors


def operands_of(form: MultiplyForm) -> dict[str, Any]:
    """As a JSON body has them. Raises InvalidRequest, InvalidMatrix."""
    if form.source == "pasted":
        added = {"c": rows_of(form.c, "c")} if form.c.strip() else {}
        return {"a": rows_of(form.a, "a"), "b": rows_of(form.b, "b")} | added
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


def rows_of(text: str, name: str) -> list[list[Any]]:
    """Rows by lines, numbers by spaces or commas. Raises InvalidMatrix with the line of what is wrong."""
    rows: list[list[Any]] = []
    first = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        place = f"Line {number} of {name.upper()}"
        row = [_number(word, place, name) for word in re.split(r"\s*,\s*|\s+", line.strip())]
        first = first or number
        if rows and len(row) != len(rows[0]):
            raise InvalidMatrix(f"{place} has {len(row)} numbers, but line {first} has {len(rows[0])}.", field=name)
        rows.append(row)
    if not rows:
        raise InvalidMatrix(f"{name.upper()} is empty; write its rows as lines of numbers.", field=name)
    return rows


def _number(word: str, place: str, name: str) -> int | float | str:
    if not word:
        raise InvalidMatrix(f"{place} has a comma without a number beside it.", field=name)
    if word in _NAMED:
        return word
    if len(word) > MAX_NUMBER or not _NUMBER.fullmatch(word):
        shown = word if len(word) <= MAX_NUMBER else f"{word[:MAX_NUMBER]}…"
        raise InvalidMatrix(
            f"{place} has “{shown}” where a number belongs; a decimal point is a point, and spaces or commas stand "
            "between numbers.",
            field=name,
        )
    if not math.isfinite(float(word)):
        raise InvalidMatrix(f"{place} has {word}, which is too large for any element type.", field=name)
    return int(word) if _INTEGER.fullmatch(word) else float(word)


def _matrix_id(text: str, name: str) -> str:
    if not text.strip():
        raise InvalidRequest(f"There is no {name.upper()}; give the id of a stored matrix.", field=f"matrix_{name}")
    return text.strip()


def _factor(text: str, name: str) -> int | float:
    if len(text) > MAX_NUMBER or not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        raise InvalidRequest(f"{name} must be a number, such as 0.5.", field=name)
    return int(text) if _INTEGER.fullmatch(text) else float(text)


def _whole(text: str, name: str, minimum: int) -> int:
    if not _WHOLE.fullmatch(text.strip()) or int(text) < minimum:
        raise InvalidRequest(f"{name} must be a whole number from {minimum} on, of at most 18 digits.", field=name)
    return int(text)


def _config(text: str) -> dict[str, int]:
    """As in `block_m 64, block_n 64`. Raises InvalidConfig."""
    config: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        if (match := _PARAMETER.fullmatch(part)) is None:
            raise InvalidConfig(
                "The tile config is a list such as “block_m 64, block_n 64”: names, each with a whole number.",
                field="config",
            )
        config[match[1]] = int(match[2])
    return config
