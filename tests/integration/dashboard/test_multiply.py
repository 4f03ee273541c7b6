"""`/ui/multiply`: forms of three kinds, what is wrong with them, and the request beside them."""

from __future__ import annotations

import html
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np
import pytest
from pydantic import SecretStr

from jobs.errors import InvalidMatrix
from jobs.formats.safetensors import safetensors_header
from jobs.redis.embedded import EmbeddedServer
from service.dashboard.multiply.body import MAX_FIELD_BYTES
from service.dashboard.multiply.typed_numbers import rows_of
from service.keys import make_key
from tests.support.http.pages import Page, assert_no_dead_links, get
from tools.harness.api import Api, from_npy, npy, running_api

A, B = np.arange(6, dtype=np.float64).reshape(2, 3), np.arange(12, dtype=np.float64).reshape(3, 4)
RANDOM = {"source": "random", "m": "3", "n": "4", "k": "5", "seed": "9"}
PASTED = {"source": "pasted", "a": "1, 2\n3 4", "b": "5\t6\r\n7 8"}
Files = dict[str, tuple[str, bytes]]


def post(client: httpx.Client, fields: dict[str, str], files: Files | None = None) -> httpx.Response:
    """As a browser sends the form: fields first, then files, all of them parts."""
    parts: list[tuple[str, Any]] = [(name, (None, value)) for name, value in fields.items()]
    return client.post("/ui/multiply", files=[*parts, *(files or {}).items()])


def job_of(client: httpx.Client, reply: httpx.Response) -> dict[str, Any]:
    """The record of the job that the form made; the page it leads to is there."""
    assert reply.status_code == 303, reply.text
    place = reply.headers["location"]
    assert client.get(place).status_code == 200
    record: dict[str, Any] = client.get(f"/v1/jobs/{place.rpartition('/')[2]}").json()
    return record


def tensors(**arrays: np.ndarray[Any, np.dtype[np.float64]]) -> bytes:
    head = safetensors_header({name: ("float64", array.shape) for name, array in arrays.items()})
    return head + b"".join(array.tobytes() for array in arrays.values())


def texts(page: Page) -> list[str]:
    """What stands under curl and Python."""
    return [html.unescape(text) for text in re.findall(r"<pre[^>]*>(.*?)</pre>", page.html, re.DOTALL)]


# ---- what is asked ----
def test_random_operands(quiet: httpx.Client) -> None:
    options = {"kernel": "cpu_blas", "dtype": "float64", "accuracy": "fp64", "transpose_a": "1"}
    request = job_of(quiet, post(quiet, RANDOM | options))["request"]
    assert (request["kernel"], request["accuracy"]) == ("cpu_blas", "fp64")
    assert (request["transpose_a"], request["transpose_b"]) == (True, False)
    assert (request["a"]["shape"], request["b"]["shape"]) == ([5, 3], [5, 4])
    assert request["a"]["dtype"] == "float64"
    assert [request[name]["random"]["seed"] for name in "ab"] == [9, 10]


def test_a_tolerance_and_the_same_bits(quiet: httpx.Client) -> None:
    options = {"tolerance": "1e-4", "tolerance_kind": "normwise"}
    asked = job_of(quiet, post(quiet, RANDOM | options))["request"]
    assert (asked["tolerance"], asked["tolerance_kind"]) == (1e-4, "normwise")
    page = quiet.get(f"/ui/multiply?{urlencode(RANDOM | options | {'reproducible': '1'})}")
    assert '"tolerance": 0.0001' in html.unescape(page.text) and 'name="reproducible" value="1" checked' in page.text
    both = post(quiet, RANDOM | {"tolerance": "1e-4", "accuracy": "fp32"})
    assert both.status_code == 422 and "accuracy and tolerance both say" in both.text


def test_pasted_operands(api: Api, quiet: httpx.Client) -> None:
    record = job_of(quiet, post(quiet, PASTED | {"dtype": "int32"}))
    job = api.claim(record["id"])
    operands = []
    for operand in job.record.operands:
        assert operand.matrix is not None
        operands.append(api.store.load(operand.matrix, operand.dtype, operand.shape).tolist())
    assert operands == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert job.record.operands[0].dtype == "int32"


