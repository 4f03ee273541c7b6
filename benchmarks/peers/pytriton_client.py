"""Drives PyTriton with `tritonclient`, for PyTriton's own Python: `python pytriton_client.py 8100`.

Reads a JSON object per line, and answers each with a line. `{"n": 16, "count": 20}`: milliseconds of each product, one
after another. `{"n": 16, "clients": 16, "seconds": 3.0}`: products per second from this many threads, each with its own
client and one pending product.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import tritonclient.http as triton

ADDRESS = f"127.0.0.1:{sys.argv[1]}"


def product(client: triton.InferenceServerClient, a: np.ndarray, b: np.ndarray) -> None:
    inputs = []
    for name, array in (("a", a), ("b", b)):
        inputs.append(triton.InferInput(name, array.shape, "FP32"))
        inputs[-1].set_data_from_numpy(array)
    shape = client.infer("matmul", inputs).as_numpy("c").shape
    assert shape == (a.shape[0], b.shape[1]), shape


def operands(n: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(n)
    return (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))


def latencies_ms(client: triton.InferenceServerClient, n: int, count: int) -> Iterator[float]:
    a, b = operands(n)
    for _ in range(count):
        begun = time.perf_counter()
        product(client, a, b)
        yield (time.perf_counter() - begun) * 1e3


def products_per_s(n: int, clients: int, seconds: float) -> float:
    """From the moment when all clients are connected until the last reply."""
    a, b = operands(n)
    begun = Barrier(clients, action=lambda: starts.append(time.perf_counter()))
    starts: list[float] = []

    def one(_: int) -> int:
        done = 0
        with triton.InferenceServerClient(ADDRESS) as client:
            product(client, a, b)
            begun.wait()
            while time.perf_counter() < starts[0] + seconds:
                product(client, a, b)
                done += 1
        return done

    with ThreadPoolExecutor(clients) as pool:
        done = sum(pool.map(one, range(clients)))
        return done / (time.perf_counter() - starts[0])


def main() -> None:
    with triton.InferenceServerClient(ADDRESS, network_timeout=60.0) as client:
        for line in sys.stdin:
            asked = json.loads(line)
            answer = products_per_s(**asked) if "clients" in asked else list(latencies_ms(client, **asked))
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
