"""/v1/benchmarks."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from pydantic import ConfigDict, Field, WithJsonSchema

from analysis.plots.by_name import PLOTS
from analysis.results import Results
from jobs import errors
from jobs.benchmarks.presets import PRESETS
from jobs.benchmarks.spec import BenchmarkSpec
from kernels.catalog import KERNEL_NAMES
from service import problems as edge
from service.benchmarks.comparison import ComparisonView
from service.benchmarks.replies import CSV, HTML, MARKDOWN, PARQUET, PNG, SVG
from service.benchmarks.report import MEDIA_TYPES, PDF, ZIP
from service.benchmarks.views import DryRun, PresetList
from service.http.negotiation import JSON
from service.openapi.manual.matmul import JobReply
from service.openapi.manual.parts import (
    CONDITIONAL,
    CONDITIONS,
    IDEMPOTENCY_KEY,
    JOB_ID,
    Piece,
    accept,
    binary,
    headers_out,
    json_answer,
    no_answer,
    problems,
    ref,
)

TAGS = ["benchmarks"]
JobId = Annotated[str, Path(description="Id of the benchmark's job.", examples=[JOB_ID])]
PlotName = Annotated[str, Path(description=f"One of: {', '.join(PLOTS)}.", examples=["gflops"])]
PresetName = Annotated[str | None, WithJsonSchema({"enum": [*PRESETS, None]})]
LIST_WORDS = ("type", "items", "minItems", "maxItems")  # of a schema
_LISTED = "\n".join(f"- `{preset.name}`: {preset.summary}." for preset in PRESETS.values())


def _one_for_a_list(schema: Piece) -> None:
    """Adds to the schema of a spec what `read_benchmark` takes too: one item in place of a list of it."""
    fields = schema["properties"]
    kernels, shapes, dtypes = (fields[name] for name in ("kernels", "shapes", "dtypes"))
    names, axis = kernels["oneOf"][-1]["items"]["oneOf"]
    names["enum"] = list(KERNEL_NAMES)
    kernels["oneOf"] += [names, axis]
    for field in (shapes, dtypes):
        listed = {name: field.pop(name) for name in LIST_WORDS if name in field}
        field["anyOf"] = [listed, listed["items"]]


class BenchmarkBody(BenchmarkSpec):
    """A benchmark: a whole spec, or a preset with fields that replace the preset's."""

    model_config = ConfigDict(json_schema_extra=_one_for_a_list)
    preset: PresetName = Field(
        None,
        description="Preset to start from. Other fields replace its own; of `data`, `timing`, `transfers`, `energy` "
        "and `tune` those that are named.",
        examples=["quick"],
    )


EXAMPLES: dict[str, Any] = {
    "preset": {"preset": "quick"},
    "overridden": {"preset": "twenty-sizes", "shapes": [256, 512], "timing": {"rounds": 1}},
    "sweep": {
        "title": "Two kernels over powers of two",
        "device": "any",
        "kernels": ["cpu_blas"],
        "shapes": [{"start": 64, "stop": 1024, "count": 5, "scale": "log2"}, {"m": 16, "n": 512, "k": 512}],
        "dtypes": ["float32", "float64"],
        "timing": {"rounds": 3, "min_samples": 20},
    },
    "grid": {
        "kernels": [{"kernel": "register_tiled", "configs": {"grid": {"block_m": [64, 128], "block_n": [64, 128]}}}],
        "shapes": [1024, 2048, 4096],
        "device": "gpu",
        "transfers": {"enabled": True},
    },
}
BODY: Piece = {
    "required": True,
    "description": "One shape, kernel or element type may stand for a list of one. At most 256 KiB.",
    "content": {
        JSON: {"schema": ref(BenchmarkBody), "examples": {name: {"value": one} for name, one in EXAMPLES.items()}}
    },
}
SUBMIT_ERRORS = (
    errors.MalformedBody,
    errors.NoWorkerForKernel,
    errors.NoWorkerForDevice,
    errors.IdempotencyKeyInUse,
    errors.BodyTooLarge,
    edge.UnsupportedMediaType,
    errors.InvalidRequest,
    errors.UnknownPreset,
    errors.BenchmarkTooLarge,
    errors.UnsupportedDType,
    errors.UnknownKernel,
    errors.InvalidConfig,
    errors.IdempotencyKeyReused,
    errors.QuotaExceeded,
    errors.QueueFull,
    errors.StoreFull,
    errors.NoWorkers,
)
LIST: Piece = {
    "tags": TAGS,
    "operation_id": "list_presets",
    "summary": "List the presets",
    "description": "The presets, with their specs and their size on the live workers. Submitted benchmarks are jobs: "
    "GET /v1/jobs?kind=benchmark lists them.",
    "responses": {200: json_answer(PresetList, "The presets."), **problems(errors.InvalidRequest)},
}
SUBMIT: Piece = {
    "tags": TAGS,
    "operation_id": "submit_benchmark",
    "summary": "Measure kernels",
    "description": "Every kernel with every config on every shape and element type, in shuffled rounds with the "
    "library's kernel among them, each product checked before and after it is timed. The answer is a job; follow it "
    "as any other. A benchmark waits for a worker on one model of device. Where that worker is lost, another on the "
    "same model goes on at the case it was on. A case that cannot run on the device becomes a `skipped` record; a "
    "kernel that no live worker serves, or a config that no device takes, is refused.\n\n"
    "`?dry_run=true` answers how many cases it has and about how long it takes, and makes no job; Idempotency-Key is "
    "not used up. Too many measurements (MATMUL_MAX_BENCHMARK_CASES) or operations (MATMUL_MAX_BENCHMARK_FLOPS) are "
    "refused with the numbers.\n\n"
    "`device`: of a GPU's UUID the model counts, so it is taken only where one live worker runs on that model.\n\n"
    f"Presets:\n{_LISTED}",
    "status_code": 202,
    "responses": {
        202: json_answer(JobReply, "Recorded: poll the job.", "Location", "Retry-After", "Idempotent-Replayed"),
        200: json_answer(DryRun, "For a dry run: a description of the benchmark."),
        **problems(*SUBMIT_ERRORS),
    },
    "openapi_extra": {"requestBody": BODY, "parameters": [IDEMPOTENCY_KEY]},
}
NOT_MODIFIED = no_answer("The caller's copy is current.", "ETag")
READ_ERRORS = (errors.JobNotFound, errors.NotFound, edge.NotAcceptable, errors.InvalidRequest, *CONDITIONAL)


