"""Converts nested JSON lists to a matrix and back, strictly: only numbers are accepted, rows have equal length, and no
overflow goes unnoticed. Error messages give positions as in `b[3][1]`. A complex number is a pair, [re, im].
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import prod
from typing import Any, NoReturn

import numpy as np
import orjson

from jobs.errors import InvalidMatrix, MalformedBody
from jobs.formats.bit_floats import held_as_bits, narrow, widen
from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.numerics import DTYPES, DTypeName

NAMED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
MAX_DEPTH = 4  # a batch of complex matrices
PAIR = 2  # numbers in a complex element
MAX_INTEGER_DIGITS = 300  # fewer than float64's largest number has


class NotJson(str):
    """Stands for what is no JSON number: a bare NaN, or a number beyond float64. No conversion accepts it."""


def loads(body: bytes, called: str = "The body") -> Any:
    """The JSON value of `body`; `called` is its name in error messages. Raises MalformedBody with the position of the
    syntax error. Bare NaN and infinities become NotJson, so that `Numbers` can name the element.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        try:
            value, found = _loads_leniently(body)
        except (ValueError, RecursionError):
            found = False
        if not found:
            raise MalformedBody(f"{called} is not JSON: {error}.") from None
        return value


class _Noted(dict[str, NotJson]):
    """The bare tokens that were met. Only the first of each kind runs Python."""

    def __missing__(self, text: str) -> NotJson:
        self[text] = token = NotJson(text)
        return token


def _loads_leniently(body: bytes) -> tuple[Any, bool]:
    """The value, possibly with NotJson in it, and whether it has any."""
    noted = _Noted()
    value = json.loads(
        body,
        parse_constant=noted.__getitem__,
        parse_float=lambda text: x if math.isfinite(x := float(text)) else noted[text],
        parse_int=lambda text: int(text) if len(text) <= MAX_INTEGER_DIGITS else noted[text],
    )
    return value, bool(noted)


@dataclass(frozen=True)
class Numbers:
    """A matrix, or a batch of matrices, from JSON: elements in row-major order. Raises InvalidMatrix with the position
    of an element that is not a number. Complex matrices have a last axis of length 2.
    """

    name: str  # the operand's name, for error messages
    elements: Sequence[Any]
    shape: tuple[int, ...]

    @cached_property
    def types(self) -> set[type]:
        return set(map(type, self.elements))

    @property
    def are_whole(self) -> bool:
        """Whether all numbers are written as integers, without a point or an exponent."""
        return self.types == {int}

    @cached_property
    def values(self) -> Array:
        """The numbers as a one-dimensional float64 array."""
        elements = self.elements
        if not self.types <= {int, float}:  # `type`, because a bool is an int to isinstance
            elements = [NAMED.get(x, x) if type(x) is str else x for x in elements]
            _check_numbers(elements, self.name, self.shape, 'or "NaN", "Infinity" or "-Infinity" in quotes')
        return np.array(elements, np.float64)

    @cached_property
    def largest(self) -> float:
        """The largest magnitude; NaN if there is a NaN."""
        return float(np.abs(self.values).max(initial=0.0))

    @property
    def may_have_lost_digits(self) -> bool:
        """Whether an integer of more than 64 bits may be among them, which `loads` reads as a float."""
        if float not in self.types or self.largest < 2.0**63:
            return False
        return bool((np.isfinite(self.values) & (np.abs(self.values) >= 2.0**63)).any())

    def stored(self, dtype: DTypeName) -> Array:
        """In the stored form of an element type."""
        if (part := DTYPES[dtype].part) is not None:
            return _floats(self, part).view(STORAGE_DTYPES[dtype]).reshape(self.shape[:-1])
        convert = _integers if DTYPES[dtype].is_integer else _floats
        return convert(self, dtype).reshape(self.shape)

    def position(self, index: int) -> str:
        """The position of an element, as in `b[3][1]`."""
        return _position(self.name, self.shape, index)


