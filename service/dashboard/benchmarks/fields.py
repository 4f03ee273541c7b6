"""The form of a new benchmark: converts its fields to a request and, for a clone, a request to fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

import orjson

from jobs.benchmarks.presets import PARTS, find_preset
from jobs.benchmarks.spec import BenchmarkSpec, KernelSet
from jobs.errors import InvalidRequest, UnknownPreset
from service.bodies.reader import json_object

SETS: tuple[KernelSet, ...] = get_args(KernelSet)
MANY = ("kernels", "dtypes")  # fields with several boxes
SWITCHES = {"true": True, "false": False}
_SIZE, _BY = "[0-9]{1,9}", "[x×*]"
_SQUARE = re.compile(_SIZE)
_RANGE = re.compile(f"({_SIZE}):({_SIZE}):({_SIZE})")
_SIZE_RANGE = re.compile(f"({_SIZE}):({_SIZE}):([0-9]{{1,4}})(lin|log2)")
_SCALES = {"lin": "linear", "log2": "log2"}
_SHAPE = re.compile(f"({_SIZE}){_BY}({_SIZE}){_BY}({_SIZE})")


@dataclass(frozen=True, slots=True)
class Typed:
    """The fields as typed; an empty field leaves the preset or the default in force."""

    preset: str = ""
    title: str = ""
    device: str = ""
    kernels: tuple[str, ...] = ()
    shapes: str = ""
    dtypes: tuple[str, ...] = ()
    configs: str = ""
    rounds: str = ""
    cache: str = ""
    transfers: str = ""
    energy: str = ""
    verify: str = ""
    fresh_process: str = ""
    spec: str = ""  # JSON, for what the fields cannot express


def typed(pairs: Iterable[tuple[str, str]]) -> Typed:
    """The form from a query or body; unknown names are ignored."""
    found: dict[str, Any] = {}
    names = {field.name for field in fields(Typed)}
    for name, value in pairs:
        if name in MANY:
            found[name] = (*found.get(name, ()), value)
        elif name in names:
            found[name] = value.strip()
    return Typed(**found)


def document(form: Typed) -> dict[str, Any]:
    """The body for POST /v1/benchmarks; if a field and the JSON conflict, the JSON counts.

    Raises InvalidRequest, MalformedBody.
    """
    found: dict[str, Any] = {name: text for name in ("preset", "title", "device") if (text := getattr(form, name))}
    if form.kernels:
        found["kernels"] = _kernels(form.kernels)
    if form.shapes:
        found["shapes"] = shapes_of(form.shapes)
    if form.dtypes:
        found["dtypes"] = list(form.dtypes)
    found |= {name: text for name in ("configs", "verify") if (text := getattr(form, name))}
    timing = {"rounds": _rounds(form.rounds) if form.rounds else None, "cache": form.cache or None}
    if known := {name: value for name, value in timing.items() if value is not None}:
        found["timing"] = known
    for name in ("transfers", "energy"):
        if text := getattr(form, name):
            found[name] = {"enabled": _switch(name, text)}
    if form.fresh_process:
        found["fresh_process"] = _switch("fresh_process", form.fresh_process)
    return _merged(found, json_object(form.spec.encode()) if form.spec else {})


def _kernels(names: tuple[str, ...]) -> str | list[str]:
    sets = [name for name in names if name in SETS]
    if sets and len(names) > 1:
        raise InvalidRequest(f"kernels: choose {sets[0]} alone, or kernels by name.", field="kernels")
    return sets[0] if sets else list(names)


def _rounds(text: str) -> int:
    if not _SQUARE.fullmatch(text):
        raise InvalidRequest("rounds must be a whole number.", field="timing.rounds")
    return int(text)


def _switch(name: str, text: str) -> bool:
    if text not in SWITCHES:
        raise InvalidRequest(f"{name} must be true or false.", field=name)
    return SWITCHES[text]


def _merged(found: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    whole = {**found, **over}
    for name in PARTS:
        mine, other = found.get(name), over.get(name)
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            whole[name] = {**mine, **other}
    return whole


def shapes_of(text: str) -> list[Any]:
    """`256, 512`, `256:4096:256` (start, stop, step), `256:4096:5log2` (start, stop, count, and `lin` or `log2`
    spacing) and `16×4096×4096` (m, n, k). Raises InvalidRequest.
    """
    close = re.sub(r"\s*([:x×*])\s*", r"\1", text.strip())
    return [_shape(item) for item in re.split(r"[,;\s]+", close) if item]


def _shape(item: str) -> Any:
    if _SQUARE.fullmatch(item):
        return int(item)
    if found := _RANGE.fullmatch(item):
        return dict(zip(("start", "stop", "step"), map(int, found.groups()), strict=True))
    if found := _SIZE_RANGE.fullmatch(item):
        start, stop, count = map(int, found.groups()[:3])
        return {"start": start, "stop": stop, "count": count, "scale": _SCALES[found[4]]}
    if found := _SHAPE.fullmatch(item):
        return dict(zip("mnk", map(int, found.groups()), strict=True))
    raise InvalidRequest(
        f"shapes: {item[:40]} is no size; write 256, or 256:4096:256 or 256:4096:5log2 for a range, or 16×4096×4096 "
        "for m×n×k.",
        field="shapes",
    )


# ---- back ----
def typed_spec(spec: BenchmarkSpec) -> Typed:
    """The form for the same benchmark: its preset if it was not changed, otherwise all fields."""
    whole = spec.model_dump(mode="json", exclude_defaults=True)
    name = whole.pop("preset", None)
    if name is not None and spec in _forms(name, spec.device):
        return Typed(preset=name, device=whole.get("device", ""))
    return typed_document(whole)


def _forms(preset: str, device: str) -> list[BenchmarkSpec]:
    """The preset's forms on a GPU and on a CPU; empty if this version no longer has it."""
    try:
        found = find_preset(preset)
    except UnknownPreset:
        return []
    over = {"device": device}
    return [BenchmarkSpec(**found.fields(over)), BenchmarkSpec(**found.fields(over, on_cpu=True))]


