"""A benchmark's report, such as one could hand in: as one HTML file with its plots in it, or as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from analysis import report_findings, report_method, report_tables
from analysis.plots import available, draw
from analysis.report_document import Block, Heading, Text
from analysis.report_html import to_html
from analysis.report_markdown import to_markdown
from analysis.result_models import Results
from analysis.results import measurements
from jobs.errors import ExtraMissing
from jobs.states import JobState


def html_report(results: Results) -> str:
    """One file without scripts or anything to fetch. Without matplotlib it has no plots, and says so."""
    blocks, plots = list(_blocks(results)), {}
    try:
        plots = {name: draw(results, name) for name in available(results)}
    except ExtraMissing as missing:
        blocks.append(Text(f"This report has no plots. {missing.detail}"))
    return to_html(report_method.title(results), blocks, plots)


def markdown_report(results: Results) -> str:
    """Plots are links to the service that holds the job, relative to its root."""
    names = available(results)
    blocks = (block for block in _blocks(results) if getattr(block, "name", None) in (None, *names))
    return to_markdown(blocks, lambda name: f"/v1/benchmarks/{results.job.id}/plots/{name}")


def _blocks(results: Results) -> Iterator[Block]:
    pairs = list(zip(results.records, measurements(results), strict=True))
    yield Heading(1, report_method.title(results))
    yield from _summary(results, pairs)
    yield from report_method.surroundings(results)
    yield from report_method.method(results)
    yield from report_findings.ceilings(results)
    yield from report_tables.speeds(pairs)
    yield from report_tables.tile_configs(pairs)
    yield from report_findings.roofline(pairs)
    yield from report_findings.copies(pairs)
    yield from report_findings.dips(pairs)
    yield from report_tables.correctness(pairs)
    yield from report_tables.failures(pairs)
    yield from report_findings.noise(results, pairs)
    yield from report_method.reproduction(results)


def _summary(results: Results, pairs: list[report_tables.Pair]) -> Iterator[Block]:
    job, spec = results.job, results.spec
    if not results.complete:
        why = results.warnings[0] if results.warnings else f"The job is {job.state}."
        yield Text(f"Not complete. {why}", strong=True)
    if spec.title:
        yield Text(f"Question: {spec.title}")
    when = f"{job.finished_at:%Y-%m-%d %H:%M} UTC" if job.finished_at else "not finished"
    counted = f"{len(results.records)} cases" if results.records else f"{len(results.ceilings)} roofs"
    attempts = f", {len(results.attempts)} attempts" if len(results.attempts) > 1 else ""
    ended = "finished" if job.state is JobState.SUCCEEDED else f"{job.state},"
    yield Text(f"Benchmark {job.id}, {ended} {when}: {counted}{attempts}.")
    if (fastest := report_tables.headline(pairs)) is not None:
        yield fastest
