"""/v1/published."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from jobs import errors
from kernels.published_records import Publication
from service import problems as edge
from service.benchmarks.report import MEDIA_TYPES
from service.openapi.manual.benchmarks import REPORT_ANSWERS, REPORT_WORDS
from service.openapi.manual.parts import CONDITIONAL, CONDITIONS, Piece, accept, json_answer, no_answer, problems
from service.published import PublishedList

TAGS = ["published"]
PublishedName = Annotated[str, Path(description="Name of the results.", examples=["t4_register_tile_2025"])]
NOT_MODIFIED = no_answer("The caller's copy is current.", "ETag")

LIST: Piece = {
    "tags": TAGS,
    "operation_id": "list_published",
    "summary": "List the published results",
    "description": "Results that ship with this service for comparison: those of the reports that the kernels come "
    "from, and this project's own recorded runs.",
    "responses": {
        200: json_answer(PublishedList, "The list.", "ETag"),
        304: NOT_MODIFIED,
        **problems(*CONDITIONAL, errors.InvalidRequest, reads_store=False),
    },
    "openapi_extra": {"parameters": [*CONDITIONS]},
}
GET: Piece = {
    "tags": TAGS,
    "operation_id": "get_published",
    "summary": "Read published results",
    "description": "Citation, device, and every figure as a flat record: kernel, size, GFLOPS, times. A record whose "
    "`repeats` is set shows a measurement again that another record has; leave it out of a curve. What the source does "
    "not say is null or left out. Notes, in this service's words, say where a source contradicts itself.",
    "responses": {
        200: json_answer(Publication, "The results.", "ETag"),
        304: NOT_MODIFIED,
        **problems(errors.NotFound, errors.InvalidRequest, *CONDITIONAL, reads_store=False),
    },
    "openapi_extra": {"parameters": [*CONDITIONS]},
}
REPORT: Piece = {
    "tags": TAGS,
    "operation_id": "get_published_report",
    "summary": "Read a report of published results",
    "description": f"{REPORT_WORDS} What the source does not say is left out.",
    "responses": REPORT_ANSWERS
    | {304: NOT_MODIFIED}
    | problems(
        errors.NotFound, edge.NotAcceptable, errors.InvalidRequest, errors.ExtraMissing, *CONDITIONAL, reads_store=False
    ),
    "openapi_extra": {"parameters": [accept(MEDIA_TYPES), *CONDITIONS]},
}
