"""PyTriton with a numpy model, run by a Python of its own: `python pytriton_server.py 8100`. It needs nothing else."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


def multiply(requests: list[Any]) -> list[dict[str, Any]]:
    return [{"c": request["a"] @ request["b"]} for request in requests]


def matrix(name: str) -> Tensor:
    return Tensor(name=name, dtype=np.float32, shape=(-1, -1))


port = int(sys.argv[1])
config = TritonConfig(http_address="127.0.0.1", http_port=port, allow_grpc=False, allow_metrics=False, log_verbose=0)
with Triton(config=config) as triton:
    triton.bind(
        model_name="matmul",
        infer_func=multiply,
        inputs=[matrix("a"), matrix("b")],
        outputs=[matrix("c")],
        config=ModelConfig(batching=False),
    )
    triton.serve()
