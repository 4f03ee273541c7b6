"""Benchmarks as they are asked for: a spec or preset in JSON, and the fields of the page's form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import orjson

from jobs.benchmarks.presets import PRESETS
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.fleet.workers import DeviceInfo
from jobs.settings import Settings
from service.benchmarks.body import named_kernels, read_benchmark
from service.benchmarks.submit import bounded
from service.dashboard.benchmarks.axes import axes_of, with_axis
from service.dashboard.benchmarks.fields import Typed, document, shapes_of, typed, typed_spec
from tests.fuzz.target import Target

CPU = DeviceInfo(name="A CPU", device_class="cpu", cores=2)
LIMITS = Settings(max_benchmark_cases=40, max_benchmark_flops=1e12, store_dir=Path("/nowhere"))


def _spec(data: bytes) -> None:
    """What is taken is bounded, and is the same when its record is read, or its form is filled in again."""
    asked = read_benchmark(data)
    for spec in asked.forms.values():
        assert BenchmarkSpec.model_validate_json(spec.model_dump_json()) == spec
    spec = asked.forms["cpu"]
    named_kernels(spec)
    bounded(spec, CPU, LIMITS)
    again = read_benchmark(orjson.dumps(document(typed_spec(spec)))).forms["cpu"]
    assert _told(again) == _told(spec), (again, spec)


def _told(spec: BenchmarkSpec) -> BenchmarkSpec:
    """What a form keeps: not the spaces around texts, nor the preset that is not as it was."""
    title = (spec.title or "").strip() or None
    return spec.model_copy(update={"device": spec.device.strip() or "any", "title": title, "preset": None})


def _spec_seeds() -> Iterator[bytes]:
    yield b'{"preset": "quick", "shapes": 8, "timing": {"rounds": 1}}'
    yield b'{"kernels": ["cpu_blas"], "shapes": [16, {"m": 1, "n": 2, "k": 3, "batch": 2}]}'
    yield b'{"kernels": "all", "shapes": [{"start": 8, "stop": 64, "count": 3, "scale": "log2"}], "dtypes": "float64"}'
    yield b'{"kernels": {"kernel": "cpu_blas", "configs": "all"}, "shapes": [{"m": [1, 2], "n": [3], "k": [4]}]}'
    yield b'{"kernels": ["cpu_blas"], "shapes": [8], "configs": [{}], "baseline": "none", "data": {"seed": 7}}'
    yield b'{"kind": "ceilings", "tags": ["x"], "title": "t", "energy": {"enabled": true}}'
    yield b'{"kind": "tune", "kernels": ["cpu_blas"], "shapes": [8], "tune": {"budget": 3}, "verify": "full"}'


def _fields(data: bytes) -> None:
    """The form's fields, as a query."""
    pairs = parse_qsl(data.decode("latin-1"), keep_blank_values=True)
    form = typed(pairs)
    document(form)
    if axis := dict(pairs).get("add"):
        document(with_axis(form, axis, axes_of(dict(pairs))))


def _fields_seeds() -> Iterator[bytes]:
    yield urlencode({"preset": "quick", "shapes": "8, 16:64:16; 8:64:5log2 16×4×4", "rounds": "1"}).encode()
    yield urlencode({"kernels": "cpu_blas", "dtypes": "float32", "energy": "true", "spec": '{"tags": ["x"]}'}).encode()
    yield urlencode(
        {"add": "sizes", "axis_from": "8", "axis_to": "64", "axis_count": "3", "axis_scale": "lin"}
    ).encode()
    yield urlencode(
        {"add": "grid", "axis_parameter": "block_m", "axis_values": "16, 32", "spec": '{"configs": 1}'}
    ).encode()


def _shapes(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    found = shapes_of(text)
    assert document(Typed(shapes=text.strip())).get("shapes", []) == found


WORDS = tuple(f'"{name}"'.encode() for name in BenchmarkSpec.model_fields)
TARGETS = (
    Target("benchmark", _spec, _spec_seeds, words=(*WORDS, *(f'"{name}"'.encode() for name in PRESETS), b'"cpu_blas"')),
    Target("benchmark_form", _fields, _fields_seeds, words=(b"&axis_count=", b"&shapes=", b"&spec=", b"log2", b"lin")),
    Target("shapes", _shapes, lambda: (b"256, 256:4096:256", "8:64:5log2;16×4 * 4".encode()), max_bytes=256),
)