def read_numbers(value: list[Any], name: str, dtype: DTypeName | None = None) -> Numbers:
    """Parses nested lists of a regular shape, of pairs if `dtype` is complex. Raises InvalidMatrix with the position
    where they are irregular.
    """
    if dtype is None or not DTYPES[dtype].is_complex:
        return Numbers(name, *_flatten(value, name))
    if value and all(row == [] for row in value):
        return Numbers(name, [], (len(value), 0, PAIR))
    if _depth(value) == len(("rows", "elements")):
        _refuse(f"{name} is rows of numbers, but an element of {dtype} is a pair, [re, im]: write 1 as [1, 0].", name)
    elements, shape = _flatten(value, name, depths=(3, 4))
    if shape[-1] != PAIR:
        where = _position(name, shape[:-1], 0)
        _refuse(f"{where} has {shape[-1]} entries, but an element of {dtype} is a pair, [re, im].", where)
    return Numbers(name, elements, shape)


def read_lists(values: Mapping[str, Any], body: bytes, dtype: DTypeName | None) -> dict[str, Numbers]:
    """Parses the operands that are nested lists, by name. If the caller gives a `dtype` they are rounded to it;
    otherwise every digit in `body` counts. Raises as `read_numbers`.
    """
    written = {name: _rows(value, name) for name, value in values.items() if isinstance(value, list)}
    lists = {name: read_numbers(value, name, dtype) for name, value in written.items()}
    if dtype is None and any(numbers.may_have_lost_digits for numbers in lists.values()):
        again, _ = _loads_leniently(body)
        lists = {name: read_numbers(_rows(again[name], name), name) for name in lists}
    return lists


def _rows(value: list[Any], name: str) -> list[Any]:
    """The rows of a value. A bias may be written as a single list, which is a row."""
    return [value] if name == "bias" and not (value and isinstance(value[0], list)) else value


def parse_shaped(value: list[Any], name: str, shape: tuple[int, ...], dtype: DTypeName) -> Array:
    """A matrix of known shape, as nested lists or with all elements in one list, row by row. Bare NaN and Infinity are
    accepted. Raises InvalidMatrix with the element's position.
    """
    numbers = read_numbers(value, name) if value and isinstance(value[0], list) else Numbers(name, value, shape)
    if numbers.shape != shape:
        _refuse(f"{name} has the shape {_told(shape)}, but its data are {_told(numbers.shape)}.", name)
    if len(numbers.elements) != prod(shape):
        _refuse(f"{name} has {len(numbers.elements)} elements, but its shape makes {prod(shape)}.", name)
    if NotJson in numbers.types:
        known = [NAMED.get(x, x) if type(x) is NotJson else x for x in numbers.elements]
        numbers = Numbers(name, known, shape)
    return numbers.stored(dtype)


def _told(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))


def to_json(array: Array, dtype: DTypeName) -> bytes:
    """The stored form as JSON text: nested lists, with strings such as `"NaN"` for values that JSON cannot
    represent.
    """
    values = widen(array, dtype)
    if (part := DTYPES[dtype].part) is not None:
        values = np.ascontiguousarray(array).view(STORAGE_DTYPES[part]).reshape(*array.shape, 2)
    if DTYPES[dtype].is_integer or bool(np.isfinite(values).all()):
        return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
    return orjson.dumps(_with_names(values))


def _with_names(values: Array) -> list[Any]:
    if values.ndim > 1:
        return [_with_names(row) for row in values]
    return [x if math.isfinite(x) else _name(x) for x in values.tolist()]


def _name(x: float) -> str:
    if math.isnan(x):
        return "NaN"
    return "Infinity" if x > 0 else "-Infinity"


def _flatten(value: list[Any], name: str, depths: tuple[int, int] = (2, 3)) -> tuple[list[Any], tuple[int, ...]]:
    """All numbers in row-major order, and the shape, of lists as deep as a matrix or a batch of them is."""
    depth = _depth(value)
    if depth not in depths:
        of_pairs = depths[1] - 3
        told = f"{max(1, depth - of_pairs)}-D" if depth <= depths[1] else "too deep"
        pairs = " of pairs, [re, im]" * of_pairs
        _refuse(f"{name} is {told}; an operand is a list of rows{pairs}, or a list of such matrices.", name)
    items = value
    shape: tuple[int, ...] = (len(value),)
    for _ in range(depth - 1):
        shape = (*shape, _common_length(items, name, shape))
        items = list(chain.from_iterable(items))
    return items, shape


