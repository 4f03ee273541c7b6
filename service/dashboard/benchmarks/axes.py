"""The form's axis builders: convert an axis given by its ends or values to the text of the form's fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from jobs.errors import InvalidRequest
from kernels.catalog import CATALOG
from service.bodies.reader import json_object
from service.dashboard.benchmarks.fields import Typed, shapes_of

SCALES = {"log2": "by powers of two", "lin": "evenly"}
AXES = ("from", "to", "count", "scale", "parameter", "values")  # what the builders' fields are called
PARAMETERS = tuple(dict.fromkeys(each.name for kernel in CATALOG for each in kernel.parameters))
_VALUES = re.compile(r"[0-9]{1,6}(?:[,\s]+[0-9]{1,6})*")


def axes_of(query: Mapping[str, str]) -> dict[str, str]:
    """The values typed into the builders' fields."""
    return {name: query.get(f"axis_{name}", "").strip() for name in AXES}


def with_axis(form: Typed, what: str, axes: Mapping[str, str]) -> Typed:
    """The form with one more axis: `sizes` or `grid`. Raises InvalidRequest, MalformedBody."""
    return _with_sizes(form, axes) if what == "sizes" else _with_grid(form, axes)


def _with_sizes(form: Typed, axes: Mapping[str, str]) -> Typed:
    if not all(axes[name] for name in ("from", "to", "count")):
        raise InvalidRequest("An axis of sizes needs its first and last size, and how many there are.", field="shapes")
    text = f"{axes['from']}:{axes['to']}:{axes['count']}{axes['scale'] or 'log2'}"
    shapes_of(text)
    return replace(form, shapes=", ".join(filter(None, (form.shapes, text))))


def _with_grid(form: Typed, axes: Mapping[str, str]) -> Typed:
    if axes["parameter"] not in PARAMETERS or not _VALUES.fullmatch(axes["values"]):
        raise InvalidRequest(
            "An axis of configs needs a tile parameter and its values, such as 16, 32, 64.", field="configs"
        )
    spec: dict[str, Any] = dict(json_object(form.spec.encode())) if form.spec else {}
    configs = spec.get("configs")
    grid = configs.get("grid", {}) if isinstance(configs, dict) else {}
    values = [int(value) for value in re.split(r"[,\s]+", axes["values"])]
    spec["configs"] = {"grid": {**grid, axes["parameter"]: values}}
    return replace(form, spec=orjson.dumps(spec, option=orjson.OPT_INDENT_2).decode())
