"""The body of POST /v1/benchmarks: a spec, or a preset's name with fields that replace the preset's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from jobs.benchmarks.presets import find_preset
from jobs.benchmarks.spec import BenchmarkSpec, KernelAxis, KernelSet
from jobs.errors import InvalidRequest
from kernels.model.kernel import DeviceClass
from service.bodies.options import parse_model
from service.bodies.reader import json_object

SPEC_BYTES = 256 << 10  # largest body: a spec is kept in its job's record, and listed with it
KINDS = frozenset({"square", "shape", "range", "rectangles", "set", "grid", "list", "name", "axis"})

SHAPE, RANGE = '{"m": 64, "n": 64, "k": 512}', '{"start": 256, "stop": 2048, "step": 256}'


@dataclass(frozen=True, slots=True)
class BenchmarkInput:
    """A benchmark request, with a spec for each device class: a preset may have a different one for a CPU."""

    document: Mapping[str, Any]  # as it was sent
    forms: Mapping[DeviceClass, BenchmarkSpec]
    names_kernels: bool  # whether the caller named kernels; those of a preset may run in part


def read_benchmark(body: bytes) -> BenchmarkInput:
    """Parses the body. Raises MalformedBody, InvalidRequest, UnknownPreset, UnknownKernel, UnsupportedDType."""
    document = json_object(body)
    fields = _lists(document)
    if fields.get("preset") is None:
        spec = _parse(fields)
        return BenchmarkInput(document, {"gpu": spec, "cpu": spec}, names_kernels=True)
    preset = find_preset(fields["preset"])
    forms: dict[DeviceClass, BenchmarkSpec] = {
        "gpu": _parse(preset.fields(fields)),
        "cpu": _parse(preset.fields(fields, on_cpu=True)),
    }
    own = _parse(preset.fields()).kernels
    return BenchmarkInput(document, forms, names_kernels="kernels" in fields and forms["gpu"].kernels != own)


def _parse(fields: Mapping[str, Any]) -> BenchmarkSpec:
    return parse_model(BenchmarkSpec, fields, kinds=KINDS, max_bytes=2 * SPEC_BYTES)  # numbers may come out longer


def _lists(document: Mapping[str, Any]) -> dict[str, Any]:
    """Turns a single shape, kernel or element type into a list of one."""
    fields = dict(document)
    if isinstance(fields.get("shapes"), int | dict):
        fields["shapes"] = [fields["shapes"]]
    for i, shape in enumerate(fields["shapes"] if isinstance(fields.get("shapes"), list) else ()):
        if isinstance(shape, list):
            raise InvalidRequest(f"shapes.{i} is a list; a shape is N, {SHAPE} or {RANGE}.", field=f"shapes.{i}")
    if isinstance(fields.get("dtypes"), str):
        fields["dtypes"] = [fields["dtypes"]]
    kernels = fields.get("kernels")
    if isinstance(kernels, dict) or (isinstance(kernels, str) and kernels not in get_args(KernelSet)):
        fields["kernels"] = [kernels]
    return fields


def named_kernels(spec: BenchmarkSpec) -> tuple[str, ...]:
    """The kernels that the spec names, each once; empty if it says `all`, `ladder` or `best`, or measures no kernel."""
    if isinstance(spec.kernels, str) or spec.kind == "ceilings":
        return ()
    names = (item.kernel if isinstance(item, KernelAxis) else item for item in spec.kernels)
    return tuple(dict.fromkeys(names))
