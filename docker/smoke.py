"""Is this service right? Multiplies over HTTP and compares with numpy.

MATMUL_URL says where the service is, MATMUL_API_KEY who asks.
"""

import io
import json
import os
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np

URL, KEY = os.environ["MATMUL_URL"], os.environ["MATMUL_API_KEY"]
TIMEOUT_S = 60.0
TOLERANCE = 1e-5  # float32 rounding over 200 terms stays far below, relative to the product's largest element


def post(body: bytes, content_type: str, accept: str, key: str | None = KEY) -> tuple[Any, bytes]:
    headers = {"Content-Type": content_type, "Accept": accept} | ({"Authorization": f"Bearer {key}"} if key else {})
    with urlopen(Request(f"{URL}/v1/matmul", body, headers), timeout=TIMEOUT_S) as reply:
        return reply.headers, reply.read()


def npy(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def multipart(parts: dict[str, bytes], boundary: str) -> bytes:
    head = '--{}\r\nContent-Disposition: form-data; name="{}"\r\nContent-Type: application/x-npy\r\n\r\n'
    encoded = [head.format(boundary, name).encode() + body + b"\r\n" for name, body in parts.items()]
    return b"".join(encoded) + f"--{boundary}--\r\n".encode()


def check_refused_without_key() -> None:
    try:
        post(b"{}", "application/json", "application/json", key=None)
    except HTTPError as refusal:
        assert refusal.code == 401, f"without a key the API answered {refusal.code}, not 401"
    else:
        raise AssertionError("without a key the API multiplied")


def check_json() -> None:
    body = json.dumps({"a": [[1, 2], [3, 4]], "b": [[5, 6], [7, 8]]}).encode()
    reply = json.loads(post(body, "application/json", "application/json")[1])
    job = reply["job"]
    assert reply["c"] == [[19, 22], [43, 50]], reply["c"]
    assert job["state"] == "succeeded" and job["verification"]["passed"], job
    print(f"2x2 in JSON: right; {job['kernel']} on {job['device']}")


def check_npy() -> None:
    random = np.random.default_rng(7)
    a, b = (random.standard_normal(shape, dtype=np.float32) for shape in ((300, 200), (200, 100)))
    body = multipart({"a": npy(a), "b": npy(b)}, "cut-here")
    headers, product = post(body, "multipart/form-data; boundary=cut-here", "application/x-npy")
    expected = a.astype(np.float64) @ b
    error = np.abs(np.load(io.BytesIO(product)) - expected).max() / np.abs(expected).max()
    assert error < TOLERANCE, f"the largest relative error is {error:.1e}"
    print(f"300x200 by 200x100 in npy: right to {error:.0e}; Server-Timing: {headers['Server-Timing']}")


check_refused_without_key()
check_json()
check_npy()
