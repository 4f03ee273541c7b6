"""POST /v1/benchmarks: presets, specs, bounds, devices, keys. No worker takes them up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobs.benchmarks.presets import PRESETS
from jobs.models import new_id
from jobs.queue import bench_queue
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import Settings
from tests.integration.api.test_jobs import problem
from tests.support.prompt import within
from tools.harness.api import FAKE_TTL_S, Api, running_api, until, worker_info
from tools.harness.benchmarks import H200

SPEC: dict[str, Any] = {"kernels": ["cpu_blas"], "shapes": [16, 32], "timing": {"rounds": 3}}
GPU = worker_info("gpu-0", kernels=("naive", "cublas", "register_tiled"), **H200.model_dump())
RUGGED = {"block_m": 64, "block_n": 96}  # of no kernel's values


def post(client: httpx.Client, body: Any, **params: str) -> httpx.Response:
    return client.post("/v1/benchmarks", json=body, params=params)


def dry(client: httpx.Client, body: Any) -> dict[str, Any]:
    reply = post(client, body, dry_run="true")
    assert reply.status_code == 200, reply.text
    told: dict[str, Any] = reply.json()
    return told


@pytest.fixture(scope="module")
def gpu_api(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """An API where an H200 is live beside the CPU."""
    with running_api(valkey, f"{new_id('gpu')}:", tmp_path_factory.mktemp("gpu")) as running:
        running.registry.beat(GPU, FAKE_TTL_S)
        yield running


@pytest.fixture
def with_gpu(gpu_api: Api) -> Iterator[httpx.Client]:
    with gpu_api.client() as client:
        yield client


# ---- what is recorded ----
def test_a_benchmark_is_a_job(api: Api, quiet: httpx.Client) -> None:
    reply = post(quiet, SPEC | {"title": "Two sizes"})
    assert reply.status_code == 202
    record = reply.json()["job"]
    assert reply.headers["location"] == f"/v1/jobs/{record['id']}"
    assert int(reply.headers["retry-after"]) >= 1
    assert (record["kind"], record["state"], record["benchmark"]) == ("benchmark", "queued", None)
    assert record["request"]["shapes"] == [16, 32]
    assert record["request"]["timing"]["rounds"] == 3
    assert quiet.get(reply.headers["location"]).json() == record
    job = api.ledger.get(record["id"])
    assert (job.queue, job.timeout_s) == (bench_queue("A CPU"), Settings().benchmark_timeout_s)
    for query in ({"kind": "benchmark"}, {"q": "two sizes"}):
        assert record["id"] in {job["id"] for job in quiet.get("/v1/jobs", params=query).json()["jobs"]}
    assert record["id"] not in {job["id"] for job in quiet.get("/v1/jobs?kind=matmul").json()["jobs"]}
    refused = problem(quiet.get(f"/v1/jobs/{record['id']}/product"), 409, "wrong_state")
    assert f"/v1/benchmarks/{record['id']}/results" in refused["detail"]


def test_one_item_stands_for_a_list_of_one(quiet: httpx.Client) -> None:
    spec = dry(quiet, {"kernels": "cpu_blas", "shapes": {"m": 1, "n": 2, "k": 3}, "dtypes": "float64"})["spec"]
    assert (spec["kernels"], spec["shapes"], spec["dtypes"]) == (["cpu_blas"], [{"m": 1, "n": 2, "k": 3}], ["float64"])
    assert dry(quiet, {"shapes": 64})["spec"]["kernels"] == "ladder"


def test_a_dry_run_makes_no_job(api: Api, quiet: httpx.Client) -> None:
    before = api.ledger.counts()
    told = dry(quiet, SPEC)
    assert api.ledger.counts() == before
    assert (told["cases"], told["measurements"], told["skipped"], told["device"]) == (2, 6, 0, "A CPU")
    assert told["flops"] == (2 * 16**3 + 2 * 32**3) * 3 * told["spec"]["timing"]["min_samples"]
    assert told["estimate_s"] > 0
    assert told["spec"]["verify"] == "freivalds"


def test_what_does_not_fit_is_counted_as_skipped(with_gpu: httpx.Client) -> None:
    told = dry(with_gpu, {"device": "gpu", "kernels": ["naive"], "shapes": [1 << 18], "baseline": "none"})
    assert (told["cases"], told["skipped"], told["flops"]) == (1, 1, 0.0)


def test_a_key_makes_one_job(quiet: httpx.Client) -> None:
    key = {"idempotency-key": new_id("key")}
    first = quiet.post("/v1/benchmarks", json=SPEC, headers=key)
    again = quiet.post("/v1/benchmarks", json=dict(reversed(SPEC.items())), headers=key)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (202, "true")
    assert again.json()["job"]["id"] == first.json()["job"]["id"]
    other = quiet.post("/v1/benchmarks", json=SPEC | {"verify": "full"}, headers=key)
    problem(other, 422, "idempotency_key_reused")


# ---- presets ----
def test_presets_are_listed(quiet: httpx.Client) -> None:
    listed = quiet.get("/v1/benchmarks").json()["presets"]
    assert [one["name"] for one in listed] == list(PRESETS)
    for one in listed:
        assert (one["spec"]["preset"], one["device"]) == (one["name"], "A CPU")
        assert one["estimate_s"] > 0


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_accepted_on_a_cpu(quiet: httpx.Client, name: str) -> None:
    told = dry(quiet, {"preset": name})
    assert (told["spec"]["preset"], told["skipped"]) == (name, 0)
    assert told["cases"] > 0 or told["spec"]["kind"] == "ceilings"


def test_fields_replace_a_presets(quiet: httpx.Client) -> None:
    plain = dry(quiet, {"preset": "quick"})["spec"]
    spec = dry(quiet, {"preset": "quick", "shapes": [48], "timing": {"rounds": 2}, "title": "Mine"})["spec"]
    assert (spec["shapes"], spec["title"], spec["preset"]) == ([48], "Mine", "quick")
    assert spec["timing"] == plain["timing"] | {"rounds": 2}
    assert dry(quiet, spec)["spec"] == spec  # what was resolved may be sent again
    assert dry(quiet, {"preset": None, "shapes": [48]})["spec"]["preset"] is None


def test_a_preset_on_a_gpu_has_its_own_kernels(with_gpu: httpx.Client) -> None:
    told = dry(with_gpu, {"preset": "config-grid", "kernels": ["register_tiled"], "baseline": "none"})
    assert (told["device"], told["cases"], told["spec"]["kernels"]) == ("NVIDIA H200", 7, ["register_tiled"])
    cpu = dry(with_gpu, {"preset": "config-grid", "device": "cpu"})
    assert (cpu["device"], cpu["spec"]["kernels"]) == ("A CPU", "ladder")


def test_a_presets_kernels_are_taken_where_some_of_them_run(with_gpu: httpx.Client) -> None:
    told = dry(with_gpu, {"preset": "quick"})
    assert told["device"] == "NVIDIA H200"
    assert dry(with_gpu, told["spec"]) == told
    named = [*told["spec"]["kernels"], "split_k"]
    problem(post(with_gpu, {"preset": "quick", "kernels": named}), 409, "no_worker_for_kernel")


# ---- devices ----
def test_a_benchmark_goes_to_who_can_do_it(gpu_api: Api, with_gpu: httpx.Client) -> None:
    for asked, device in {
        "any": "NVIDIA H200",
        "gpu": "NVIDIA H200",
        "cpu": "A CPU",
        "nvidia h200": "NVIDIA H200",
        "gpu-1": "NVIDIA H200",
        "A CPU": "A CPU",
    }.items():
        assert dry(with_gpu, {"device": asked, "shapes": [64]})["device"] == device, asked
    assert dry(with_gpu, SPEC)["device"] == "A CPU"  # the kernel that is named runs there alone
    job = post(with_gpu, {"kernels": ["naive"], "shapes": [64]}).json()["job"]
    assert gpu_api.ledger.get(job["id"]).queue == bench_queue("NVIDIA H200")


def test_one_gpu_of_several_alike_is_not_singled_out(gpu_api: Api, with_gpu: httpx.Client) -> None:
    device = H200.model_copy(update={"uuid": "GPU-2"}).model_dump()
    gpu_api.registry.beat(worker_info("gpu-1", kernels=("naive",), **device), FAKE_TTL_S)
    until(lambda: post(with_gpu, {"device": "GPU-1", "shapes": [64]}, dry_run="true").status_code == 409)
    refused = post(with_gpu, {"device": "gpu-2", "shapes": [64]})
    assert "2 workers run on NVIDIA H200" in problem(refused, 409, "no_worker_for_device")["detail"]
    gpu_api.registry.gone("gpu-1")
    until(lambda: post(with_gpu, {"device": "GPU-1", "shapes": [64]}, dry_run="true").status_code == 200)


@pytest.mark.parametrize("device", ["gpu", "NVIDIA T4", "GPU-9"])
def test_a_device_that_is_not_there_is_refused(quiet: httpx.Client, device: str) -> None:
    refused = problem(post(quiet, {"device": device, "shapes": [64]}), 409, "no_worker_for_device")
    assert refused["detail"] == f"No live worker runs on {device}; there are: A CPU."
    assert refused["field"] == "device"


def test_a_kernel_that_nobody_serves_is_refused(quiet: httpx.Client) -> None:
    for body in ({"kernels": ["naive"]}, {"kernels": ["cpu_blas", {"kernel": "naive"}]}):
        refused = problem(post(quiet, body | {"shapes": [64]}), 409, "no_worker_for_kernel")
        assert refused["detail"] == "No live worker serves naive; served now: cpu_blas."
    problem(post(quiet, {"preset": "quick", "kernels": ["naive"]}), 409, "no_worker_for_kernel")


def test_a_device_without_the_kernel_is_refused(with_gpu: httpx.Client) -> None:
    refused = post(with_gpu, {"device": "cpu", "kernels": ["naive"], "shapes": [64]})
    assert problem(refused, 409, "no_worker_for_kernel")["detail"] == "A CPU runs none of naive."


def test_without_workers_nothing_is_accepted(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> None:
    with running_api(valkey, key_prefix, tmp_path) as alone, alone.client() as client:
        alone.registry.gone("played")
        problem(post(client, {"preset": "quick"}), 503, "no_workers")
        problem(post(client, SPEC), 409, "no_worker_for_kernel")
        assert {one["device"] for one in client.get("/v1/benchmarks").json()["presets"]} == {None}


# ---- what is refused ----
@pytest.mark.parametrize(
    ("body", "kind", "field", "words"),
    [
        ({}, "invalid_request", "shapes", "shapes: there are none; name at least one size"),
        ({"shapes": []}, "invalid_request", "shapes", "name at least one size"),
        ({"shapes": [64], "sizes": [1]}, "invalid_request", "sizes", "There is no field sizes"),
        ({"shapes": [64], "timing": {"round": 1}}, "invalid_request", "timing.round", "timing.round"),
        ({"preset": "fast"}, "unknown_preset", "preset", "quick, grade"),
        ({"preset": 7}, "unknown_preset", "preset", "quick, grade"),
        ({"preset": "quick", "timing": {"round": 1}}, "invalid_request", "timing.round", "timing.round"),
        ({"preset": "quick", "timing": 3}, "invalid_request", "timing", "timing"),
        ({"sizes": [64]}, "invalid_request", "sizes", "There is no field sizes"),
        ({"shapes": [[64, 64, 8]]}, "invalid_request", "shapes.0", 'a shape is N, {"m": 64'),
        ({"shapes": [True]}, "invalid_request", "shapes.0", "integer"),
        ({"shapes": ["64"]}, "invalid_request", "shapes.0", "integer"),
        ({"shapes": [0]}, "invalid_request", "shapes.0", "greater"),
        ({"shapes": [-3]}, "invalid_request", "shapes.0", "greater"),
        ({"shapes": [{"m": 1, "n": 1}]}, "invalid_request", "shapes.0.k", "missing"),
        ({"shapes": [{"start": 9, "stop": 3, "step": 1}]}, "invalid_request", "shapes.0", "below start"),
        ({"shapes": [64], "kernels": ["nope"]}, "unknown_kernel", "kernels.0", "there is no kernel 'nope'"),
        ({"shapes": [64], "kernels": "nope"}, "unknown_kernel", "kernels.0", "there is no kernel 'nope'"),
        ({"shapes": [64], "kernels": [{"kernel": "no"}]}, "unknown_kernel", "kernels.0.kernel", "no kernel 'no'"),
        ({"shapes": [64], "kernels": []}, "invalid_request", "kernels", "at least 1"),
        ({"shapes": [64], "dtypes": ["float8"]}, "unsupported_dtype", "dtypes.0", "float16"),
        ({"shapes": [64], "baseline": "nope"}, "unknown_kernel", "baseline", "there is no kernel"),
        (
            {"shapes": [64], "verify": "exact"},
            "invalid_request",
            "verify",
            "verify: exact takes data.distribution integers",
        ),
        ({"shapes": [64], "timing": {"min_samples": 9, "max_samples": 3}}, "invalid_request", "timing", "below"),
        ({"shapes": [64], "configs": {"grid": {"tile": ["8"]}}}, "invalid_request", "configs.grid.tile.0", "integer"),
        ({"shapes": [64], "baseline": "naive"}, "invalid_request", "baseline", "naive runs on a GPU, not on a CPU"),
        ([1], "invalid_request", None, "object"),
    ],
)
def test_bad_specs(quiet: httpx.Client, body: Any, kind: str, field: str | None, words: str) -> None:
    for params in ({}, {"dry_run": "true"}):
        document = problem(post(quiet, body, **params), 422, kind)
        assert (document.get("field"), words in document["detail"]) == (field, True), document


def test_a_named_kernel_that_can_do_nothing_of_it_is_refused(with_gpu: httpx.Client) -> None:
    refused = post(with_gpu, {"kernels": [{"kernel": "register_tiled", "configs": [RUGGED]}], "shapes": [64]})
    assert problem(refused, 422, "invalid_config")["field"] == "kernels.0"
    refused = post(with_gpu, {"kernels": ["cublas"], "dtypes": ["int32"], "shapes": [64]})
    assert "cublas multiplies none of int32" in problem(refused, 422, "invalid_request")["detail"]


def test_too_much_is_refused_with_the_numbers(quiet: httpx.Client) -> None:
    most = Settings().max_benchmark_cases
    many = {"shapes": [{"start": 1, "stop": most // 2 + 1, "step": 1}], "timing": {"rounds": 2}}
    detail = problem(post(quiet, many), 422, "benchmark_too_large")["detail"]
    assert detail.startswith(f"The benchmark has {most + 2} measurements (cases times rounds), about ")
    assert f"at most {most}" in detail
    large = {"shapes": [1 << 17], "timing": {"min_samples": 1000, "max_samples": 1000}, "baseline": "none"}
    fits = post(quiet, large | {"device": "cpu"})
    detail = problem(fits, 422, "benchmark_too_large")["detail"]
    assert "operations at the least number of samples" in detail
    assert "1e+18" in detail
    one = {"shapes": [1 << 18], "timing": {"min_samples": 3}, "baseline": "none", "device": "cpu"}
    detail = problem(post(quiet, one), 422, "benchmark_too_large")["detail"]
    assert re.search(
        r"about [\d,]{3,} hours of work for A CPU; this server takes at most 4 in one attempt, so ", detail
    )


HUGE = list(range(1, 4097))


@pytest.mark.parametrize(
    "changes",
    [
        {"shapes": [{"m": HUGE, "n": HUGE, "k": HUGE}]},
        {"shapes": [{"start": 1, "stop": 1 << 20, "step": 1}] * 4096},
        {"shapes": [{"start": 1, "stop": 64, "count": 4096, "scale": "log2"}] * 99},
        {"configs": {"grid": {f"p{number}": list(range(9)) for number in range(5000)}}},
        {"configs": [{"block_m": 8}] * 4000, "kernels": ["cpu_blas"] * 4000},
    ],
)
def test_hostile_specs_cost_nothing(quiet: httpx.Client, changes: dict[str, Any]) -> None:
    problem(within(2.0, lambda: post(quiet, SPEC | changes, dry_run="true")), 422, "benchmark_too_large")


def test_bodies_that_are_none(quiet: httpx.Client) -> None:
    problem(quiet.post("/v1/benchmarks", json=SPEC | {"title": "x" * (1 << 19)}), 413, "body_too_large")
    problem(
        quiet.post("/v1/benchmarks", content=b"{", headers={"content-type": "application/json"}), 400, "malformed_body"
    )
    problem(
        quiet.post("/v1/benchmarks", content=b"a,b", headers={"content-type": "text/csv"}),
        415,
        "unsupported_media_type",
    )
    problem(post(quiet, SPEC, dry_run="perhaps"), 422, "invalid_request")
    problem(post(quiet, SPEC, dryrun="true"), 422, "invalid_request")
