"""A benchmark as one file, which one service exports and another imports with strict validation. The file is JSON:
`format`, `version`, the job's times and device, its spec, its summary, and its findings by name. An import creates a
new, pinned job, whose warnings say that it was imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from math import isclose
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, AwareDatetime, FailFast, Field, ValidationError

from jobs.base import Strict
from jobs.benchmarks.findings import attempt_name, ceiling_name, record_name, samples_name
from jobs.benchmarks.records import AttemptInfo, BenchmarkSummary, CaseRecord, Ceiling, Samples
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.errors import InvalidRequest, WrongState
from jobs.fleet.workers import DeviceInfo
from jobs.models import BenchmarkOutcome, Job, Progress, label_of, new_id
from jobs.redis.clock import microseconds
from jobs.states import JobState
from kernels.catalog import BY_NAME
from kernels.model.numerics import Problem
from service.benchmarks.replies import find_benchmark
from service.bodies.options import options_error
from service.bodies.reader import json_object
from service.context import Context
from service.pinned.contradictions import check_consistent
from service.pinned.pins import keep_imported

FORMAT, VERSION = "matmul-service/results", 1
MAX_FILE_BYTES = 16 << 20
MAX_VALUES = 1_000_000  # of the JSON: reading them takes as long as a large product's
FINDINGS_OF_CASES = 2  # tuning measures more than MATMUL_MAX_BENCHMARK_CASES says, which goes by an estimate
MAX_DEPTH = 12  # nesting depth of device and environment
MAX_NUMBER = 9e18  # fits 64 bits; larger than any number of bytes, operations or nanoseconds
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)  # earliest time of a job
MAX_AHEAD = timedelta(days=1)  # of this clock: the file's machine has another
TIMES = ("created", "started", "finished")
MIN_FIGURE, MAX_EXTENT, MAX_NAME, MAX_ROUNDS = 1e-9, 1 << 24, 1000, 10_000
SAME_SPEED = 0.01  # relative: figures may be rounded
IMPORTED = "Imported from a file on {at:%Y-%m-%d}: another service measured it, and this one has not checked it."
# Python code after each: otherwise no other thread would run until the whole file is validated.
_GIVES_WAY = AfterValidator(lambda finding: finding)


class ExportedJob(Strict):
    """The job in the file."""

    id: str = Field(max_length=100)
    created_at: AwareDatetime
    started_at: AwareDatetime
    finished_at: AwareDatetime
    device: str = Field(max_length=300)

    @property
    def times(self) -> tuple[datetime, datetime, datetime]:
        return self.created_at, self.started_at, self.finished_at


class ResultsFile(Strict):
    """The whole file."""

    format: Literal["matmul-service/results"]
    version: Literal[1]
    exported_at: AwareDatetime
    job: ExportedJob
    spec: BenchmarkSpec
    summary: BenchmarkSummary
    attempts: Annotated[tuple[AttemptInfo, ...], FailFast()] = Field(max_length=1000)
    records: Annotated[tuple[Annotated[CaseRecord, _GIVES_WAY], ...], FailFast()]
    samples: dict[str, Annotated[Samples, _GIVES_WAY]]  # by finding name
    ceilings: Annotated[tuple[Ceiling, ...], FailFast()] = Field(max_length=1000)


def export(context: Context, job_id: str, owner: str) -> bytes:
    """Raises JobNotFound, NotFound, WrongState, StoreUnavailable."""
    job = find_benchmark(context, job_id, owner)
    record = job.record
    if record.state is not JobState.SUCCEEDED or record.benchmark is None:
        raise WrongState("Only a benchmark that succeeded can be exported.")
    kept = context.ledger.findings(job_id)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "exported_at": datetime.now(UTC),
        "job": {
            "id": job.id,
            "created_at": record.created_at,
            "started_at": record.started_at,
            "finished_at": record.finished_at,
            "device": record.device or "",
        },
        "spec": record.request.model_dump(mode="json", exclude_defaults=True),
        "summary": record.benchmark.model_dump(mode="json"),
        "attempts": _of_kind(kept, "attempt:"),
        "records": _of_kind(kept, "record:"),
        "samples": {name: orjson.loads(kept[name]) for name in sorted(kept) if name.startswith("samples:")},
        "ceilings": _of_kind(kept, "ceiling:"),
    }
    return orjson.dumps(document)


def _of_kind(kept: Mapping[str, bytes], kind: str) -> list[Any]:
    return [orjson.loads(kept[name]) for name in sorted(kept) if name.startswith(kind)]


def read_file(body: bytes, max_findings: int) -> ResultsFile:
    """Parses a file with at most so many records, and samples of as many. Raises MalformedBody or InvalidRequest for
    anything outside the format, and for records that cannot belong to one benchmark.
    """
    if body.count(b",") + body.count(b"[") + body.count(b"{") > MAX_VALUES:  # each value but the first follows one
        raise InvalidRequest(f"The file has more values than are read here: {MAX_VALUES}.")
    document = json_object(body, max_names=MAX_VALUES)
    if document.get("format") != FORMAT:
        raise InvalidRequest(f"This is no file of results: its format must be {FORMAT!a}.", field="format")
    if document.get("version") != VERSION:
        raise InvalidRequest(f"This service reads files of version {VERSION} alone.", field="version")
    for name in ("records", "samples"):
        if isinstance(found := document.get(name), list | dict) and len(found) > max_findings:
            raise InvalidRequest(
                f"The file has {len(found)} {name}; this server reads {max_findings}, which depends on its "
                "MATMUL_MAX_BENCHMARK_CASES.",
                field=name,
            )
    _check_values(document)
    try:
        file = ResultsFile.model_validate_json(orjson.dumps(document))
    except ValidationError as error:
        raise options_error(error, ResultsFile, "") from None
    _check_whole(file)
    return file


def _check_values(document: Any) -> None:
    """Checks the nesting depth and the range of numbers. Raises InvalidRequest."""
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        values = [each for one in level for each in _inside(one)]
        if any(isinstance(each, float | int) and not abs(each) <= MAX_NUMBER for each in values):
            raise InvalidRequest(f"The file holds a number that no measurement has: beyond {MAX_NUMBER:g}.")
        level = [each for each in values if isinstance(each, dict | list)]
    if level:
        raise InvalidRequest(f"The file nests deeper than {MAX_DEPTH} levels.")


def _inside(value: Any) -> list[Any]:
    return [*(value.values() if isinstance(value, dict) else value)]


def _check_whole(file: ResultsFile) -> None:
    """Checks what the models cannot express. Raises InvalidRequest."""
    for record in file.records:
        if reason := _wrong(record):
            raise InvalidRequest(f"The record of case {record.case[:100]!a} cannot be: {reason}.", field="records")
    for attempt in file.attempts:
        _check_attempt(attempt)
    names = {record_name(record.round, record.case) for record in file.records}
    if len(names) < len(file.records):
        raise InvalidRequest("A case is there twice in one round.", field="records")
    check_consistent(file.records, file.samples)
    measured = {samples_name(record.round, record.case) for record in file.records}
    if stray := file.samples.keys() - measured:
        raise InvalidRequest(f"Samples are of no record: {min(stray)!a}.", field="samples")
    times = (time for one in file.samples.values() for time in one.time_us)
    roofs = (one.value for one in file.ceilings if one.value is not None)
    if not all(value >= MIN_FIGURE for value in (*times, *roofs)):
        raise InvalidRequest("Times of samples and values of ceilings must be positive.", field="samples")
    latest = datetime.now(UTC) + MAX_AHEAD
    if not all(EARLIEST <= time <= latest for time in file.job.times):
        raise InvalidRequest("The job's times must lie between the year 2000 and now.", field="job")


def _check_attempt(attempt: AttemptInfo) -> None:
    """Checks an attempt's device and versions, which pages and reports read. Raises InvalidRequest."""
    if attempt.device:
        try:
            DeviceInfo.model_validate_json(orjson.dumps(attempt.device), extra="ignore")
        except ValidationError as error:
            place = ".".join(map(str, error.errors()[0]["loc"]))
            raise InvalidRequest(
                f"What attempt {attempt.attempt} says of its device is not as workers describe theirs: {place[:100]}.",
                field="attempts",
            ) from None
    if not isinstance(attempt.environment.get("versions", {}), dict):
        raise InvalidRequest("The versions in an attempt's environment must be an object.", field="attempts")