@pytest.mark.parametrize(
    "files",
    [
        {"file_a": ("a.npy", npy(A)), "file_b": ("b.npy", npy(B))},
        {"file_a": ("ab.safetensors", tensors(a=A, b=B)), "file_b": ("", b"")},
        {"file_b": ("b.npy", npy(B)), "file_a": ("a.bin", npy(np.asfortranarray(A)))},
    ],
    ids=["npy", "safetensors", "other order"],
)
def test_files(api: Api, quiet: httpx.Client, files: Files) -> None:
    record = job_of(quiet, post(quiet, {"source": "files"}, files))
    for operand, sent in zip(api.claim(record["id"]).record.operands, (A, B), strict=True):
        assert operand.matrix is not None
        assert np.array_equal(api.store.load(operand.matrix, operand.dtype, operand.shape), sent)


@pytest.mark.parametrize(
    ("fields", "files"),
    [
        (RANDOM | {"seed_c": "3"}, {}),
        (PASTED | {"c": "1 0\n0 1"}, {}),
        ({"source": "files"}, {"file_a": ("a", npy(A)), "file_b": ("b", npy(B)), "file_c": ("c", npy(A @ B))}),
        ({"source": "files"}, {"file_a": ("abc", tensors(a=A, b=B, c=A @ B))}),
    ],
    ids=["random", "pasted", "npy", "safetensors"],
)
def test_c_is_added(quiet: httpx.Client, fields: dict[str, str], files: Files) -> None:
    request = job_of(quiet, post(quiet, fields | {"alpha": "0.5", "beta": "-2"}, files))["request"]
    assert (request["alpha"], request["beta"]) == (0.5, -2.0)
    assert request["c"]["shape"] == [request["a"]["shape"][0], request["b"]["shape"][1]]


def test_large_files_come_in_pieces(quiet: httpx.Client) -> None:
    big = np.ones((600, 600), np.float64)
    record = job_of(quiet, post(quiet, {"source": "files"}, {"file_a": ("a", npy(big)), "file_b": ("b", npy(big))}))
    assert record["request"]["b"]["shape"] == [600, 600]


# ---- what is wrong ----
JUNK = ("junk", b"no matrix at all")


@pytest.mark.parametrize(
    ("fields", "files", "status", "words"),
    [
        (RANDOM | {"m": "three"}, {}, 422, "m must be a whole number"),
        (RANDOM | {"seed": "-1"}, {}, 422, "seed must be a whole number from 0"),
        (RANDOM | {"kernel": "nope"}, {}, 422, "kernel: there is no kernel 'nope'"),
        (RANDOM | {"kernel": "naive"}, {}, 409, "No live worker serves naive"),
        (RANDOM | {"alpha": "half"}, {}, 422, "alpha must be a number"),
        (RANDOM | {"beta": "2"}, {}, 422, "beta is given without c"),
        (RANDOM | {"config": "large"}, {}, 422, "The tile config is a list"),
        (RANDOM | {"config": "tile 8"}, {}, 422, "A config belongs to one kernel"),
        (RANDOM | {"dtype": "int8"}, {}, 422, "The distribution normal has no int8"),
        (PASTED | {"a": "1 2\n\n3"}, {}, 422, "Line 3 of A has 1 numbers, but line 1 has 2."),
        (PASTED | {"b": "5 <b>"}, {}, 422, "Line 1 of B has “<b>” where a number belongs"),
        (PASTED | {"a": "1 2 3"}, {}, 422, "a is 1×3 but b is 2×2"),
        (PASTED | {"a": "1" * (MAX_FIELD_BYTES + 1)}, {}, 422, "A field of a form may have"),
        ({"source": "files"}, {"file_a": ("", b"")}, 422, "There is no A; choose a file"),
        ({"source": "files"}, {"file_a": JUNK}, 422, "The file for A is neither"),
        ({"source": "files"}, {"file_a": ("a", npy(A)[:-8])}, 422, "The body ends too early"),
        ({"source": "files"}, {"file_a": ("ab", tensors(a=A, b=B)), "file_b": ("b", npy(B))}, 422, "B comes twice"),
        ({"source": "files"}, {"file_a": ("a", npy(A)), "file_b": ("b", npy(A))}, 422, "a is 2×3 but b is 2×3"),
        ({"sauce": "random"}, {}, 422, "The form has no field 'sauce'"),
    ],
)
def test_a_wrong_form_is_shown_again(
    api: Api, quiet: httpx.Client, fields: dict[str, str], files: Files, status: int, words: str
) -> None:
    before, stored = api.ledger.counts(), api.stored_bytes()
    page = Page(post(quiet, fields, files), status)
    assert page.alerts[0].startswith(words)
    assert (api.ledger.counts(), api.stored_bytes()) == (before, stored)
    if fields.get("m"):
        assert f'name="m" value="{fields["m"]}"' in page.html


