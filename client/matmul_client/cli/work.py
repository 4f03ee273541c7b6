"""`matmul jobs`."""

from __future__ import annotations

from typing import Any

import click

from matmul_client.cli.output import print_json, show
from matmul_client.cli.settings import Settings, with_service

EPILOG = """\b
Examples:
  matmul jobs --state running
  matmul jobs show job_0123…
  matmul jobs cancel job_0123…
"""


@click.group(invoke_without_command=True, epilog=EPILOG)
@click.option(
    "--state", type=click.Choice(["queued", "running", "succeeded", "failed", "cancelled"]), help="Only in this state."
)
@click.option("--kind", type=click.Choice(["matmul", "benchmark"]), help="Only of this kind.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many at most.")
@with_service
def jobs(settings: Settings, state: str | None, kind: str | None, limit: int) -> None:
    """List jobs, newest first."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    with settings.client() as client:
        found = client.jobs(limit=limit, state=state, kind=kind)
    if settings.as_json:
        print_json(found)
        return
    show(map(_row, found), ("id", "kind", "state", "done", "created", "kernel", "gflops"))


def _row(job: dict[str, Any]) -> dict[str, Any]:
    done, total = job["progress"]["done"], job["progress"]["total"]
    return {**job, "done": f"{done}/{total}", "created": job["created_at"][11:19]}


@jobs.command("show")
@click.argument("job")
@with_service
def show_record(settings: Settings, job: str) -> None:
    """Show a job's record."""
    with settings.client() as client:
        print_json(client.job(job).record)


@jobs.command()
@click.argument("job")
@with_service
def cancel(settings: Settings, job: str) -> None:
    """Cancel a job that waits or runs."""
    with settings.client() as client:
        record = client.job(job).cancel()
    if settings.as_json:
        print_json(record)
    else:
        click.echo(f"{job} is {record['state']}.")
