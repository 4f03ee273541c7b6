"""Five tasks of typical users, each done in Chromium in as few steps as possible, and counted.

    python -m benchmarks.tasks --url http://127.0.0.1:8000 --name after [--out benchmarks/results/tasks.json]

The service at `url` must be open (without keys) and have a CPU worker. A step is a click, a choice, or a chosen file;
each task begins on the first page. Of the known ways, the shortest that leads to the answer counts, so the same program
can count an older version of the pages. With `--out` the counts are added to the record under `name`.
"""

from __future__ import annotations

import argparse
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import numpy as np
from playwright.sync_api import Browser, Error, Page, expect

from tools.browser import chromium
from tools.harness.api import ended, http_client

WAIT_MS = 60_000  # for a job or a report
BUSY = [2500, 2500]
QUICK = {"preset": "quick"}


@dataclass(slots=True)
class Prepared:
    """The jobs and files that the tasks are about."""

    benchmark: str
    failed: str
    reason: str
    a: Path
    b: Path


@dataclass(slots=True)
class Reader:
    """Uses a page and records each step."""

    page: Page
    steps: list[str] = field(default_factory=list)

    def click(self, name: str, role: Any = "link") -> None:
        self.page.get_by_role(role, name=name).first.click(timeout=WAIT_MS)
        self.steps.append(f"click “{name}”")

    def go(self, selector: str, words: str) -> None:
        self.page.locator(selector).first.click(timeout=WAIT_MS)
        self.steps.append(f"click {words}")

    def choose_files(self, label: str, *paths: Path) -> None:
        self.page.get_by_label(label, exact=True).set_input_files(paths, timeout=WAIT_MS)
        self.steps.append(f"choose {'a file' if len(paths) == 1 else 'both files'}")

    def sees(self, words: str | re.Pattern[str], timeout_ms: int = WAIT_MS) -> None:
        expect(self.page.locator("main")).to_contain_text(words, timeout=timeout_ms)


Way = Callable[[Reader, Prepared], None]


def _fastest_on_the_first_page(reader: Reader, _: Prepared) -> None:
    reader.sees(
        re.compile(r"Measured on NVIDIA H200.*bfloat16\s+NVIDIA H200\s*4096\s+hopper_bf16\s+[\d.]+ TFLOP/s", re.DOTALL)
    )


def _fastest_on_the_board(reader: Reader, _: Prepared) -> None:
    reader.click("Leaderboard")
    reader.sees(re.compile(r"bfloat16 at N = 4096 on NVIDIA H200\s+hopper_bf16: [\d.]+ TFLOP/s"))


def _fastest_on_the_kernels_page(reader: Reader, _: Prepared) -> None:
    """It shows the best results, without the library's."""
    reader.click("Kernels")
    reader.go('a[href^="/ui/kernels/hopper_bf16"]', "hopper_bf16")
    reader.sees(re.compile(r"bfloat16[^A-Za-z]+4096"))


def _to_results(reader: Reader, prepared: Prepared) -> None:
    """From the list of jobs on the first page, directly or through the job's own page."""
    try:
        reader.go(f'a[href^="/ui/benchmarks/{prepared.benchmark}"]', "the benchmark")
    except Error:
        reader.go(f'a[href="/ui/jobs/{prepared.benchmark}"]', "the job")
        reader.go(f'a[href^="/ui/benchmarks/{prepared.benchmark}"]', "its results")


def _compare_by_its_link(reader: Reader, prepared: Prepared) -> None:
    _to_results(reader, prepared)
    reader.click("Compare with the H200's run")
    reader.page.wait_for_url("**/ui/compare?**", timeout=WAIT_MS)
    reader.sees("NVIDIA H200", WAIT_MS)  # a table of the fastest, or why a disturbed run is not comparable


def _compare_by_overlay(reader: Reader, prepared: Prepared) -> None:
    """Overlaid curves; no figure says how far apart they are."""
    _to_results(reader, prepared)
    reader.page.locator("summary", has_text="verlay").first.click(timeout=WAIT_MS)
    reader.steps.append("open the overlays")
    reader.page.get_by_label(re.compile("^A first look.*H200")).first.check(timeout=WAIT_MS)
    reader.steps.append("tick the H200's run")
    expect(reader.page.locator("#chart .legend")).to_contain_text("NVIDIA H200", timeout=WAIT_MS)


def _why_it_failed(reader: Reader, prepared: Prepared) -> None:
    reader.go(f'a[href^="/ui/jobs/{prepared.failed}"]', "the failed job")
    reader.sees(prepared.reason)


def _why_it_failed_at_once(reader: Reader, prepared: Prepared) -> None:
    reader.sees(prepared.reason)