def test_another_sites_form_does_nothing(quiet: httpx.Client) -> None:
    reply = quiet.post("/ui/multiply", files={"source": (None, "random")}, headers={"sec-fetch-site": "cross-site"})
    assert Page(reply, 403).alerts
    assert Page(quiet.post("/ui/multiply", data={"source": "random"}), 415).alerts


@pytest.mark.parametrize("text", ["", " \n ", "1,,2", ",1", "1;2", "0x10", "1_0", "nan", "1e999", "1 2\n3", "9" * 65])
def test_pasted_text_is_read_strictly(text: str) -> None:
    with pytest.raises(InvalidMatrix):
        rows_of(text, "a")


def test_pasted_numbers() -> None:
    rows = rows_of(" 1 -2.5,+3e2\t.5\n\nNaN , 00 Infinity 1.\n", "a")
    assert rows == [[1, -2.5, 300.0, 0.5], ["NaN", 0, "Infinity", 1.0]]


# ---- the page, and its state in the URL ----
def test_the_state_is_in_the_url(quiet: httpx.Client) -> None:
    page = get(quiet, "/ui/multiply?kernel=cpu_blas&m=7&dtype=float16&transpose_b=1&distribution=uniform")
    assert '<option value="cpu_blas" selected>' in page.html
    assert 'name="m" value="7"' in page.html
    assert "<option selected>float16</option>" in page.html
    assert 'value="1" checked' in page.html
    kept = {"source": "pasted", "kernel": "cpu_blas", "transpose_b": "1", "dtype": "float16"}
    assert f"/ui/multiply?{urlencode(kept)}" in page.links
    assert_no_dead_links(quiet, page)


def test_kernels_that_nobody_serves(quiet: httpx.Client) -> None:
    """They say why; one that the address names stays picked."""
    page = get(quiet, "/ui/multiply?kernel=naive")
    assert '<option value="cublas" disabled>cublas: needs a GPU</option>' in page.html
    assert '<option value="naive" selected>naive: needs a GPU</option>' in page.html
    assert '<option value="cpu_blas">cpu_blas</option>' in page.html


def test_typed_text_is_escaped(quiet: httpx.Client) -> None:
    evil = '"></textarea><script>alert(1)</script>'
    page = get(quiet, str(httpx.URL("/ui/multiply", params={"source": "pasted", "a": evil})), 422)
    assert "&lt;/textarea&gt;&lt;script&gt;" in page.html
    assert not texts(page)
    get(quiet, str(httpx.URL("/ui/multiply", params={"source": "files", "file_a": evil})))


def test_curl_asks_for_the_same(quiet: httpx.Client) -> None:
    params = RANDOM | {"kernel": "cpu_blas", "config": "", "transpose_a": "1"}
    curl, _ = texts(get(quiet, str(httpx.URL("/ui/multiply", params=params))))
    words = shlex.split(curl.replace("\\\n", ""))
    sent = quiet.post("/v1/matmul", json=json.loads(words[words.index("-d") + 1]), headers={"prefer": "respond-async"})
    mine = job_of(quiet, post(quiet, params))
    assert sent.json()["job"]["request"] == mine["request"]


