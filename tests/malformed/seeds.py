"""Requests that are right, one of each kind, to a server that has matrices, jobs and a benchmark for them to name."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np
from safetensors.numpy import save

from tests.malformed.inference import inference_seeds
from tests.malformed.requests import Form, Request
from tools.harness.api import npy

BOUNDARY = b"XmatmulX"
TENSORS = b"application/x-safetensors"
WAIT_S = 30.0
A = np.arange(4, dtype=np.float32).reshape(2, 2)
PAGES = (
    *("/", "/docs", "/openapi.json", "/livez", "/readyz", "/metrics", "/ui/jobs", "/ui/multiply", "/ui/kernels"),
    *("/ui/devices", "/ui/devices/history?metric=clock", "/ui/published", "/ui/published/h200_roofline"),
    *("/ui/benchmarks/new", "/ui/compare", "/ui/sign-in?next=/ui/jobs", "/ui/jobs/many?action=cancel&scope=all"),
    *(
        "/ui/jobs?state=failed&kind=product&q=x&cursor=",
        "/ui/published/h200_roofline/results.csv",
        "/problems/not_found",
    ),
    *("/v1/kernels", "/v1/kernels/naive", "/v1/kernels/naive/source", "/v1/published", "/v1/published/h200_roofline"),
    *(
        "/v1/devices",
        "/v1/jobs?state=succeeded&kind=product&limit=5",
        "/v1/jobs?kernel=auto&q=abc&cursor=x",
        "/ui/static/app.css",
    ),
)


@dataclass(frozen=True, slots=True)
class Made:
    """Ids of what the server has."""

    matrix: str
    job: str
    bench: str


def seeds(url: str, headers: dict[str, str]) -> list[Request]:
    """Makes what they name, then gives them. `headers` go with each, such as a key."""
    with httpx.Client(base_url=url, headers=headers, timeout=60, verify=False) as client:
        matrix = client.post("/v1/matrices", content=npy(A), headers={"content-type": "application/x-npy"}).json()["id"]
        product = {"a": {"matrix": matrix}, "b": [[1, 2], [3, 4]]}
        job = client.post("/v1/matmul", json=product, headers={"accept": "application/json"}).json()["job"]["id"]
        bench = client.post("/v1/benchmarks", json=BENCHMARK).json()["job"]["id"]
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline and client.get(f"/v1/jobs/{bench}").json()["state"] in ("queued", "running"):
            client.get(f"/v1/jobs/{bench}", headers={"prefer": "wait=0.4"})
    requests = [request for family in FAMILIES for request in family(Made(matrix, job, bench))]
    for request in requests:
        request.headers = [(b"Host", httpx.URL(url).netloc), *request.headers]
        request.headers += [(name.encode(), value.encode()) for name, value in headers.items()]
    return requests


BENCHMARK: dict[str, Any] = {
    "kernels": ["cpu_blas"],
    "shapes": [8],
    "configs": "default",
    "timing": {"rounds": 1, "warmup_ms": 0, "min_samples": 1, "max_samples": 3, "min_time_s": 0, "timeout_s": 1},
}


def _post(target: str, body: bytes, form: Form, media_type: bytes, method: str = "POST") -> Request:
    return Request(method, target.encode(), [(b"Content-Type", media_type)], body, form)


def _json(target: str, document: Any) -> Request:
    return _post(target, json.dumps(document).encode(), "json", b"application/json")


def multipart(parts: dict[str, bytes], types: dict[str, bytes]) -> bytes:
    pieces = [
        b'--%s\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
        % (BOUNDARY, name.encode(), b"\r\nContent-Type: " + types[name] if name in types else b"", content)
        for name, content in parts.items()
    ]
    return b"".join([*pieces, b"--%s--\r\n" % BOUNDARY])


def _products(made: Made) -> list[Request]:
    files = multipart(
        {"a": npy(A), "b": npy(A), "options": b'{"kernel": "auto", "transpose_b": true}'},
        {"a": b"application/x-npy", "b": b"application/x-npy", "options": b"application/json"},
    )
    options = {"kernel": "cpu_blas", "accuracy": "fp32", "transpose_a": True, "verify": "freivalds"}
    asked = [
        _json("/v1/matmul", {"a": [[1, 2], [3, 4]], "b": [[5, 6], [7, 8]], "dtype": "float64"}),
        _json("/v1/matmul", {"a": {"matrix": made.matrix}, "b": {"job": made.job}, **options}),
        _json("/v1/matmul", {"a": {"random": {"shape": [3, 2], "seed": 1}}, "b": {"random": {"shape": [2, 3]}}}),
        _json("/v1/matmul", {"a": [[1]], "b": [[2]], "kernel": "naive", "config": {"block_m": 16, "block_n": 16}}),
        _post("/v1/matmul", files, "multipart", b"multipart/form-data; boundary=" + BOUNDARY),
        _post("/v1/matmul", save({"a": A, "b": A}), "safetensors", TENSORS),
    ]
    for request in asked[::2]:
        request.set_header(b"Prefer", b"wait=0")
    asked[3].set_header(b"Idempotency-Key", b"a key")
    return [
        *asked,
        _json("/v1/benchmarks?dry_run=true", {"preset": "quick", "shapes": ["16:64:16"]}),
        _json("/v1/benchmarks?dry_run=true", {**BENCHMARK, "title": "t", "dtypes": ["float32"], "data": {"seed": 1}}),
        _json("/v1/benchmarks", BENCHMARK),
    ]


def _matrices(made: Made) -> list[Request]:
    target = f"/v1/matrices/{made.matrix}"
    octets = _post("/v1/matrices", A.tobytes(), "octets", b"application/octet-stream")
    octets.headers += [(b"X-Matmul-Shape", b"2,2"), (b"X-Matmul-Dtype", b"float32")]
    ranged = Request("GET", target.encode(), [(b"Accept", b"application/x-npy"), (b"Range", b"bytes=0-9")])
    return [
        _json("/v1/matrices", {"data": [[1, 2], [3, "NaN"]], "dtype": "float16"}),
        _json("/v1/matrices", {"random": {"shape": [2, 3], "dtype": "int8", "seed": 3, "distribution": "uniform"}}),
        _post("/v1/matrices", npy(A), "npy", b"application/x-npy"),
        _post("/v1/matrices", save({"x": A}), "safetensors", TENSORS),
        octets,
        _post(target, npy(A), "npy", b"application/x-npy", "PUT"),
        Request("GET", target.encode(), [(b"Accept", b"application/json"), (b"If-None-Match", b'"x"')]),
        ranged,
        Request("HEAD", target.encode()),
        Request("DELETE", b"/v1/matrices/" + b"0" * 64),
    ]


def _jobs(made: Made) -> list[Request]:
    job, bench = made.job, made.bench
    return [
        Request("GET", f"/v1/jobs/{job}".encode(), [(b"Prefer", b"wait=0.1")]),
        Request(
            "GET", f"/v1/jobs/{job}/product".encode(), [(b"Accept", b"application/x-npy"), (b"Range", b"bytes=0-3")]
        ),
        Request("GET", f"/v1/jobs/{job}/events".encode(), [(b"Last-Event-ID", b"0-0")]),
        _post(f"/v1/jobs/{job}/cancel", b"", "none", b"application/json"),
        _post(f"/v1/jobs/{job}/retry", b"", "none", b"application/json"),
        Request("DELETE", f"/v1/jobs/{'0' * len(job)}".encode()),
        Request("GET", f"/v1/benchmarks/{bench}/results?format=csv".encode()),
        Request("GET", f"/v1/benchmarks/{bench}/results".encode(), [(b"Accept", b"application/json")]),
        Request("GET", f"/v1/benchmarks/{bench}/report".encode(), [(b"Accept", b"text/markdown")]),
        Request("GET", f"/ui/compare?before={bench}&after={bench}".encode()),
        Request("GET", f"/ui/benchmarks/{bench}".encode()),
        Request("GET", f"/ui/jobs/{job}".encode()),
    ]


def _forms(made: Made) -> list[Request]:
    written = b"application/x-www-form-urlencoded"
    fields = {
        "token": b"t",
        "source": b"typed",
        "a": b"1 2\n3 4",
        "b": b"1 2\n3 4",
        "kernel": b"auto",
        "dtype": b"float32",
    }
    bodies = {
        "/ui/sign-in": {"key": "mm_x_y", "next": "/ui/jobs"},
        "/ui/sign-out": {},
        "/ui/jobs/many": {"action": "cancel", "scope": "picked", "job": made.job, "state": "failed"},
        "/ui/benchmarks": {"preset": "quick", "shapes": "16:64:16, 8x8x8", "kernels": "cpu_blas", "rounds": "1"},
    }
    forms = [_post(target, urlencode(body).encode(), "urlencoded", written) for target, body in bodies.items()]
    return [
        *forms,
        _post("/ui/multiply", multipart(fields, {}), "multipart", b"multipart/form-data; boundary=" + BOUNDARY),
    ]


def _pages(made: Made) -> list[Request]:
    return [Request("GET", page.encode(), [(b"Accept", b"text/html, */*")]) for page in PAGES]


def _inference(made: Made) -> list[Request]:
    return inference_seeds(A)


# A family of routes is a row: its right requests, which are mutated.
FAMILIES: tuple[Callable[[Made], list[Request]], ...] = (_products, _inference, _matrices, _jobs, _forms, _pages)
