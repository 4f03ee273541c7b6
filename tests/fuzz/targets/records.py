"""What lies in Redis: jobs' records, findings, heartbeats, and the messages that workers get."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from kombu.serialization import loads
from pydantic import SecretStr, ValidationError

from jobs.benchmarks.findings import read_findings
from jobs.benchmarks.records import AttemptInfo, CaseRecord, Ceiling, Samples
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.fleet.workers import DeviceInfo, WorkerInfo
from jobs.ledger.codec import row_from_hash
from jobs.ledger.fields import REQUESTS, request_to_run
from jobs.models import JobError, JobRecord, MatmulRequest, Measured, Outcome, ProductInfo, Progress, Verification
from jobs.queue import make_celery, message_format
from jobs.requests.operands import OperandRef
from jobs.settings import Settings
from jobs.stored import NotUnderstood, RecordUnreadable, read
from tests.fuzz.target import Target

JOB = "job_" + "0" * 32
FIELDS = {
    **{
        "id": JOB,
        "owner": "ada",
        "kind": "matmul",
        "queue": "cpu",
        "timeout": "60000000",
        "seq": "1",
        "state": "queued",
    },
    **{"created": "1700000000000000", "attempt": "1", "runs": "0", "version": "1", "number": "1", "first": "1"},
    **{"published": "1700000000000000", "queued": "1700000000000000", "in_record": "", "product_bytes": "0"},
}
REQUEST = MatmulRequest(
    a=OperandRef(source="matrix", matrix="f" * 64, dtype="float32", shape=(2, 3)),
    b=OperandRef(source="job", job=JOB, dtype="float32", shape=(3, 2)),
    accuracy="fp32",
)
OUTCOME = Outcome(
    kernel="cpu_blas",
    config={},
    why="It was asked for.",
    device="A CPU",
    product=ProductInfo(shape=(2, 2), dtype="float32", bytes=16),
    measured=Measured(h2d_ms=0.0, kernel_ms=0.5, d2h_ms=0.0),
    gflops=1.0,
    verification=Verification(method="freivalds", residual=1e-8, threshold=1e-6, passed=True),
)
SPEC = BenchmarkSpec(kernels=("naive",), shapes=(8,))
RECORD = CaseRecord(
    **{"case": "abc", "round": 0, "attempt": 1, "kernel": "naive", "device_class": "gpu", "dtype": "float32"},
    **{"m": 8, "n": 8, "k": 8, "status": "ok", "cache": "cold", "flops": 1024, "bytes_min": 768, "kernel_ms": 0.5},
)
NOW = datetime(2026, 1, 2, tzinfo=UTC)
WORKER = WorkerInfo(
    **{"id": "w", "state": "ready", "device": DeviceInfo(name="A CPU", device_class="cpu"), "queue": "cpu"},
    **{"kernels": ("cpu_blas",), "started_at": NOW, "seen_at": NOW, "lease_s": 30.0},
)


def _row(data: bytes) -> None:
    """Fields by lines, `name value`. Whatever can be read is shown."""
    fields = dict(line.partition(b" ")[::2] for line in data.split(b"\n"))
    row = row_from_hash([each for name in fields for each in (name, fields[name]) if name.isascii()])
    record = row.job(1).record
    row.message()
    shown = orjson.loads(record.model_dump_json())
    assert shown.keys() == JobRecord.model_fields.keys()


def _row_seeds() -> Iterator[bytes]:
    for more in (
        {"request": REQUEST.model_dump_json(), "a_attempt": "2", "waits": "1"},
        {"request": REQUEST.model_dump_json(), "state": "succeeded", "outcome": OUTCOME.model_dump_json()}
        | {"started": "1700000001000000", "finished": "1700000002000000", "batch": "b", "held": "7"},
        {"request": REQUEST.model_dump_json(), "state": "failed", "idem": "x", "in_record": "abC"}
        | {"error": JobError(type="worker_lost", detail="It died.").model_dump_json()},
        {
            "request": SPEC.model_dump_json(),
            "kind": "benchmark",
            "progress": Progress(done=1, total=2).model_dump_json(),
        },
        {"request": '{"what": [1]}', "kind": "transpose", "unserved": "1", "state": "running", "started": "5"},
    ):
        yield "\n".join(f"{name} {value}" for name, value in (FIELDS | more).items()).encode()


def _request(data: bytes) -> None:
    """What a worker runs: all of it is known, and it is the same when it is written again."""
    kind, _, text = data.partition(b" ")
    if kind.decode("latin-1") in REQUESTS:
        request = request_to_run(kind.decode(), text)
        assert request_to_run(kind.decode(), request.model_dump_json().encode()) == request


def _request_seeds() -> Iterator[bytes]:
    yield b"matmul " + REQUEST.model_dump_json().encode()
    yield b"benchmark " + SPEC.model_dump_json().encode()


def _heartbeat(data: bytes) -> None:
    try:
        worker = read(WorkerInfo, data)
    except ValidationError:
        return
    assert isinstance(worker.serves, bool)
    worker.device.traits  # noqa: B018
    text = worker.model_dump_json()
    with suppress(ValidationError):  # infinities are written as null
        assert read(WorkerInfo, text).model_dump_json() == text


def _findings(data: bytes) -> None:
    """Fields by lines, `name value`."""
    kept = dict(line.partition(b" ")[::2] for line in data.split(b"\n"))
    read_findings({name.decode("latin-1"): value for name, value in kept.items()})


def _findings_seeds() -> Iterator[bytes]:
    attempt = AttemptInfo(attempt=1, worker="w", started_at="2026-01-02T00:00:00+00:00", found=0, device={"name": "x"})
    samples, roof = Samples(time_us=(1.0, 2.5)), Ceiling(name="dram_copy", unit="GB/s", value=12.5)
    found = {"attempt:1": attempt, "samples:0:abc": samples, "ceiling:dram_copy": roof, "record:0:abc": RECORD}
    yield "\n".join(f"{name} {one.model_dump_json()}" for name, one in found.items()).encode()


_APP = make_celery(Settings(redis_url=SecretStr("redis://nowhere"), store_dir=Path("/nowhere")))
TEMPLATE = message_format(_APP).template


def _message(data: bytes) -> None:
    """Job, attempt and queue, as the ledger writes them into a message and Celery reads them."""
    if len(data) < 3:
        return
    job, attempt, queue = f"job_{data[2:].hex()}", data[0] << 8 | data[1], "cpu"
    name = f"{job}.{attempt}"
    text = TEMPLATE % (job, attempt, name, 60.0, 50.0, name, job, name, queue, name, 7)
    message: dict[str, Any] = json.loads(text)
    arguments, _, _ = loads(  # type: ignore[no-untyped-call]
        message["body"], message["content-type"], message["content-encoding"], accept=["application/json"]
    )
    assert arguments == [job, attempt]
    assert message["headers"]["id"] == name
    assert message["properties"]["delivery_info"]["routing_key"] == queue


TARGETS = (
    Target(
        "job_record",
        _row,
        _row_seeds,
        refusals=(RecordUnreadable,),
        words=tuple(f"\n{name} ".encode() for name in FIELDS),
    ),
    Target("stored_request", _request, _request_seeds, refusals=(NotUnderstood,)),
    Target("heartbeat", _heartbeat, lambda: [WORKER.model_dump_json().encode()]),
    Target("findings", _findings, _findings_seeds),
    Target("message", _message, lambda: [b"\x00\x01" + bytes(16), b"\xff\xff" + b"\xab" * 16], max_bytes=64),
)