def test_with_keys(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> None:
    """The job is the key's own, and both texts read a key from the environment instead of showing it."""
    pepper = "a pepper of more than sixteen bytes"
    owner, other = (make_key(name, pepper.encode()) for name in ("owner", "other"))
    settings = {
        "auth": "on",
        "api_keys": SecretStr(f"{owner.line}\n{other.line}"),
        "api_key_pepper": SecretStr(pepper),
    }
    with running_api(valkey, key_prefix, tmp_path, **settings) as api:
        with api.client() as nobody:
            assert nobody.get("/ui/multiply").headers["location"].startswith("/ui/sign-in")
            assert post(nobody, RANDOM).status_code == 303
            assert not any(api.ledger.counts().values())
        with api.client(**{"x-api-key": owner.key}) as mine, api.client(**{"x-api-key": other.key}) as theirs:
            place = f"/ui/jobs/{job_of(mine, post(mine, RANDOM))['id']}"
            assert theirs.get(place).status_code == 404
            page = get(mine, "/ui/multiply")
    assert owner.key not in page.html
    assert all("MATMUL_API_KEY" in text for text in texts(page))


def run(text: str, directory: Path, *shell: str) -> None:
    subprocess.run([*shell, text], cwd=directory, check=True, timeout=240)


def test_files_by_program(client: httpx.Client, tmp_path: Path) -> None:
    """Both texts do what they say, against the whole service."""
    name = 'a "b; c.npy'
    (tmp_path / name).write_bytes(npy(A))
    (tmp_path / "b.npy").write_bytes(npy(B.T.copy()))
    params = {"source": "files", "file_a": name, "file_b": "b.npy", "kernel": "cpu_blas", "transpose_b": "1"}
    curl, python = texts(get(client, str(httpx.URL("/ui/multiply", params=params))))
    for text, shell in ((curl, ("bash", "-c")), (python, (sys.executable, "-c"))):
        run(text, tmp_path, *shell)
        product = tmp_path / "c.npy"
        assert np.array_equal(from_npy(product.read_bytes()), A @ B)
        product.unlink()


@pytest.mark.parametrize(
    ("a", "b", "c", "product"),
    [("a.npy", "b.npy", "c.npy", "product.npy"), ("c.npy", "product.npy", "d.npy", "product_2.npy")],
)
def test_three_files_by_program(client: httpx.Client, tmp_path: Path, a: str, b: str, c: str, product: str) -> None:
    """The product does not take the place of an operand."""
    for name, array in {a: A, b: B, c: A @ B}.items():
        (tmp_path / name).write_bytes(npy(array))
    params = {"source": "files", "file_a": a, "file_b": b, "file_c": c, "beta": "3"}
    for text, shell in zip(
        texts(get(client, str(httpx.URL("/ui/multiply", params=params)))),
        (("bash", "-c"), (sys.executable, "-c")),
        strict=True,
    ):
        run(text, tmp_path, *shell)
        assert np.array_equal(from_npy((tmp_path / product).read_bytes()), 4 * (A @ B))
        (tmp_path / product).unlink()


def test_pasted_by_program(client: httpx.Client, tmp_path: Path) -> None:
    _, python = texts(get(client, str(httpx.URL("/ui/multiply", params=PASTED))))
    run(python, tmp_path, sys.executable, "-c")
    assert from_npy((tmp_path / "c.npy").read_bytes()).tolist() == [[19, 22], [43, 50]]


def test_tensors_by_program(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "c.safetensors").write_bytes(tensors(a=A, b=B))
    params = {"source": "files", "file_a": "c.safetensors", "accuracy": "fp64"}
    page = get(client, str(httpx.URL("/ui/multiply", params=params)))
    assert "own metadata" in page.text
    run(texts(page)[0], tmp_path, "bash", "-c")
    assert (tmp_path / "product.safetensors").read_bytes().endswith((A @ B).tobytes())
