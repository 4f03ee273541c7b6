"""Records benchmark presets through the service itself: one POST each, results and report written as they come back.

    python -m benchmarks.presets --out benchmarks/results/h200 quick grade ladder
    python -m benchmarks.presets --out /tmp/new grade=large --set '{"large": {"shapes": [4096, 8192]}}'

Without --url a stack of its own is started, with a worker on --device. Each preset leaves <preset>.json (the results),
<preset>.md and <preset>.html (the report). What does not fit into --budget-s is not begun, and what runs over it is
cancelled: its file then says `complete: false`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from tests.support.stack import Stack

POLL_S = 10.0
PATIENCE_S = 30.0  # for a job that was cancelled
ENDED = ("succeeded", "failed", "cancelled")


@contextmanager
def service(url: str | None, device: str) -> Iterator[str]:
    """Where the API is."""
    if url is not None:
        yield url
        return
    with TemporaryDirectory() as name, Stack(Path(name), devices=(device,)) as stack:
        try:
            yield stack.url
        finally:
            print(stack.logs(tail_bytes=1500))


def run(
    client: httpx.Client,
    name: str,
    body: dict[str, Any],
    ends_at: float,
    look: Callable[[str], None] = lambda job_id: None,
) -> dict[str, Any]:
    """Posts a benchmark; the job's record once it has ended, or has run out of time and was cancelled.

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
        if ended or now > ends_at + PATIENCE_S:
            return job
        if now > ends_at and not cancelled:
            client.post(f"{location}/cancel").raise_for_status()
            cancelled = True


def save(client: httpx.Client, job_id: str, stem: Path) -> None:
    base = f"/v1/benchmarks/{job_id}"
    for suffix, path, media_type in (
        (".json", "results", "application/json"),
        (".md", "report", "text/markdown"),
        (".html", "report", "text/html"),
    ):
        reply = client.get(f"{base}/{path}", headers={"accept": media_type}).raise_for_status()
        stem.with_suffix(suffix).write_bytes(reply.content)


def tell(job: dict[str, Any], stem: Path, seconds: float) -> None:
    document = json.loads(stem.with_suffix(".json").read_bytes())
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
            job = run(client, name, {"preset": preset} | overrides.get(name, {}), ends_at)
            stem = arguments.out / name
            save(client, job["id"], stem)
            tell(job, stem, time.monotonic() - started)


if __name__ == "__main__":
    main()
