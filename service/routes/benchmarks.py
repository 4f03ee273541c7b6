"""/v1/benchmarks: presets, new benchmarks, and what they have found."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from jobs.base import Strict
from service.benchmarks.body import SPEC_BYTES
from service.benchmarks.replies import RESULTS, check_comparable, compared, plot_forms, results_reply
from service.benchmarks.report import ReportQuery, benchmark_report
from service.benchmarks.submit import dry_run, presets, submit
from service.bodies.body import Body
from service.bodies.reader import accepted_type
from service.context import context_of, owner_of
from service.http.idempotency import holding_key, key_of
from service.http.listed import sole
from service.http.negotiation import JSON
from service.openapi.manual import benchmarks as manual
from service.openapi.manual.parts import JOB_ID
from service.submit.replies import pending_reply

router = APIRouter(prefix="/v1/benchmarks")


class NewBenchmarkQuery(Strict):
    """Query parameters of POST /v1/benchmarks."""

    dry_run: bool = Field(False, description="Describe the benchmark without creating a job.")


class ResultsQuery(Strict):
    """Query parameters of results."""

    format: Literal["json", "csv", "parquet"] | None = Field(None, description="In place of Accept.")
    compare: str | None = Field(
        None, max_length=100, description="Id of another benchmark to compare this one with.", examples=[JOB_ID]
    )


class PlotQuery(Strict):
    """Query parameters of a plot."""

    format: Literal["svg", "png"] | None = Field(None, description="In place of Accept.")
    v: str | None = Field(None, max_length=100, description="Ignored. A page changes it to fetch a plot again.")


@router.get("", **manual.LIST)
async def list_presets(request: Request) -> Response:
    context = context_of(request)
    shown_list = await context.call(presets, context)
    return Response(shown_list.model_dump_json(), 200, {"cache-control": "no-cache"}, JSON)


@router.post("", **manual.SUBMIT)
async def submit_benchmark(request: Request, query: Annotated[NewBenchmarkQuery, Query()]) -> Response:
    context = context_of(request)
    if query.dry_run:
        key_of(request)  # a dry run makes no job, so the key is not bound, but an invalid one is still refused
        body = await _body(request)
        async with context.plans.alone(owner_of(request)):
            plan = await context.call(dry_run, context, body)
        return Response(plan.model_dump_json(), 200, {"cache-control": "no-store"}, JSON)
    async with holding_key(request) as key:
        body = await _body(request)
        async with context.plans.alone(owner_of(request)):
            receipt = await context.call(submit, context, owner_of(request), key, body)
        await context.check_written(receipt.job)
    extra = {"idempotent-replayed": "true"} if receipt.replayed else {}
    return pending_reply(receipt.job.record, extra)


async def _body(request: Request) -> bytes:
    """Raises UnsupportedMediaType, PayloadTooLarge."""
    accepted_type(sole(request, "Content-Type"), JSON)
    limit_bytes = min(SPEC_BYTES, context_of(request).settings.max_json_bytes)
    return await Body(request.scope, request.receive, limit_bytes=limit_bytes).read()


@router.get("/{job_id}/results", **manual.RESULTS)
async def get_results(request: Request, job_id: manual.JobId, query: Annotated[ResultsQuery, Query()]) -> Response:
    if query.compare is None:
        return await results_reply(request, job_id, "results", RESULTS, query.format)
    check_comparable(query.format)
    return await compared(request, job_id, query.compare)


@router.get("/{job_id}/report", **manual.REPORT)
async def get_report(request: Request, job_id: manual.JobId, query: Annotated[ReportQuery, Query()]) -> Response:
    return await benchmark_report(request, job_id, query)


@router.get("/{job_id}/plots/{name}", **manual.PLOT)
async def get_plot(
    request: Request, job_id: manual.JobId, name: manual.PlotName, query: Annotated[PlotQuery, Query()]
) -> Response:
    return await results_reply(request, job_id, f"plots.{name}", plot_forms(name), query.format)
