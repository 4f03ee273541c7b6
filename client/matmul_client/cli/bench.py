"""`matmul bench`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from matmul_client.cli.output import OutputFile, print_json, show, size_of
from matmul_client.cli.settings import JOB_FAILED, Settings, with_service

EPILOG = """\b
Examples:
  matmul bench run quick
  matmul bench run ladder --plot ladder.svg -o ladder.json
  matmul bench run --set 'kernels=["cpu_blas"]' --set 'shapes=[64,128]'
  matmul bench compare job_before job_after --check
"""


@click.group(epilog=EPILOG)
def bench() -> None:
    """Measure kernels, and compare what was measured."""


def _fields(settings: tuple[str, ...]) -> dict[str, Any]:
    """`name=value`s; a value that is no JSON is a word. Raises UsageError."""
    fields: dict[str, Any] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--set takes name=value, not {text}.")
        try:
            fields[name] = json.loads(value)
        except ValueError:
            fields[name] = value
    for name in ("preset", "timeout", "self"):  # parameters of `Client.benchmark` that are no fields
        if name in fields:
            raise click.UsageError(
                f"--set takes no {name}: name a preset as in `matmul bench run quick`, and a deadline by --timeout."
            )
    return fields


OUTPUT = click.option("-o", "--output", type=OutputFile(), help="Write the results to a file, as JSON.")
PLOT = click.option("--plot", type=OutputFile(), help="Plot speed by size into a file: *.svg or *.png.")


@bench.command(epilog=EPILOG)
@click.argument("preset", required=False)
@click.option(
    "--set", "fields", multiple=True, metavar="NAME=JSON", help="A field of the spec, instead of the preset's."
)
@click.option("--detach", is_flag=True, help="Start it without watching it.")
@OUTPUT
@PLOT
@with_service
def run(
    settings: Settings,
    preset: str | None,
    fields: tuple[str, ...],
    detach: bool,
    output: Path | None,
    plot: Path | None,
) -> None:
    """Start a benchmark and watch it. `matmul bench presets` lists the presets."""
    from matmul_client.cli.watching import watch

    if preset is None and not fields:
        raise click.UsageError("Name a preset, as in `matmul bench run quick`, or give fields by --set.")
    if detach and (output or plot):
        raise click.UsageError("--detach waits for no results; give -o and --plot to `matmul bench watch` later.")
    _check_plot(plot)
    with settings.client() as client:
        started = client.benchmark(preset, **_fields(fields))
        if detach:
            _detached(started.id, settings.as_json)
        else:
            watch(started, settings, output, plot)


@bench.command("watch")
@click.argument("job")
@OUTPUT
@PLOT
@with_service
def watch_again(settings: Settings, job: str, output: Path | None, plot: Path | None) -> None:
    """Watch a benchmark that was started before, from its first measurement on."""
    from matmul_client.cli.watching import watch

    _check_plot(plot)
    with settings.client() as client:
        watch(client.open_benchmark(job), settings, output, plot)


@bench.command()
@click.argument("before")
@click.argument("after")
@click.option("--check", is_flag=True, help="Exit with status 1 if a case is slower than before.")
@with_service
def compare(settings: Settings, before: str, after: str, check: bool) -> None:
    """Compare two benchmarks case by case: faster, slower, same or ambiguous."""
    with settings.client() as client:
        found = client.compare(before, after)
    if settings.as_json:
        print_json(found)
    else:
        rows = [
            {**case, "size": size_of(case), "before": case["before"]["gflops"], "after": case["after"]["gflops"]}
            for case in found["cases"]
        ]
        show(rows, ("kernel", "dtype", "size", "before", "after", "ratio", "verdict", "config"))
        click.echo(", ".join(f"{count} {verdict}" for verdict, count in found["counts"].items() if count))
    if check and found["counts"].get("slower"):
        raise click.exceptions.Exit(JOB_FAILED)


@bench.command()
@with_service
def presets(settings: Settings) -> None:
    """List the presets."""
    with settings.client() as client:
        found = client.presets()
    if settings.as_json:
        print_json(found)
    else:
        show(found, ("name", "summary"))


def _check_plot(plot: Path | None) -> None:
    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise click.UsageError("A plot is .svg or .png.")


def _detached(job_id: str, as_json: bool) -> None:
    if as_json:
        print_json({"job": job_id})
    else:
        click.echo(f"It runs as {job_id}. Watch it: matmul bench watch {job_id}")