def _wrong(record: CaseRecord) -> str | None:
    """Why a record's figures are impossible; None if they are possible."""
    extents = (record.m, record.n, record.k, record.batch)
    if record.kernel not in BY_NAME:
        return "this service has no such kernel"
    if len(record.case) > MAX_NAME or not all(1 <= extent <= MAX_EXTENT for extent in extents):
        return f"its extents must be 1 to {MAX_EXTENT}, and its name at most {MAX_NAME} characters"
    if record.flops != Problem.in_batch(record.m, record.n, record.k, record.dtype, record.batch).flops:
        return "its operations are not those of its extents, batch and element type"
    if not 0 <= record.round < MAX_ROUNDS or _has_negative(record.model_dump(exclude_defaults=True)):
        return "a figure in it is negative, or its round too high"
    return _wrong_times(record)


def _wrong_times(record: CaseRecord) -> str | None:
    """The same for the times and the speed, which ratios and intervals divide by."""
    times = [] if record.time_us is None else [*record.time_us.model_dump(exclude={"stdev"}).values()]
    figures = (record.kernel_ms, record.gflops, record.ci95_lo_us, record.ci95_hi_us, *times)
    if not all(value is None or value >= MIN_FIGURE for value in figures):
        return "its times and speeds must be positive"
    if (spread := record.time_us) is not None:
        ordered = [spread.min, spread.q1, spread.median, spread.q3, spread.max]
        if ordered != sorted(ordered):
            return "its quartiles are not in their order"
    if (
        record.kernel_ms
        and record.gflops
        and not isclose(record.gflops, record.flops / (record.kernel_ms * 1e6), rel_tol=SAME_SPEED)
    ):
        return "its speed is not that of its time"
    return None


