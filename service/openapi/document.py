"""The OpenAPI document: FastAPI's description of the routes, plus the manual's schemas, security and HEAD
operations.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from service.http.security import OPEN_PATHS
from service.openapi.manual.parts import MODELS

DESCRIPTION = """\
Matrix products over HTTP, on GPUs and CPUs, every product checked.

**A product** is one POST: `POST /v1/matmul` with both operands, and the product comes back. Small matrices may be
nested JSON lists; others are sent as `.npy` files or safetensors, or stored once (`POST /v1/matrices`) and named by id.

**A benchmark** is one POST too: `POST /v1/benchmarks` with a spec, or the name of a preset. The job that it starts then
has results, plots, comparisons with other runs and a report.

**A job** is created for each. If it takes longer than the caller waits, the answer is 202 with the job's Location: poll
it, follow its events, fetch its product, cancel it, or retry it.

**Words**: A (m×k) times B (k×n) gives C (m×n); a batch axis may lead. A *kernel* is one way to multiply; its *config*
holds its tile parameters. GFLOPS = 2·m·n·k / seconds / 10⁹. Units are in names: `kernel_ms`, `bytes`.

**Errors** are `application/problem+json` with a stable `type`. **Keys**: `Authorization: Bearer <key>` or `X-API-Key`;
a key sees only its own jobs and matrices. Its role is `reader` (GET and HEAD only), `submitter`, or `operator`, which
can also see and cancel everyone's jobs. A server that only its own machine can reach may require no key.
"""
TAGS = [
    {"name": "matmul", "description": "Multiply."},
    {"name": "benchmarks", "description": "Measure kernels, and write reports."},
    {"name": "jobs", "description": "Records, products and events of requests."},
    {"name": "matrices", "description": "Operands that are stored once, by contents, and used in many products."},
    {"name": "kernels", "description": "The ways to multiply."},
    {"name": "published", "description": "Recorded results of this project and of others, for comparison."},
    {"name": "devices", "description": "Live workers and their devices."},
    {"name": "operations", "description": "Pause queues, drain workers, list dead letters."},
    {"name": "probes", "description": "Probes and metrics, for operators."},
]
SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key: `Authorization: Bearer mm_…`."},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key in a header."},
}
HEAD_PATHS = ("/v1/matrices/{matrix_id}", "/v1/jobs/{job_id}/product")  # every GET has HEAD; useful only here
RANGE_HEADERS, RANGE_STATUSES = frozenset({"Range", "If-Range"}), frozenset({"206", "416"})  # of GET alone


def make_document(app: FastAPI) -> dict[str, Any]:
    """The document of the application's routes."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary="Multiply matrices over REST.",
        description=DESCRIPTION,
        routes=app.routes,
        tags=TAGS,
        servers=[{"url": "/", "description": "This server."}],
    )
    components = document.setdefault("components", {})
    components["securitySchemes"] = SECURITY_SCHEMES
    components["schemas"] = components.get("schemas", {}) | _schemas()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            operation["security"] = [] if path in OPEN_PATHS else [{"bearer": []}, {"header": []}, {}]
    for path in HEAD_PATHS:
        document["paths"][path]["head"] = _head_of(document["paths"][path]["get"])
    return document


def _schemas() -> dict[str, Any]:
    _, definitions = TypeAdapter.json_schemas(
        [(name, "validation", TypeAdapter(model)) for name, model in MODELS.items()],
        ref_template="#/components/schemas/{model}",
    )
    return dict(definitions["$defs"])


def _head_of(get: dict[str, Any]) -> dict[str, Any]:
    """The same operation without bodies and ranges."""
    head = deepcopy(get)
    head["operationId"] = get["operationId"].replace("get_", "head_")
    head["summary"] = f"{get['summary']}: headers alone"
    head["parameters"] = [each for each in head["parameters"] if each["name"] not in RANGE_HEADERS]
    head["responses"] = {status: each for status, each in head["responses"].items() if status not in RANGE_STATUSES}
    for response in head["responses"].values():
        response.pop("content", None)
    return head
