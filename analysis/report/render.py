"""A benchmark's report, such as one could hand in: as one HTML file with its plots in it, or as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.plots.by_name import available, draw
from analysis.report import findings, method, tables
from analysis.report.document import Block, Heading, Text
from analysis.report.html import to_html
from analysis.report.markdown import to_markdown
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
    return to_html(method.title(results), blocks, plots)


def markdown_report(results: Results) -> str:
    """Plots are links to the service that holds the job, relative to its root."""
    names = available(results)
    blocks = (block for block in _blocks(results) if getattr(block, "name", None) in (None, *names))
    return to_markdown(blocks, lambda name: f"/v1/benchmarks/{results.job.id}/plots/{name}")


def _blocks(results: Results) -> Iterator[Block]:
    pairs = list(zip(results.records, measurements(results), strict=True))
    yield Heading(1, method.title(results))
    yield from _summary(results, pairs)
    yield from method.surroundings(results)
    yield from method.method(results)
    yield from findings.ceilings(results)
    yield from tables.speeds(pairs)
    yield from tables.tile_configs(pairs)
    yield from findings.roofline(pairs)
    yield from findings.copies(pairs)
    yield from findings.dips(pairs)
    yield from tables.correctness(pairs)
    yield from tables.failures(pairs)
    yield from findings.noise(results, pairs)
    yield from method.reproduction(results)


def _summary(results: Results, pairs: list[tables.Pair]) -> Iterator[Block]:
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
    if (fastest := tables.headline(pairs)) is not None:
        yield fastest