def _depth(value: Any) -> int:
    """The nesting depth of the first element, counted to at most one more than allowed."""
    depth = 0
    while isinstance(value, list) and depth <= MAX_DEPTH:
        depth += 1
        value = value[0] if value else None
    return depth


def _common_length(items: list[Any], name: str, shape: tuple[int, ...]) -> int:
    """The common length of all items, which must be lists."""
    if set(map(type, items)) != {list}:
        index = next(i for i, item in enumerate(items) if not isinstance(item, list))
        where = _position(name, shape, index)
        _refuse(f"{where} is {_word(items[index])}, but a list of numbers belongs there.", where)
    expected = len(items[0])
    if set(map(len, items)) != {expected}:
        index = next(i for i, item in enumerate(items) if len(item) != expected)
        where, first = _position(name, shape, index), _position(name, shape, 0)
        _refuse(
            f"{where} has {len(items[index])} entries but {first} has {expected}; all must have the same length.", where
        )
    return expected


def _floats(numbers: Numbers, dtype: DTypeName) -> Array:
    exact = numbers.values
    with np.errstate(over="ignore"):
        stored = _narrow(exact, dtype)
    widened = widen(stored, dtype)
    _refuse_any(np.isfinite(exact) & ~np.isfinite(widened), numbers, f"which is too large for {dtype}")
    _refuse_any(np.isinf(exact) & np.isnan(widened), numbers, f"but {dtype} has no infinities")
    return stored


def _narrow(exact: Array, dtype: DTypeName) -> Array:
    if held_as_bits(dtype):
        return narrow(exact.astype(np.float32), dtype)
    return exact.astype(STORAGE_DTYPES[dtype])


def _integers(numbers: Numbers, dtype: DTypeName) -> Array:
    """Converts by way of float64, which represents every number of these types exactly."""
    _check_numbers(numbers.elements, numbers.name, numbers.shape, f"and {dtype} has no other values")
    exact = numbers.values
    bounds = np.iinfo(STORAGE_DTYPES[dtype])
    _refuse_any(exact != np.trunc(exact), numbers, f"but {dtype} holds whole numbers only")
    outside = (exact < bounds.min) | (exact > bounds.max)
    _refuse_any(outside, numbers, f"but {dtype} holds {bounds.min} to {bounds.max}")
    return exact.astype(STORAGE_DTYPES[dtype])


def _check_numbers(numbers: Sequence[Any], name: str, shape: tuple[int, ...], hint: str) -> None:
    if set(map(type, numbers)) <= {int, float}:
        return
    index = next(i for i, x in enumerate(numbers) if type(x) not in (int, float))
    where = _position(name, shape, index)
    if isinstance(numbers[index], NotJson) and numbers[index][-1].isdigit():  # no bare NaN
        _refuse(f"{where} is {numbers[index]:.40}, which is too large for any element type.", where)
    _refuse(f"{where} is {_word(numbers[index])}; a JSON number belongs there, {hint}.", where)


def _refuse_any(bad: Array, numbers: Numbers, because: str) -> None:
    if bad.any():
        index = int(bad.argmax())
        where, element = numbers.position(index), numbers.elements[index]
        named = NAMED.get(element, element) if type(element) is str else element
        _refuse(f"{where} is {_word(named)}, {because}.", where)


def _position(name: str, shape: tuple[int, ...], index: int) -> str:
    return name + "".join(f"[{i}]" for i in np.unravel_index(index, shape))


def _word(value: Any) -> str:
    """A short description of a JSON value for error messages."""
    if isinstance(value, NotJson):
        return f"the bare token {value[:40]}"
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _refuse(sentence: str, field: str) -> NoReturn:
    raise InvalidMatrix(sentence, field=field)
