"""Records benchmark presets through the service itself: one POST each; results and report are written as they arrive.

    python -m benchmarks.measure.presets --out benchmarks/results/h200 quick grade ladder
    python -m benchmarks.measure.presets --out /tmp/new grade=large --set '{"large": {"shapes": [4096, 8192]}}'

Without --url it starts a stack of its own, with a worker on --device. Each preset leaves <preset>.jsonl (the results,
as `benchmarks/recorded.py` stores them), <preset>.md and <preset>.html (the report, which the repository does not
keep). Presets that do not fit into --budget-s are not begun, and one that exceeds it is cancelled: its file says
`complete: false`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from benchmarks.recorded import SUFFIX, read, write
from tools.stack import Stack

POLL_S = 10.0
CANCEL_TIMEOUT_S = 30.0  # for a job that was cancelled
ENDED = ("succeeded", "failed", "cancelled")


@contextmanager
def service(url: str | None, device: str) -> Iterator[str]:
    """The address of the API. A stack of its own is stopped at the end, even if this process is told to end: a worker
    left behind would disturb the next measurement."""
    if url is not None:
        yield url
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with TemporaryDirectory() as name, Stack(Path(name), devices=(device,)) as stack:
            try:
                yield stack.url
            finally:
                print(stack.logs(tail_bytes=1500))
    finally:
        signal.signal(signal.SIGTERM, before)


def run(
    client: httpx.Client,
    name: str,
    body: dict[str, Any],
    ends_at: float,
    look: Callable[[str], None] = lambda job_id: None,
) -> dict[str, Any]:
    """Posts a benchmark. Returns the job's record once it has ended, or has run out of time and was cancelled.

    `look` is called with its id every few seconds, and at its end.
    """
    plan = client.post("/v1/benchmarks", params={"dry_run": "true"}, json=body).raise_for_status().json()
    print(f"{name}: {plan['cases']} cases, about {plan['estimate_s']:.0f} s", flush=True)
    location = client.post("/v1/benchmarks", json=body).raise_for_status().headers["location"]
    etag, job, looked_at, cancelled = "", {"state": "queued"}, time.monotonic(), False
    while True:
        headers = {"prefer": f"wait={POLL_S:g}"} | ({"if-none-match": etag} if etag else {})
        reply = client.get(location, headers=headers)
        if reply.status_code != 304:
            job, etag = reply.raise_for_status().json(), reply.headers["etag"]
        now, ended = time.monotonic(), job["state"] in ENDED
        if ended or now > looked_at + POLL_S:
            look(job["id"])
            looked_at = now
        if ended or now > ends_at + CANCEL_TIMEOUT_S:
            return job
        if now > ends_at and not cancelled:
            client.post(f"{location}/cancel").raise_for_status()
            cancelled = True


def save(client: httpx.Client, job_id: str, stem: Path) -> None:
    save_results(client, stem, job_id)
    for suffix, media_type in ((".md", "text/markdown"), (".html", "text/html")):
        _save(client, f"/v1/benchmarks/{job_id}/report", media_type, stem.with_suffix(suffix))


def save_results(client: httpx.Client, stem: Path, job_id: str) -> None:
    """Saves the results so far: an interrupted run leaves what it measured."""
    write(stem.with_suffix(SUFFIX), client.get(f"/v1/benchmarks/{job_id}/results").raise_for_status().json())


def _save(client: httpx.Client, path: str, media_type: str, file: Path) -> None:
    """The file is complete at any moment."""
    partial_file = file.with_name(f"{file.name}.partial")
    partial_file.write_bytes(client.get(path, headers={"accept": media_type}).raise_for_status().content)
    os.replace(partial_file, file)


def tell(job: dict[str, Any], stem: Path, seconds: float) -> None:
    document = read(stem.with_suffix(SUFFIX))
    by_status: dict[str, int] = {}
    for record in document["records"]:
        by_status[record["status"]] = by_status.get(record["status"], 0) + 1
    error = f" {job['error']['detail']}" if job.get("error") else ""
    print(f"{stem.name}: {job['state']} in {seconds:.0f} s: {by_status}{error}", flush=True)
    for warning in document.get("warnings", ()):
        print(f"  {warning}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="+", help="name, or name=file for a file of another name: ladder=again")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--url")
    parser.add_argument("--device", default="gpu:0")
    parser.add_argument("--budget-s", type=float, default=3600.0)
    parser.add_argument("--set", default="{}", help="JSON: by file name, fields that override the preset's")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    ends_at = time.monotonic() + arguments.budget_s
    with (
        service(arguments.url, arguments.device) as url,
        httpx.Client(base_url=url, timeout=120, trust_env=False) as client,
    ):
        overrides = json.loads(arguments.set)
        for item in arguments.presets:
            preset, name = item.split("=") if "=" in item else (item, item)
            started = time.monotonic()
            if started > ends_at:
                print(f"{preset}: no time left", flush=True)
                continue
            stem = arguments.out / name
            look = partial(save_results, client, stem)
            job = run(client, name, {"preset": preset} | overrides.get(name, {}), ends_at, look)
            save(client, job["id"], stem)
            tell(job, stem, time.monotonic() - started)


if __name__ == "__main__":
    main()
