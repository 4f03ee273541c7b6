"""The section of docs/performance.md on the dashboard, from the newest recorded run of benchmarks.measure.dashboard."""

from __future__ import annotations

from typing import Any

from tools.markdown import table

MAX_PAINT_MS, MAX_UPDATE_MS, MAX_SCRIPT_BYTES = 300, 16, 100_000


def dashboard(record: dict[str, Any], where: str) -> str:
    """First paint, a live update, and the size of all scripts, each with its bound. `where` describes the machine."""
    paint, update, scripts = record["first_paint"], record["live_update"], record["script_bytes"]
    loads, updates = f"{paint['samples']:.0f} loads", f"{update['samples']:.0f} updates"
    rows = (
        _row(f"first paint of the overview, ms (median of {loads}, empty cache)", paint["p50_ms"], MAX_PAINT_MS),
        _row(f"first paint, ms (slowest of {loads})", paint["max_ms"], MAX_PAINT_MS),
        _row(
            f"script time of a live update, ms (median of {updates}, {update['points']:,} points on the chart)",
            update["p50_ms"],
            MAX_UPDATE_MS,
        ),
        _row(f"script time of a live update, ms (slowest of {updates})", update["max_ms"], MAX_UPDATE_MS),
        *_longest_task(update),
        _row("all scripts, compressed, kB", scripts / 1e3, MAX_SCRIPT_BYTES / 1e3),
    )
    return "\n\n".join(
        (
            "## The dashboard in a browser",
            f"Chromium {record['chromium']} on the same machine as the service, with one CPU worker.",
            where,
            table(("what", "this run", "bound", ""), rows),
        )
    )


def _longest_task(update: dict[str, Any]) -> tuple[tuple[str, str, str, str], ...]:
    """Processor time of the longest task, including drawing; the oldest records do not have it."""
    if "longest_task" not in update:
        return ()
    found, whole = update["longest_task"], "longest task of a live update on the main thread, processor ms"
    return (
        _row(f"{whole} (median of {found['samples']:.0f})", found["p50_ms"], MAX_UPDATE_MS),
        _row(f"{whole} (slowest of {found['samples']:.0f})", found["max_ms"], MAX_UPDATE_MS),
    )


def tasks(record: dict[str, Any]) -> str:
    """Five tasks in steps, before and after the pages began with answers."""
    rows = [
        (task, _steps(record["before"][task]), _steps(found), _way(found)) for task, found in record["after"].items()
    ]
    return "\n\n".join(
        (
            "## Five tasks, in steps",
            "Each is done by a script in Chromium, from the first page, in the fewest steps that are known; "
            "`benchmarks/tasks.py` counts. A step is a click, a choice, or files that are chosen. *Before*: the pages "
            "at 76787ca. The first task then took a reader who knew the kernel's name, the second showed curves "
            "without a figure for the difference, and the fourth was the browser's own print, which cut wide tables.",
            table(("task", "steps before", "steps now", "now"), rows),
        )
    )


def _steps(found: dict[str, Any]) -> str:
    return "–" if found["steps"] is None else str(found["steps"])


def _way(found: dict[str, Any]) -> str:
    return ", ".join(found["way"]) or "it stands on the first page"


def _row(what: str, value: float, bound: float) -> tuple[str, str, str, str]:
    return what, f"{value:.3g}", f"< {bound:g}", "reached" if value < bound else "missed"
