"""`/ui/…/report`: a report in preparation: its title, author, text and sections, to preview and to download."""

from __future__ import annotations

from importlib.util import find_spec

from fastapi import APIRouter, Request, Response

from analysis.report.forms.pdf import MISSING
from analysis.report.options import MAX_LINE, MAX_TEXT, SECTIONS, SectionName
from jobs.benchmarks.spec import BenchmarkSpec
from kernels.published import PUBLISHED
from service.benchmarks.replies import find_benchmark
from service.context import context_of, owner_of
from service.dashboard.render import page
from service.published import find

router = APIRouter(include_in_schema=False)

# Labels of the sections.
WORDS: dict[SectionName, tuple[str, str]] = {
    "summary": ("Summary", "five sentences"),
    "introduction": ("Introduction", "your own text above, if you write one"),
    "method": ("Method", "how it was measured"),
    "results": ("Results", "who wins, speeds, shares of the library's speed"),
    "roofline": ("Roofline", "roofs and what limits each kernel"),
    "copies": ("Copies", "copies against kernel, where they were measured"),
    "configs": ("Tile configs", "the best of each kernel, where several were measured"),
    "findings": ("Findings", "sizes off their curves, with cause and next step"),
    "correctness": ("Correctness", "checks, errors, and cases without figures"),
    "conclusion": ("Conclusion", "yours, then what follows from the figures"),
    "limitations": ("Limitations", "disturbances, noise, what the figures do not say"),
    "reproduction": ("How to reproduce it", "the command"),
    "appendix": ("Appendix", "times, speed-ups, device, software"),
}


@router.get("/ui/benchmarks/{job_id}/report")
async def of_benchmark(request: Request, job_id: str) -> Response:
    """Raises JobNotFound, NotFound."""
    context = context_of(request)
    job = await context.call(find_benchmark, context, job_id, owner_of(request))
    spec = job.record.request
    assert isinstance(spec, BenchmarkSpec)
    title = spec.title or spec.preset or "Benchmark"
    return _page(request, title, f"/ui/benchmarks/{job_id}", f"/v1/benchmarks/{job_id}/report")


@router.get("/ui/published/{name}/report")
async def of_published(request: Request, name: str) -> Response:
    """Raises NotFound."""
    find(name)
    return _page(request, PUBLISHED[name].title, f"/ui/published/{name}", f"/v1/published/{name}/report")


def _page(request: Request, title: str, back: str, action: str) -> Response:
    return page(
        request,
        "report.html",
        of=title,
        back=back,
        action=action,
        sections=[(name, *WORDS[name]) for name in SECTIONS],
        longest_line=MAX_LINE,
        longest_text=MAX_TEXT,
        missing="" if find_spec("weasyprint") else MISSING,
    )