def _report_as_pdf(reader: Reader, prepared: Prepared) -> None:
    _to_results(reader, prepared)
    link = reader.page.locator('a[href*="format=pdf"]').first
    expect(link).to_be_visible(timeout=WAIT_MS)
    with reader.page.expect_download(timeout=WAIT_MS) as download:
        link.click(timeout=WAIT_MS)  # waits until the report is made
    reader.steps.append("click “Report as PDF”")
    assert download.value.path().read_bytes().startswith(b"%PDF")


def _report_by_the_printer(reader: Reader, prepared: Prepared) -> None:
    """Printed by the browser, in a dialog of two clicks that a script does not see; wide tables are cut off."""
    _to_results(reader, prepared)
    reader.go('a[href*="/report?format=html"]', "the report")
    reader.steps.extend(["print", "save as PDF"])


FIRST_FIELD = "A, or all in one safetensors file"


def _multiply_both_at_once(reader: Reader, prepared: Prepared) -> None:
    reader.click("two files")
    both = reader.page.get_by_text("all at once in the first field")
    expect(both).to_be_visible(timeout=WAIT_MS)  # once the script has come that takes both
    reader.choose_files(FIRST_FIELD, prepared.a, prepared.b)
    _multiplied(reader)


def _multiply_both(reader: Reader, prepared: Prepared) -> None:
    reader.click("Multiply")
    reader.click("Files")
    reader.choose_files(FIRST_FIELD, prepared.a, prepared.b)
    _multiplied(reader)


def _multiply_one_by_one(reader: Reader, prepared: Prepared) -> None:
    reader.click("Multiply")
    reader.click("Files")
    reader.choose_files(FIRST_FIELD, prepared.a)
    reader.choose_files("B", prepared.b)
    _multiplied(reader)


def _multiplied(reader: Reader) -> None:
    """`auto` takes the right kernel."""
    reader.click("Multiply", "button")
    reader.sees("succeeded", WAIT_MS)


# Each question, and the ways to its answer, shortest first.
TASKS: Sequence[tuple[str, Sequence[Way]]] = (
    (
        "find the fastest kernel for 4096 bf16 on an H200",
        (_fastest_on_the_first_page, _fastest_on_the_board, _fastest_on_the_kernels_page),
    ),
    ("compare my run with the H200's", (_compare_by_its_link, _compare_by_overlay)),
    ("find why a job failed", (_why_it_failed_at_once, _why_it_failed)),
    ("get a report as PDF", (_report_as_pdf, _report_by_the_printer)),
    ("multiply two files with the right kernel", (_multiply_both_at_once, _multiply_both, _multiply_one_by_one)),
)


def prepare(http: httpx.Client, directory: Path) -> Prepared:
    """A finished benchmark, a job that failed, two files."""
    job = http.post("/v1/benchmarks", json=QUICK).raise_for_status().headers["location"]
    ended(http, job.rpartition("/")[2])
    busy = {"random": {"shape": BUSY, "seed": 1}}
    asynchronous = {"prefer": "respond-async"}
    http.post("/v1/matmul", json={"a": busy, "b": busy}, headers=asynchronous).raise_for_status()
    first = http.post("/v1/matmul", json={"a": busy, "b": busy}, headers=asynchronous).json()["job"]["id"]
    second = http.post("/v1/matmul", json={"a": {"job": first}, "b": busy}, headers=asynchronous).json()["job"]["id"]
    http.post(f"/v1/jobs/{first}/cancel").raise_for_status()
    record = ended(http, second)
    paths = directory / "a.npy", directory / "b.npy"
    for path, shape in zip(paths, ((300, 200), (200, 100)), strict=True):
        held = io.BytesIO()
        np.save(held, np.ones(shape, np.float32))
        path.write_bytes(held.getvalue())
    return Prepared(job.rpartition("/")[2], second, record["error"]["detail"], *paths)


def counted(page: Page, url: str, ways: Sequence[Way], prepared: Prepared) -> dict[str, Any]:
    """Steps of the first way that leads to the answer; null if none does."""
    for way in ways:
        reader = Reader(page)
        page.goto(url)
        try:
            way(reader, prepared)
        except (Error, AssertionError):
            continue
        return {"steps": len(reader.steps), "way": reader.steps}
    return {"steps": None, "way": []}


def count(browser: Browser, url: str) -> dict[str, Any]:
    """Every task with its steps."""
    with TemporaryDirectory() as directory, http_client(url) as http:
        prepared = prepare(http, Path(directory))
        with browser.new_context(locale="en-GB") as context:
            context.set_default_timeout(WAIT_MS)
            page = context.new_page()
            return {task: counted(page, url, ways, prepared) for task, ways in TASKS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--name", default="after", help="what the counts are called in the record")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with chromium() as browser:
        found = count(browser, asked.url)
    print(json.dumps(found, indent=1, ensure_ascii=False))
    if asked.out:
        record = json.loads(asked.out.read_text("utf-8")) if asked.out.exists() else {}
        asked.out.write_text(json.dumps(record | {asked.name: found}, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
