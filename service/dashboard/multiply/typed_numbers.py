"""Parses numbers typed into the form of `/ui/multiply`."""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

from jobs.errors import InvalidMatrix, InvalidRequest

MAX_NUMBER = 64  # characters
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NAMED = ("NaN", "Infinity", "-Infinity")


def rows_of(text: str, name: str, *, is_complex: bool = False) -> list[list[Any]]:
    """Parses rows, one per line, with numbers separated by spaces or commas. Raises InvalidMatrix with the number of
    the wrong line.
    """
    rows: list[list[Any]] = []
    first = 0
    read = _complex if is_complex else _number
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        place = f"Line {number} of {name.upper()}"
        row = [read(word, place, name) for word in re.split(r"\s*,\s*|\s+", line.strip())]
        first = first or number
        if rows and len(row) != len(rows[0]):
            raise InvalidMatrix(f"{place} has {len(row)} numbers, but line {first} has {len(rows[0])}.", field=name)
        rows.append(row)
    if not rows:
        raise InvalidMatrix(f"{name.upper()} is empty; write its rows as lines of numbers.", field=name)
    return rows


def factor_of(text: str, name: str) -> int | float | list[int | float]:
    """Parses a number, which may be complex, such as 1-2i. Raises InvalidRequest."""
    parts = parts_of(text)
    if parts is None or not all(math.isfinite(float(part)) for part in parts):
        raise InvalidRequest(f"{name} must be a number, such as 0.5, or 1-2i where the product is complex.", field=name)
    return [*map(_value, parts)] if text[-1] in "ij" else _value(parts[0])


def parts_of(word: str) -> tuple[str, str] | None:
    """The real and imaginary part of a number such as 1, 2i, -i or 1.5-2e3i; None if it is not a number. `j` is
    an imaginary unit too."""
    if not word or len(word) > MAX_NUMBER:
        return None
    if _NUMBER.fullmatch(word):
        return word, "0"
    if word[-1] not in "ij":
        return None
    real, imaginary = _split(word[:-1])
    imaginary = imaginary + "1" if imaginary in ("", "+", "-") else imaginary
    return (real or "0", imaginary) if _NUMBER.fullmatch(imaginary) and _NUMBER.fullmatch(real or "0") else None


def _split(text: str) -> tuple[str, str]:
    """Splits before the last sign that does not belong to an exponent."""
    signs = [at for at, character in enumerate(text) if character in "+-" and text[at - 1 : at] not in ("e", "E")]
    at = signs[-1] if signs else 0
    return text[:at], text[at:]


def _value(text: str) -> int | float:
    return int(text) if _INTEGER.fullmatch(text) else float(text)


def _complex(word: str, place: str, name: str) -> list[Any]:
    if word in _NAMED:
        return [word, 0]
    parts = parts_of(word)
    if parts is None:
        _refuse(word, place, name, "a number such as 1.5-2i belongs; there is no space in it")
    for part in parts:
        _check_size(part, place, name)
    return [*map(_value, parts)]


def _number(word: str, place: str, name: str) -> int | float | str:
    if word in _NAMED:
        return word
    if len(word) > MAX_NUMBER or not _NUMBER.fullmatch(word):
        _refuse(
            word,
            place,
            name,
            "a number belongs; a decimal point is a point, and spaces or commas stand between numbers",
        )
    _check_size(word, place, name)
    return _value(word)


def _check_size(word: str, place: str, name: str) -> None:
    if not math.isfinite(float(word)):
        raise InvalidMatrix(f"{place} has {word}, which is too large for any element type.", field=name)


def _refuse(word: str, place: str, name: str, because: str) -> NoReturn:
    if not word:
        raise InvalidMatrix(f"{place} has a comma without a number beside it.", field=name)
    shown = word if len(word) <= MAX_NUMBER else f"{word[:MAX_NUMBER]}…"
    raise InvalidMatrix(f"{place} has “{shown}” where {because}.", field=name)
