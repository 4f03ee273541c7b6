"""Reports as HTTP responses: in the requested format, with the caller's title, author and text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from analysis.report.options import MAX_LINE, MAX_TEXT, SECTIONS, ReportOptions, SectionName
from analysis.report.render import html_report, markdown_report, pdf_report, zip_report
from analysis.report.subject import Subject, of_publication, of_results
from jobs.base import Strict
from jobs.errors import InvalidRequest
from jobs.models import Job
from kernels.published import PUBLISHED
from service.benchmarks.replies import HTML, MARKDOWN, POLICY, find_benchmark, results_of
from service.context import Context, context_of, owner_of
from service.http.conditions import is_not_modified
from service.http.listed import listed
from service.http.negotiation import choose_type
from service.published import find

PDF, ZIP = "application/pdf", "application/zip"
ReportFormat = Literal["html", "pdf", "markdown", "zip"]


class ReportQuery(Strict):
    """Query parameters of a report."""

    format: ReportFormat | None = Field(None, description="In place of Accept.")
    title: str | None = Field(None, max_length=MAX_LINE, description="In place of its own.")
    author: str | None = Field(None, max_length=MAX_LINE, description="Who hands it in.")
    question: str | None = Field(None, max_length=MAX_LINE, description="What it is to answer.")
    text: str | None = Field(
        None, max_length=MAX_TEXT, description="An introduction: plain text, an empty line between paragraphs."
    )
    conclusion: str | None = Field(
        None, max_length=MAX_TEXT, description="What you conclude: it stands before what follows from the figures."
    )
    sections: tuple[Annotated[str, Field(max_length=MAX_LINE)], ...] = Field(
        (),
        max_length=len(SECTIONS),
        description=f"Which sections it has, each by itself or with commas between them: {', '.join(SECTIONS)}. All of "
        "them without it. They stand in this order.",
        examples=[["summary,results,conclusion"]],
    )

    @property
    def options(self) -> ReportOptions:
        """The report's options. Raises InvalidRequest for an unknown section."""
        return ReportOptions(
            title=_line(self.title),
            author=_line(self.author),
            question=_line(self.question),
            text=self.text,
            conclusion=self.conclusion,
            sections=_sections(self.sections),
        )


def _line(text: str | None) -> str | None:
    """A line of text; None for an empty form field."""
    return " ".join((text or "").split()) or None


def _sections(asked: Sequence[str]) -> tuple[SectionName, ...]:
    names = [name for piece in ",".join(asked).split(",") if (name := piece.strip())]
    if unknown := [name for name in names if name not in SECTIONS]:
        raise InvalidRequest(
            f"There is no section {unknown[0][:40]!r} in a report; there are: {', '.join(SECTIONS)}.", field="sections"
        )
    return tuple(name for name in SECTIONS if name in names) if names else SECTIONS


@dataclass(frozen=True, slots=True)
class ReportForm:
    """One format of a report. In Markdown alone, plots are links below `plots_at`."""

    media_type: str
    suffix: str
    make: Callable[[Subject, ReportOptions, str | None], bytes]
    disposition: Literal["inline", "attachment"] = "attachment"
    headers: Mapping[str, str] = field(default_factory=dict)
    is_long: bool = False  # to make: half a minute for thousands of cases


FORMS: Mapping[ReportFormat, ReportForm] = {
    "html": ReportForm(
        HTML,
        "html",
        lambda subject, options, _: html_report(subject, options).encode(),
        "inline",
        {"content-security-policy": POLICY},
    ),
    "pdf": ReportForm(PDF, "pdf", lambda subject, options, _: pdf_report(subject, options), is_long=True),
    "markdown": ReportForm(
        MARKDOWN,
        "md",
        lambda subject, options, plots_at: markdown_report(subject, options, plots_at=plots_at).encode(),
    ),
    "zip": ReportForm(ZIP, "zip", lambda subject, options, _: zip_report(subject, options)),
}
MEDIA_TYPES = tuple(form.media_type for form in FORMS.values())


def _of_job(context: Context, job: Job) -> Subject:
    return of_results(results_of(context, job))


async def benchmark_report(request: Request, job_id: str, query: ReportQuery) -> Response:
    """Raises JobNotFound, NotFound, NotAcceptable, InvalidRequest, ExtraMissing."""
    options, name = query.options, _format(request, query)
    context = context_of(request)
    job = await context.call(find_benchmark, context, job_id, owner_of(request))
    subject = partial(_of_job, context, job)
    kept = Kept((job.id, str(job.version)), f"report_{job_id}", f"/v1/benchmarks/{job_id}/plots")
    return await _reply(request, kept, name, options, subject)


async def published_report(request: Request, published: str, query: ReportQuery) -> Response:
    """Raises NotFound, NotAcceptable, InvalidRequest, ExtraMissing."""
    options, name = query.options, _format(request, query)
    kept = Kept((published, find(published).etag.strip('"')), f"report_{published}", None)
    return await _reply(request, kept, name, options, lambda: of_publication(PUBLISHED[published]))


@dataclass(frozen=True, slots=True)
class Kept:
    """The report's subject and version, its file name, and the address of its plots."""

    version: tuple[str, str]
    file_name: str
    plots_at: str | None


async def _reply(
    request: Request, kept: Kept, name: ReportFormat, options: ReportOptions, subject: Callable[[], Subject]
) -> Response:
    form, digest = FORMS[name], hashlib.sha256(repr(options).encode()).hexdigest()[:16]
    headers = {
        "etag": f'"{kept.version[1]}.report.{name}.{digest}.{request.app.version}"',
        "cache-control": "no-cache",
        "vary": "accept",
        "content-disposition": f'{form.disposition}; filename="{kept.file_name}.{form.suffix}"',
        **form.headers,
    }
    if is_not_modified(request, headers["etag"]):
        return Response(None, 304, headers)
    key = (*kept.version, "report", name, digest)
    body = await context_of(request).renders.body(
        key,
        lambda: form.make(subject(), options, kept.plots_at),
        owner=owner_of(request),
        is_long=form.is_long,
    )
    return Response(body, 200, headers, form.media_type)


def _format(request: Request, query: ReportQuery) -> ReportFormat:
    if query.format is not None:
        return query.format
    best = choose_type(listed(request, "accept"), MEDIA_TYPES)
    return next(name for name, form in FORMS.items() if form.media_type == best)
