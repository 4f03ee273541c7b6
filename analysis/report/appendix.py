"""The end of a report: how to repeat the measurement, and the device and its software."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

from analysis.comparison.environment import flat
from analysis.report.document import UNKNOWN, Block, Code, Heading, Table, Text, figure
from analysis.report.speeds import more_speeds
from analysis.report.subject import Subject

ADDRESS = "http://127.0.0.1:8000/v1/benchmarks"


def reproduction(subject: Subject) -> Iterator[Block]:
    yield Heading(2, "How to reproduce it")
    if subject.results is None:
        yield Text(f"The figures are those of {subject.source.rstrip('.')}; the service lists them at /v1/published.")
        return
    body = json.dumps(subject.results.spec.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False)
    command = f"curl {ADDRESS} -H 'Content-Type: application/json' -d {shlex.quote(body)}"
    yield Text("To a service with such a device (make run starts one):")
    yield Code(command, "sh")
    yield Text("GET /v1/jobs/{id} follows the job; GET /v1/benchmarks/{id}/report then gives this report.")


def appendix(subject: Subject) -> Iterator[Block]:
    yield Heading(2, "Appendix")
    yield from more_speeds(subject.pairs)
    yield Table("The device", ("what", "value"), tuple(_device_rows(subject.device)), words=True)
    environment = subject.results.environment if subject.results else {}
    rows = tuple(_software_rows(subject.device, environment))
    if rows:
        yield Table("Software and host", ("what", "value"), rows, words=True)


def _software_rows(device: dict[str, Any], environment: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each item once, whichever part of the record names it."""
    versions = {**(device.get("versions") or {}), **(environment.get("versions") or {})}
    shown = {*device, "gpu", "clocks_mhz", "memory_bus_bits"}  # in the table above
    others = ((name, value) for name, value in flat(environment) if name.split(".")[0] not in shown)
    seen: set[str] = set()
    for name, value in (*flat(versions), *others):
        if name not in seen and value not in (None, {}, []):
            seen.add(name)
            yield name.replace("_", " ").replace(".", ", "), _word(value)


def _device_rows(device: dict[str, Any]) -> Iterator[tuple[str, str]]:
    peaks, memory = _peaks(device.get("theoretical")), device.get("theoretical") or {}
    rows = (
        ("name", device.get("name")),
        ("kind", {"gpu": "GPU", "cpu": "CPU"}.get(device.get("device_class", ""))),
        ("uuid", device.get("uuid")),
        ("compute capability", ".".join(map(str, device.get("compute_capability") or ())) or None),
        ("multiprocessors", device.get("multiprocessors")),
        ("CPU cores", device.get("cores")),
        ("memory, GiB", _scaled(device.get("memory_bytes"), 2**30)),
        ("L2 cache, MiB", _scaled(device.get("l2_bytes"), 2**20)),
        ("highest SM clock, MHz", device.get("max_clock_mhz")),
        ("memory clock, MHz", device.get("memory_clock_mhz")),
        ("memory bus, bits", device.get("memory_bus_bits")),
        ("memory bandwidth by bus and clock, GB/s", _scaled(memory.get("memory_gb_s"), 1)),
        ("peak by units and clock, GFLOPS", peaks),
        ("peak as measured before, GFLOPS", _peaks(device.get("measured"))),
    )
    yield from ((name, _word(value)) for name, value in rows if value not in (None, ""))


def _peaks(roofs: dict[str, Any] | None) -> str:
    return ", ".join(f"{dtype} {figure(value)}" for dtype, value in ((roofs or {}).get("gflops") or {}).items())


def _scaled(value: float | None, unit: int) -> str | None:
    return None if value is None else figure(value / unit)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return UNKNOWN if value is None or value == {} else str(value)