def typed_document(whole: Mapping[str, Any]) -> Typed:
    """The form of a document: fields for what they can express, JSON for the rest."""
    rest: dict[str, Any] = {name: dict(value) if name in PARTS else value for name, value in whole.items()}
    found: dict[str, Any] = {
        name: rest.pop(name) for name in ("preset", "title", "device", "verify", "configs") if _is_text(rest.get(name))
    }
    kernels: Any = rest.get("kernels")
    if _is_text(kernels) or (isinstance(kernels, list) and all(map(_is_text, kernels))):
        found["kernels"] = (kernels,) if isinstance(kernels, str) else tuple(kernels)
        del rest["kernels"]
    if (text := _shapes_text(rest.get("shapes", []))) is not None:
        found["shapes"] = text
        rest.pop("shapes", None)
    found["dtypes"] = tuple(rest.pop("dtypes", ()))
    timing = rest.get("timing", {})
    found |= {name: str(timing.pop(name)) for name in ("rounds", "cache") if name in timing}
    for name in ("transfers", "energy"):
        if "enabled" in (part := rest.get(name, {})):
            found[name] = _switched(part.pop("enabled"))
    if "fresh_process" in rest:
        found["fresh_process"] = _switched(rest.pop("fresh_process"))
    left = {name: value for name, value in rest.items() if name not in PARTS or value}
    return Typed(**found, spec=orjson.dumps(left, option=orjson.OPT_INDENT_2).decode() if left else "")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _switched(value: bool) -> str:
    return "true" if value else "false"


def _shapes_text(items: Iterable[Any]) -> str | None:
    """The shapes as text; None if the field cannot express one of them."""
    found = list(map(_shape_text, items))
    return None if None in found else ", ".join(text for text in found if text)


def _shape_text(item: Any) -> str | None:
    if isinstance(item, int):
        return str(item)
    if set(item) == {"start", "stop", "step"}:
        return f"{item['start']}:{item['stop']}:{item['step']}"
    if set(item) in ({"start", "stop", "count"}, {"start", "stop", "count", "scale"}):
        scale = "log2" if item.get("scale") == "log2" else "lin"
        return f"{item['start']}:{item['stop']}:{item['count']}{scale}"
    if set(item) == set("mnk") and all(isinstance(value, int) for value in item.values()):
        return f"{item['m']}×{item['n']}×{item['k']}"
    return None
