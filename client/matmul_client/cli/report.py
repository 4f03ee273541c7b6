"""`matmul report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from matmul_client.cli.output import OutputFile, print_json, write_whole
from matmul_client.cli.settings import Settings, with_service

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from matmul_client.client import Client
    from matmul_client.core.options import ReportFields

FORMS = {".html": "html", ".md": "markdown", ".pdf": "pdf", ".zip": "zip"}


@click.command(
    epilog="\b\nExamples:\n  matmul report -o report.html\n  matmul report job_0123… -o a.pdf --author 'A. Student'"
)
@click.argument("job", required=False)
@click.option(
    "-o", "--output", required=True, type=OutputFile(), help="*.html, *.pdf, *.md, or *.zip (Markdown with pictures)."
)
@click.option("--title", help="Default: what was measured, and where.")
@click.option("--author")
@click.option("--question", help="The question that the report answers.")
@click.option("--text", help="An introduction.")
@click.option("--conclusion", help="Printed before what follows from the figures.")
@with_service
def report(settings: Settings, job: str | None, output: Path, **fields: Unpack[ReportFields]) -> None:
    """Write a benchmark's report.

    By default of the newest benchmark: figures, plots, what was measured and how.
    """
    if output.suffix not in FORMS:
        raise click.UsageError("A report is written as .html, .pdf, .md or .zip.")
    with settings.client() as client:
        job = job or _newest(client)
        given = cast("ReportFields", {name: value for name, value in fields.items() if value is not None})
        text = client.open_benchmark(job).report(FORMS[output.suffix], **given)
    write_whole(output, lambda file: file.write(text))
    if settings.as_json:
        print_json({"job": job, "output": output, "bytes": len(text)})
    else:
        click.echo(f"{output} written.")


def _newest(client: Client) -> str:
    """Id of the newest benchmark that has ended well. Raises UsageError."""
    found = client.jobs(limit=1, kind="benchmark", state="succeeded")
    if not found:
        raise click.UsageError("No benchmark has ended yet; `matmul bench run quick` makes one.")
    return str(found[0]["id"])
