"""Watches a running benchmark: its progress, its results so far, and the handling of Ctrl-C."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from matmul_client.cli.output import bars, console, print_json, size_of, write_whole
from matmul_client.cli.settings import INTERRUPTED, Settings, cancelled
from matmul_client.core.errors import MatmulError, job_error
from matmul_client.core.results import Point

if TYPE_CHECKING:
    from matmul_client.handles import Benchmark

COLUMNS = ("kernel", "dtype", "size")
SHOWN = 12  # measurements in the live table


def watch(run: Benchmark, settings: Settings, output: Path | None, plot: Path | None) -> None:
    """Watches a benchmark to its end, then shows its results. Ctrl-C asks whether to leave it running."""
    try:
        _follow(run, settings)
        record = run.wait()
        if record["state"] != "succeeded":
            raise job_error(record)
        _finish(run, settings, output, plot)
    except KeyboardInterrupt:
        _interrupted(run, settings)


def _follow(run: Benchmark, settings: Settings) -> None:
    screen = Console(stderr=True, highlight=False)
    if not screen.is_terminal:
        for point in run:
            if not settings.as_json:
                click.echo(_line(point), err=True)
        return
    view = Watched(run.id)
    live = Live(view.shown(), console=screen, transient=True, refresh_per_second=8)
    try:  # as a context manager it would go on where Ctrl-C comes while it starts, and hide the question
        live.start(refresh=True)
        for point in run:
            view.take(point)
            live.update(view.shown())
    finally:
        live.stop()


def _line(point: Point) -> str:
    speed = f"{point.gflops:.4g} GFLOPS" if point.gflops else point.status
    batch = f"{point.batch} of " if point.batch > 1 else ""
    return f"{point.done}/{point.total} {point.kernel} {point.dtype} {batch}{point.m}×{point.n}×{point.k}: {speed}"


class Watched:
    """A progress bar with the time left, above the newest measurements."""

    def __init__(self, job_id: str) -> None:
        self._points: list[Point] = []
        self._progress = Progress(
            SpinnerColumn(), TextColumn(job_id), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}")
        )
        self._task = self._progress.add_task("", total=None, left="")

    def take(self, point: Point) -> None:
        self._points.append(point)
        left = "" if point.eta_s is None else f"{point.eta_s:.0f} s left"
        self._progress.update(self._task, completed=point.done, total=point.total, left=left)

    def shown(self) -> Group:
        newest: list[dict[str, Any]] = [_row(point) for point in self._points[-SHOWN:]]
        return Group(self._progress, bars(newest, COLUMNS, "gflops"))


def _row(point: Point) -> dict[str, Any]:
    sizes = {name: getattr(point, name) for name in ("m", "n", "k", "batch")}
    return {"kernel": point.kernel, "dtype": point.dtype, "size": size_of(sizes), "gflops": point.gflops}


def _finish(run: Benchmark, settings: Settings, output: Path | None, plot: Path | None) -> None:
    result = run.result()
    if output is not None:
        document = json.dumps(result.to_dict(), indent=1).encode()
        write_whole(output, lambda file: file.write(document))
    if plot is not None:
        drawn = run.drawn("gflops", plot.suffix[1:])
        write_whole(plot, lambda file: file.write(drawn))
    if settings.as_json:
        print_json(result.to_dict())
        return
    rows = [{**record, "size": size_of(record)} for record in result.records]
    console().print(bars(rows, (*COLUMNS, "kernel_ms"), "gflops"))
    for warning in result.warnings:
        click.echo(f"Note: {warning}")
    for path in filter(None, (output, plot)):
        click.echo(f"{path} written.")
    click.echo(f"A report: matmul report {run.id} -o report.html")


def _interrupted(run: Benchmark, settings: Settings) -> NoReturn:
    """Asks the user whether to cancel; without a terminal the benchmark is cancelled, because nobody could cancel it
    later.
    """
    answer = "c"
    if sys.stdin is not None and sys.stdin.isatty():  # it is None where it is closed
        try:
            choice = click.Choice(["d", "c"])
            answer = click.prompt("\nDetach, and leave it running, or cancel it?", type=choice, default="c", err=True)
        except (KeyboardInterrupt, click.Abort):
            answer = "c"
    if answer == "d":
        click.echo(f"It goes on. Watch it: matmul bench watch {run.id}", err=True)
        sys.exit(0)
    click.echo(cancelled(run, timeout=5, done="It was cancelled; what was measured is kept."), err=True)
    if settings.as_json:
        with suppress(MatmulError):  # the service may be gone
            print_json(run.so_far().to_dict())
    sys.exit(INTERRUPTED)
