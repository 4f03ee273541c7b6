"""What a user would write in twenty lines: `python -m benchmarks.peers.minimal cupy 8200`, or with numpy on a CPU.

One process; raw float32 in, raw float32 out; no queue, no check, no record.
"""

from __future__ import annotations

import importlib
import sys

import numpy as np
import uvicorn
from fastapi import FastAPI, Request, Response

xp = importlib.import_module(sys.argv[1])
api = FastAPI()


@api.post("/{m}/{k}/{n}")
async def matmul(m: int, k: int, n: int, request: Request) -> Response:
    elements = np.frombuffer(await request.body(), np.float32)
    a, b = xp.asarray(elements[: m * k].reshape(m, k)), xp.asarray(elements[m * k :].reshape(k, n))
    c = a @ b
    return Response((c.get() if xp.__name__ == "cupy" else c).tobytes(), media_type="application/octet-stream")


uvicorn.run(api, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