def _has_negative(value: Any) -> bool:
    if isinstance(value, dict | list | tuple):
        return any(map(_has_negative, _inside(value)))
    return isinstance(value, int | float) and value < 0


def import_file(context: Context, owner: str, body: bytes) -> Job:
    """Imports a file and returns the new job. Raises what `read_file` and `keep_imported` raise."""
    file = read_file(body, FINDINGS_OF_CASES * context.settings.max_benchmark_cases)
    warning = IMPORTED.format(at=datetime.now(UTC))
    earlier = (each for each in file.summary.warnings if not each.startswith("Imported from a file"))
    summary = file.summary.model_copy(update={"warnings": (warning, *earlier)})
    outcome = BenchmarkOutcome(device=file.job.device, summary=summary)
    times = accumulate(file.job.times, max)  # in their order, also where the clock was set back meanwhile
    about: dict[str, str | int] = {
        "id": new_id("job"),
        "request": file.spec.model_dump_json(exclude_defaults=True),
        "asked": label_of(file.spec),
        "outcome": outcome.model_dump_json(),
        "device": file.job.device,
        **{name: microseconds(time.timestamp()) for name, time in zip(TIMES, times, strict=True)},
        "progress": Progress(done=len(file.records), total=max(1, len(file.records))).model_dump_json(),
    }
    return keep_imported(context, owner, about, _findings(file))


def _findings(file: ResultsFile) -> dict[str, str]:
    return {
        **{attempt_name(one.attempt): one.model_dump_json() for one in file.attempts},
        **{record_name(one.round, one.case): one.model_dump_json() for one in file.records},
        **{name: one.model_dump_json() for name, one in file.samples.items()},
        **{ceiling_name(one.name): one.model_dump_json() for one in file.ceilings},
    }
