"""`matmul report`."""

from __future__ import annotations

from pathlib import Path

import click

from matmul_client.cli.output import OutputFile, print_json
from matmul_client.cli.settings import Settings, with_service

FORMS = {".html": "html", ".md": "markdown", ".pdf": "pdf"}


@click.command(
    epilog="\b\nExamples:\n  matmul report job_0123… -o report.html\n  matmul report job_0123… -o report.pdf"
)
@click.argument("job")
@click.option("-o", "--output", required=True, type=OutputFile(), help="*.html, *.md or *.pdf")
@with_service
def report(settings: Settings, job: str, output: Path) -> None:
    """Write the report of a benchmark: figures, plots, what was measured and how."""
    if output.suffix not in FORMS:
        raise click.UsageError("A report is written as .html, .md or .pdf.")
    with settings.client() as client:
        text = client.open_benchmark(job).report(FORMS[output.suffix])
    output.write_bytes(text)
    if settings.as_json:
        print_json({"job": job, "output": output, "bytes": len(text)})
    else:
        click.echo(f"{output} written.")
