"""Parses JSON into frozen dataclasses: every field must be known and every value of its type, or an error names the
place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from math import inf, isfinite
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


class DataError(ValueError):
    """A data file is invalid; the message names the place."""


def parse(kind: type[T], text: str, where: str) -> T:
    """The dataclass that `text` holds; `where` names the text in errors. Raises DataError."""
    return read_as(kind, load(text, where), where)


def load(text: str, where: str) -> Any:
    """The JSON value that `text` holds, no name of an object given twice. Raises DataError."""
    try:
        return json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: {error}.") from None


def read_as(kind: type[T], value: Any, where: str) -> T:
    """The dataclass that a JSON value stands for. Raises DataError."""
    return cast(T, _read(kind, value, where))


def _each_once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, value in pairs:
        if name in given:
            raise ValueError(f"{name!r} is given twice")
        given[name] = value
    return given


def _read(kind: Any, value: Any, where: str) -> Any:
    """`value` as `kind`: a dataclass, `X | None`, a tuple, a mapping, a Literal, or str, bool, int, float."""
    origin, arguments, is_object = _parts(kind)
    if is_object:
        return _object(kind, _named(kind, value, where) if type(value) is list else _checked(dict, value, where), where)
    if origin in (Union, UnionType):
        return None if value is None else _read(arguments[0], value, where)
    if origin is tuple:
        return _list(arguments, _checked(list, value, where), where)
    if origin is Mapping:
        items = _checked(dict, value, where).items()
        return {_read(arguments[0], name, where): _read(arguments[1], item, f"{where}.{name}") for name, item in items}
    if origin is Literal:
        if value not in arguments:
            raise DataError(f"{where} is {value!r}; it must be one of: {', '.join(map(str, arguments))}.")
        return value
    return _number(value, where) if kind is float else _checked(kind, value, where)


def _named(cls: Any, row: list[Any], where: str) -> dict[str, Any]:
    """A dataclass may be a row, too: its fields' values in their order."""
    kinds, _ = _fields(cls)
    if len(row) > len(kinds):
        raise DataError(f"{where} has {len(row)} values; its fields are: {', '.join(kinds)}.")
    return dict(zip(kinds, row, strict=False))


@cache
def _parts(kind: Any) -> tuple[Any, tuple[Any, ...], bool]:
    return get_origin(kind), get_args(kind), is_dataclass(kind)


def _checked(kind: type[T], value: Any, where: str) -> T:
    if type(value) is not kind:  # a bool is no int here
        raise DataError(f"{where} is {value!r:.40}; it must be a {kind.__name__}.")
    return value


def _number(value: Any, where: str) -> float:
    try:
        number = float(value) if type(value) in (int, float) else inf
    except OverflowError:  # an integer beyond all floats
        number = inf
    if not isfinite(number):
        raise DataError(f"{where} is {value!r:.40}; it must be a finite number.")
    return number


def _list(arguments: tuple[Any, ...], value: list[Any], where: str) -> tuple[Any, ...]:
    kinds = [arguments[0]] * len(value) if arguments[-1] is ... else list(arguments)
    if len(kinds) != len(value):
        raise DataError(f"{where} has {len(value)} entries; it must have {len(kinds)}.")
    return tuple(_read(kind, item, f"{where}[{at}]") for at, (kind, item) in enumerate(zip(kinds, value, strict=True)))


@cache
def _fields(cls: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Types by name, and the names that must be given."""
    required = (f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING)
    return get_type_hints(cls), frozenset(required)


def _object(cls: Any, given: dict[str, Any], where: str) -> Any:
    kinds, required = _fields(cls)
    if unknown := given.keys() - kinds.keys():
        raise DataError(f"{where} has no field {min(unknown)!r}; it has: {', '.join(kinds)}.")
    if missing := required - given.keys():
        raise DataError(f"{where} lacks {min(missing)!r}.")
    return cls(**{name: _read(kinds[name], value, f"{where}.{name}") for name, value in given.items()})
