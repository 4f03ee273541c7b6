"""/v1/matrices: stored by contents, fetched in parts, forgotten."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx
import numpy as np
import pytest
from safetensors.numpy import load, save

from jobs.formats.bit_floats import narrow
from jobs.formats.safetensors import safetensors_header
from jobs.matrices.interface import content_hasher
from kernels.model.numerics import DTypeName
from tests.integration.api.test_jobs import problem
from tools.harness.api import Api, from_npy, npy

RNG = np.random.default_rng(1)
NPY, OCTETS, TENSORS = "application/x-npy", "application/octet-stream", "application/x-safetensors"


def fresh(*shape: int) -> Any:
    """A matrix that no other test stores."""
    return RNG.standard_normal(shape).astype(np.float32)


def post(quiet: httpx.Client, body: bytes, media_type: str = NPY, **headers: str) -> httpx.Response:
    return quiet.post("/v1/matrices", content=body, headers={"content-type": media_type, **headers})


def test_it_is_stored_once(quiet: httpx.Client) -> None:
    matrix = fresh(5, 3)
    first, second = post(quiet, npy(matrix)), post(quiet, npy(np.asfortranarray(matrix).astype(">f4")))
    assert (first.status_code, second.status_code) == (201, 200)
    info = first.json()
    digest = content_hasher("float32", (5, 3))
    digest.update(matrix.tobytes())
    assert info["id"] == digest.hexdigest() == second.json()["id"]
    assert {name: info[name] for name in ("dtype", "shape", "bytes")} == {
        "dtype": "float32",
        "shape": [5, 3],
        "bytes": 60,
    }
    assert info["created_at"] < info["expires_at"] <= second.json()["expires_at"]
    assert first.headers["location"] == f"/v1/matrices/{info['id']}"


def test_the_same_contents_have_one_id_in_every_form(quiet: httpx.Client) -> None:
    matrix = fresh(4, 6)
    shaped = {"x-matmul-dtype": "float32", "x-matmul-shape": "4,6"}
    replies = [
        post(quiet, npy(matrix)),
        post(quiet, save({"any name": matrix}), TENSORS),
        post(quiet, matrix.tobytes(), OCTETS, **shaped),
        quiet.post("/v1/matrices?dtype=float32&shape=4x6", content=matrix.tobytes(), headers={"content-type": OCTETS}),
        quiet.post("/v1/matrices", json={"data": matrix.tolist(), "dtype": "float32"}),
    ]
    assert len({reply.json()["id"] for reply in replies}) == 1


def test_large_ones_are_streamed(api: Api, quiet: httpx.Client) -> None:
    matrix = RNG.standard_normal((1500, 1100))
    info = post(quiet, npy(matrix)).json()
    np.testing.assert_array_equal(from_npy(quiet.get(f"/v1/matrices/{info['id']}").content), matrix)
    before = api.stored_bytes()
    problem(post(quiet, npy(matrix)[:-1]), 422, "invalid_matrix")
    assert api.stored_bytes() == before


def test_random_ones(quiet: httpx.Client) -> None:
    spec = {"shape": [30, 20], "dtype": "float64", "seed": 3, "distribution": "uniform"}
    first = quiet.post("/v1/matrices", json={"random": spec})
    assert (first.status_code, first.json()["dtype"], first.json()["shape"]) == (201, "float64", [30, 20])
    assert quiet.post("/v1/matrices", json={"random": spec}).json()["id"] == first.json()["id"]
    values = from_npy(quiet.get(first.headers["location"]).content)
    assert 0 <= values.min() < values.max() < 1
    default = quiet.post("/v1/matrices", json={"random": {"shape": [2, 2]}, "dtype": "float16"}).json()
    assert default["dtype"] == "float16"


def test_put(quiet: httpx.Client) -> None:
    one, other = fresh(2, 2), fresh(2, 2)
    digest = hashlib.sha256(b"float32:2x2\n" + one.tobytes()).hexdigest()
    headers = {"content-type": NPY}
    mismatch = quiet.put(f"/v1/matrices/{digest}", content=npy(other), headers=headers)
    problem(mismatch, 409, "digest_mismatch")
    problem(quiet.get(f"/v1/matrices/{digest}"), 404, "matrix_not_found")
    assert quiet.put(f"/v1/matrices/{digest}", content=npy(one), headers=headers).status_code == 201
    assert quiet.put(f"/v1/matrices/{digest}", content=npy(one), headers=headers).status_code == 200


@pytest.mark.parametrize("matrix_id", ["..%2f..%2fetc%2fpasswd", "0" * 63, "A" * 64, "op_1", "c_" + "0" * 32, "%00"])
def test_ids_that_are_none(quiet: httpx.Client, matrix_id: str) -> None:
    for method in ("GET", "DELETE"):
        assert quiet.request(method, f"/v1/matrices/{matrix_id}").status_code == 404
    put = quiet.put(f"/v1/matrices/{matrix_id}", content=npy(fresh(2, 2)), headers={"content-type": NPY})
    assert put.status_code == 404


def test_every_form_out(quiet: httpx.Client) -> None:
    matrix = fresh(7, 2)
    path = post(quiet, npy(matrix)).headers["location"]
    np.testing.assert_array_equal(from_npy(quiet.get(path).content), matrix)
    (tensor,) = load(quiet.get(path, headers={"accept": TENSORS}).content).values()
    np.testing.assert_array_equal(tensor, matrix)
    octets = quiet.get(path, headers={"accept": f"text/html, {OCTETS};q=0.5"})
    assert (octets.content, octets.headers["x-matmul-shape"]) == (matrix.tobytes(), "7,2")
    assert quiet.get(path, headers={"accept": "application/json"}).json()["shape"] == [7, 2]
    problem(quiet.get(path, headers={"accept": "text/html"}), 406, "not_acceptable")


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3"])
def test_what_numpy_has_no_type_for(quiet: httpx.Client, dtype: DTypeName) -> None:
    bits = narrow(fresh(3, 3), dtype)
    reply = post(quiet, safetensors_header({"x": (dtype, (3, 3))}) + bits.tobytes(), TENSORS)
    path = reply.headers["location"]
    assert quiet.get(path).headers["content-type"] == TENSORS
    assert quiet.get(path, headers={"accept": OCTETS}).content == bits.tobytes()
    problem(quiet.get(path, headers={"accept": NPY}), 406, "not_acceptable")


def test_conditions_and_ranges(quiet: httpx.Client) -> None:
    matrix = fresh(9, 9)
    path = post(quiet, npy(matrix)).headers["location"]
    head, whole = quiet.head(path), quiet.get(path)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", whole.headers["etag"])
    assert head.headers["content-length"] == str(len(whole.content))
    assert quiet.get(path, headers={"if-none-match": head.headers["etag"]}).status_code == 304
    octets = {"accept": OCTETS}
    assert quiet.get(path, headers=octets).headers["etag"] != head.headers["etag"]
    part = quiet.get(path, headers=octets | {"range": "bytes=8-15"})
    assert (part.status_code, part.content) == (206, matrix.tobytes()[8:16])


def test_delete(quiet: httpx.Client) -> None:
    path = post(quiet, npy(fresh(2, 2))).headers["location"]
    assert quiet.delete(path).status_code == 204
    for method in ("GET", "HEAD", "DELETE"):
        assert quiet.request(method, path).status_code == 404


def use(quiet: httpx.Client, matrix_id: str) -> httpx.Response:
    operand = {"matrix": matrix_id}
    return quiet.post("/v1/matmul", json={"a": operand, "b": operand}, headers={"prefer": "respond-async"})


@pytest.mark.parametrize("times", [1, 3])  # from the second time on the store is not asked before
def test_a_used_matrix_is_kept_longer(quiet: httpx.Client, times: int) -> None:
    stored = post(quiet, npy(fresh(2, 2))).json()
    path, expires = f"/v1/matrices/{stored['id']}", [stored["expires_at"]]
    for _ in range(times):
        assert use(quiet, stored["id"]).status_code == 202
        expires.append(quiet.get(path, headers={"accept": "application/json"}).json()["expires_at"])
    assert expires == sorted(set(expires))


def test_a_matrix_that_was_used_and_deleted_is_gone(quiet: httpx.Client) -> None:
    stored = post(quiet, npy(fresh(2, 2))).json()
    for _ in range(2):
        job = use(quiet, stored["id"])
        quiet.post(f"{job.headers['location']}/cancel")
    assert quiet.delete(f"/v1/matrices/{stored['id']}").status_code == 204
    problem(use(quiet, stored["id"]), 404, "matrix_not_found")


def test_what_is_wrong_with_known_matrices_is_said_as_ever(quiet: httpx.Client) -> None:
    a, b = (post(quiet, npy(fresh(*shape))).json()["id"] for shape in ((2, 3), (2, 3)))
    for operand in (a, b):
        asked = {"a": {"matrix": operand}, "b": {"matrix": operand}, "transpose_b": True}
        assert quiet.post("/v1/matmul", json=asked, headers={"prefer": "respond-async"}).status_code == 202
    answers = [quiet.post("/v1/matmul", json={"a": {"matrix": a}, "b": {"matrix": b}}) for _ in range(2)]
    assert {problem(answer, 422, "shape_mismatch")["detail"] for answer in answers} == {
        "a is 2×3 but b is 2×3: a's columns must equal b's rows."
    }


@pytest.mark.parametrize(
    ("query", "media_type", "told", "field"),
    [
        ("dtype=float64", NPY, {}, "dtype"),
        ("shape=7,2", "application/json", {}, "shape"),
        ("dtype=float64&shape=7,2", OCTETS, {"x-matmul-dtype": "float32"}, "X-Matmul-Dtype"),
        ("dtype=float32&shape=2,7", OCTETS, {"x-matmul-shape": "7,2"}, "X-Matmul-Shape"),
        ("dtype=float32", OCTETS, {"x-matmul-shape": "14"}, "X-Matmul-Shape"),
    ],
)
def test_a_type_or_shape_that_would_not_count_is_refused(
    quiet: httpx.Client, query: str, media_type: str, told: dict[str, str], field: str
) -> None:
    """A caller who names a type in the query expects it to be the matrix's."""
    matrix = np.ones((7, 2), np.float32)
    bodies = {NPY: npy(matrix), OCTETS: matrix.tobytes(), "application/json": b'{"data":[[1]]}'}
    headers = {"content-type": media_type, **told}
    reply = quiet.post(f"/v1/matrices?{query}", content=bodies[media_type], headers=headers)
    assert (reply.status_code, reply.json()["field"]) == (422, field), reply.text
