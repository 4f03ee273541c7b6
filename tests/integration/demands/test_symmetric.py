"""A matrix by its own transpose over HTTP: the service sees it by itself, and says what was computed."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from tools.harness.api import from_npy, npy

X = np.random.default_rng(63).standard_normal((70, 40)).astype(np.float32)
NPY, JSON = {"content-type": "application/x-npy"}, {"accept": "application/json"}
TURNED = {"options": '{"transpose_b": true}'}


@pytest.fixture
def stored(client: httpx.Client) -> str:
    reply = client.post("/v1/matrices", content=npy(X), headers=NPY)
    assert reply.status_code in (200, 201), reply.text
    name: str = reply.json()["id"]
    return name


@pytest.mark.parametrize("by_columns", [False, True])
def test_one_stored_matrix(client: httpx.Client, stored: str, by_columns: bool) -> None:
    asked = {"a": {"matrix": stored}, "b": {"matrix": stored}, "transpose_a": by_columns, "transpose_b": not by_columns}
    job = client.post("/v1/matmul", json=asked).json()["job"]
    n, k = X.shape[::-1] if by_columns else X.shape
    assert job["verification"]["passed"]
    assert job["why"].endswith("The product is symmetric: one triangle is computed and mirrored; gflops: n·(n+1)·k.")
    assert job["gflops"] == pytest.approx(n * (n + 1) * k / job["timing"]["kernel_ms"] / 1e6, rel=1e-2)
    c = from_npy(client.get(f"/v1/jobs/{job['id']}/product", headers={"accept": "application/x-npy"}).content)
    x = X.T if by_columns else X
    np.testing.assert_array_equal(c, c.T)
    np.testing.assert_allclose(c, x.astype(float) @ x.T, rtol=1e-4, atol=1e-4)


def test_one_random_matrix(client: httpx.Client) -> None:
    """Made twice of one seed. As docs/api.md has it."""
    x = {"random": {"shape": [300, 200], "seed": 1}}
    job = client.post("/v1/matmul", json={"a": x, "b": x, "transpose_b": True}).json()["job"]
    assert job["verification"]["passed"] and "symmetric" in job["why"]
    c = from_npy(client.get(f"/v1/jobs/{job['id']}/product", headers={"accept": "application/x-npy"}).content)
    np.testing.assert_array_equal(c, c.T)


def test_two_matrices(client: httpx.Client, stored: str) -> None:
    asked = {"a": {"matrix": stored}, "b": {"random": {"shape": [70, 40]}}, "transpose_b": True}
    job = client.post("/v1/matmul", json=asked).json()["job"]
    assert "symmetric" not in job["why"]
    assert job["gflops"] == pytest.approx(2 * 70 * 70 * 40 / job["timing"]["kernel_ms"] / 1e6, rel=1e-2)


@pytest.mark.parametrize("rows", [200, 900])
def test_one_matrix_that_came_twice(client: httpx.Client, rows: int) -> None:
    """Larger than what travels in a record: it is known by its elements, stored once, and gone with the job."""
    x = np.random.default_rng(rows).standard_normal((rows, 600)).astype(np.float32)
    parts = {name: (f"{name}.npy", npy(x)) for name in ("a", "b")}
    reply = client.post("/v1/matmul", files=parts, data=TURNED, headers=JSON)
    assert reply.status_code == 200, reply.text
    job = reply.json()["job"]
    of_a, of_b = (job["request"][name] for name in ("a", "b"))
    assert of_a == of_b and of_a["source"] == "inline" and "symmetric" in job["why"]
    c = np.array(reply.json()["c"], np.float32)
    np.testing.assert_array_equal(c, c.T)
    np.testing.assert_allclose(c, x.astype(float) @ x.T, rtol=1e-3, atol=1e-3)
    assert client.get(f"/v1/matrices/{of_a['matrix']}").status_code == 404


def test_two_matrices_that_came(client: httpx.Client) -> None:
    """Alike but for the last element."""
    x = np.random.default_rng(1).standard_normal((900, 600)).astype(np.float32)
    other = x.copy()
    other[-1, -1] += 1
    parts = {"a": ("a.npy", npy(x)), "b": ("b.npy", npy(other))}
    reply = client.post("/v1/matmul", files=parts, data=TURNED, headers=JSON)
    job = reply.json()["job"]
    assert job["request"]["a"] != job["request"]["b"] and "symmetric" not in job["why"]
    np.testing.assert_allclose(np.array(reply.json()["c"]), x.astype(float) @ other.T, rtol=1e-3, atol=1e-3)


def test_a_dry_run_plans_with_it(client: httpx.Client, stored: str) -> None:
    asked = {"a": {"matrix": stored}, "b": {"matrix": stored}, "transpose_b": True}
    told = client.post("/v1/matmul?dry_run=true", json=asked)
    assert told.status_code == 200 and "one triangle is computed" in told.json()["why"]
    whole = client.post("/v1/matmul?dry_run=true", json=asked | {"alpha": 2.0})
    assert whole.status_code == 200 and "triangle" not in whole.json()["why"]