def _answer(description: str, content: Piece) -> Piece:
    return {"description": description, "content": content, "headers": headers_out("ETag")}


def _text(*types: str) -> Piece:
    return {name: {"schema": {"type": "string"}} for name in types}


REPORT_WORDS = (
    "A report to hand in: title page, summary, method, results, findings with cause and next step, conclusion, "
    "limitations, how to reproduce it, and the device. HTML is one file without scripts, which prints on A4; PDF needs "
    "the server's extra `pdf`; Markdown links its plots, or has them beside it in a zip file. Title, names and texts "
    "that come with the request are plain text."
)
REPORT_ANSWERS: dict[int | str, Any] = {
    200: {
        "description": "The report.",
        "content": {**_text(HTML, MARKDOWN), **binary((PDF, ZIP))},
        "headers": headers_out("ETag", "Content-Disposition"),
    }
}
RESULTS: Piece = {
    "tags": TAGS,
    "operation_id": "get_results",
    "summary": "Read what a benchmark has found",
    "description": "JSON, or a table with one row a case: CSV, or Parquet. "
    "Rounds are pooled. Also while it runs, and after it was cancelled or failed: then `complete` is false, and what "
    "was measured is there.\n\n"
    "`?compare=<id>` holds it against another benchmark, case by case: faster, slower, same or ambiguous, with what "
    "differs in device, clocks and versions. JSON alone.",
    "responses": {
        200: _answer(
            "The results.",
            {
                JSON: {"schema": {"anyOf": [ref(Results), ref(ComparisonView)]}},
                **_text(CSV),
                **binary((PARQUET,)),
            },
        ),
        304: NOT_MODIFIED,
        **problems(*READ_ERRORS, errors.ExtraMissing),
    },
    "openapi_extra": {"parameters": [accept((JSON, CSV, PARQUET)), *CONDITIONS]},
}
REPORT: Piece = {
    "tags": TAGS,
    "operation_id": "get_report",
    "summary": "Read a benchmark's report",
    "description": f"{REPORT_WORDS} Of a benchmark that is under way, what there is.",
    "responses": REPORT_ANSWERS | {304: NOT_MODIFIED} | problems(*READ_ERRORS, errors.ExtraMissing),
    "openapi_extra": {"parameters": [accept(MEDIA_TYPES), *CONDITIONS]},
}
PLOT: Piece = {
    "tags": TAGS,
    "operation_id": "get_plot",
    "summary": "Draw a plot of a benchmark",
    "description": "Needs the server's extra `report`. A plot that these results have nothing for is a 404, which "
    "names those there are.\n\n" + "\n".join(f"- `{name}`: {plot.caption}" for name, plot in PLOTS.items()),
    "responses": {
        200: _answer("The plot.", {**_text(SVG), **binary((PNG,))}),
        304: NOT_MODIFIED,
        **problems(*READ_ERRORS, errors.ExtraMissing),
    },
    "openapi_extra": {"parameters": [accept((SVG, PNG)), *CONDITIONS]},
}
