"""Requests that must be refused, and what their problem must say."""

from __future__ import annotations

import dataclasses
import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.bodies.sizes import in_units
from tests.support.http.bodies import npy_fields
from tools.harness.api import npy

# Limits of the server that they are sent to.
MAX_BODY, MAX_JSON, MAX_MATRIX = 2 << 20, 64 << 10, 256 << 10
NPY, TENSORS, OCTETS = "application/x-npy", "application/x-safetensors", "application/octet-stream"
F32 = np.float32
UNKNOWN_ID, LONG = "0" * 64, {"k" * 9999: 1}


@dataclass
class Case:
    """A request, and what its problem must be: status, type, words of the sentence, the field."""

    id: str
    status: int
    kind: str
    words: str
    field: str | None = None
    json: Any = None
    content: bytes | None = None
    files: dict[str, Any] | None = None
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    path: str = "/v1/matmul"


def lying(descr: str, shape: tuple[int, ...], elements: bytes = b"") -> bytes:
    """An .npy file whose header promises what does not follow."""
    return npy_fields(repr(descr), shape=repr(shape), elements=elements)


def bare(text: str) -> dict[str, Any]:
    """Body that no JSON encoder writes."""
    return {"content": text.encode(), "headers": {"content-type": "application/json"}}


def lists(a: Any, b: Any, **options: Any) -> dict[str, Any]:
    return {"json": {"a": a, "b": b, **options}}


def two_files(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], **options: Any) -> dict[str, Any]:
    parts: dict[str, Any] = {"a": npy(a), "b": npy(b)}
    return {"files": parts | ({"options": (None, json.dumps(options), "application/json")} if options else {})}


def one_file(body: bytes) -> dict[str, Any]:
    return {"files": {"a": body, "b": npy(np.ones((2, 2), F32))}}


def tensors(header: Any, data: bytes = b"") -> dict[str, Any]:
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return {"content": struct.pack("<Q", len(text)) + text + data, "headers": {"content-type": TENSORS}}


def tensor(begin: int, end: int, shape: tuple[int, ...] = (2, 2), dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


ROW = [[1, 2]]
COLUMN = [[1], [2]]
OK = lists(ROW, COLUMN)["json"]

SHAPES = [
    Case("mismatch", 422, "shape_mismatch", "a is 1×2 but b is 1×2", "b", **lists(ROW, ROW)),
    Case(
        "mismatch transposed", 422, "shape_mismatch", "b transposed is 1×2", "b", **lists(ROW, COLUMN, transpose_b=True)
    ),
    Case("1-D", 422, "invalid_matrix", "a is 1-D", "a", **lists([1, 2], COLUMN)),
    Case(
        "integer past 64 bits",
        422,
        "invalid_request",
        "a.random.seed is 1e+30, which is too large",
        "a.random.seed",
        **lists({"random": {"shape": [1, 2], "seed": 10**30}}, COLUMN),
    ),
    Case("4-D", 422, "invalid_matrix", "too deep", "b", **lists(ROW, [[[[1]]]])),
    Case("empty list", 422, "invalid_matrix", "b is 1-D", "b", **lists(ROW, [])),
    Case("1-D file", 422, "invalid_matrix", "2 axes", "a", **one_file(npy(np.ones(3, F32)))),
    Case("4-D file", 422, "invalid_matrix", "4", "a", **one_file(npy(np.ones((1, 1, 1, 1), F32)))),
    Case("no rows", 422, "shape_mismatch", "empty", "a", **two_files(np.ones((0, 2), F32), np.ones((2, 2), F32))),
    Case("no columns", 422, "shape_mismatch", "empty", "b", **two_files(np.ones((2, 2), F32), np.ones((2, 0), F32))),
    Case("batches", 422, "shape_mismatch", "batch of 2", "b", **lists([ROW] * 2, [COLUMN] * 3)),
    Case("huge product", 422, "invalid_matrix", "largest", **lists([[1]] * 600, [[1] * 600])),
]
NUMBERS = [
    Case("ragged", 422, "invalid_matrix", "b[1] has 1", "b[1]", **lists(ROW, [[1, 2], [3]])),
    Case("ragged batch", 422, "invalid_matrix", "a[1][0]", "a[1][0]", **lists([ROW, [[1]]], COLUMN)),
    Case("string", 422, "invalid_matrix", 'a[0][1] is "1.5"', "a[0][1]", **lists([[1, "1.5"]], COLUMN)),
    Case("boolean", 422, "invalid_matrix", "a[0][0] is true", "a[0][0]", **lists([[True, 2]], COLUMN)),
    Case("null", 422, "invalid_matrix", "null", "b[1][0]", **lists(ROW, [[1], [None]])),
    Case("object", 422, "invalid_matrix", "an object", "b[1][0]", **lists(ROW, [[1], [{}]])),
    Case("deeper list", 422, "invalid_matrix", "a list", "b[1][0]", **lists(ROW, [[1], [[2]]])),
    Case("number for a row", 422, "invalid_matrix", "b[1] is 2", "b[1]", **lists(ROW, [[1], 2])),
    Case("bare NaN", 422, "invalid_matrix", "NaN", "b[1][0]", **bare('{"a": [[1, 2]], "b": [[1], [NaN]]}')),
    Case(
        "bare -Infinity", 422, "invalid_matrix", "-Infinity", "a[0][1]", **bare('{"a":[[1,-Infinity]],"b":[[1],[1]]}')
    ),
    Case("past float64", 422, "invalid_matrix", "1e400", "a[0][0]", **bare('{"a": [[1e400, 2]], "b": [[1], [2]]}')),
    Case("past float32", 422, "invalid_matrix", "too large", "a[0][0]", **lists([[1e39, 2]], COLUMN)),
    Case("past float16", 422, "invalid_matrix", "float16", "a[0][0]", **lists([[65520, 2]], COLUMN, dtype="float16")),
    Case(
        "past bfloat16", 422, "invalid_matrix", "bfloat16", "a[0][0]", **lists([[3.4e38, 2]], COLUMN, dtype="bfloat16")
    ),
    Case("past float8", 422, "invalid_matrix", "large", "a[0][0]", **lists([[465, 2]], COLUMN, dtype="float8_e4m3")),
    Case("past int8", 422, "invalid_matrix", "-128 to 127", "b[0][0]", **lists(ROW, [[128], [1]], dtype="int8")),
    Case("fraction", 422, "invalid_matrix", "whole", "b[0][0]", **lists(ROW, [[1.5], [1]], dtype="int32")),
    Case("no NaN in int32", 422, "invalid_matrix", "int32", "b[0][0]", **lists(ROW, [["NaN"], [1]], dtype="int32")),
]
OPTIONS = [
    Case(
        "unknown field",
        422,
        "invalid_request",
        "There is no field transpose_c; there are: a, b, c, bias, scale_a, scale_b, kernel,",
        "transpose_c",
        **lists(ROW, COLUMN, transpose_c=True),
    ),
    Case("unknown dtype", 422, "unsupported_dtype", "float32", "dtype", **lists(ROW, COLUMN, dtype="float128")),
    Case(
        "mixed dtypes",
        422,
        "unsupported_dtype",
        "a is float32 but b is float64",
        "b",
        **two_files(np.ones((2, 2), F32), np.ones((2, 2))),
    ),
    Case(
        "dtype of files",
        422,
        "unsupported_dtype",
        "leave it out",
        "dtype",
        **two_files(np.ones((2, 2), F32), np.ones((2, 2), F32), dtype="float64"),
    ),
    Case("unknown kernel", 422, "unknown_kernel", "magic", "kernel", **lists(ROW, COLUMN, kernel="magic")),
    Case(
        "kernel that takes no int32",
        422,
        "unsupported_dtype",
        "cublas",
        "kernel",
        **lists(ROW, COLUMN, kernel="cublas", dtype="int32"),
    ),
    Case("accuracy", 422, "invalid_request", "fp64", "accuracy", **lists(ROW, COLUMN, accuracy="fp64")),
    Case(
        "accuracy of a kernel",
        422,
        "invalid_request",
        "naive",
        "accuracy",
        **lists(ROW, COLUMN, kernel="naive", accuracy="fp64"),
    ),
    Case(
        "config value",
        422,
        "invalid_config",
        "allowed values",
        "config",
        **lists(ROW, COLUMN, kernel="shared_tiled", config={"tile": 7}),
    ),
    Case(
        "config constraint",
        422,
        "invalid_config",
        "between 32 and 1024",
        "config",
        **lists(ROW, COLUMN, kernel="naive", config={"block_m": 1, "block_n": 8}),
    ),
    Case(
        "config name",
        422,
        "invalid_config",
        "block_q",
        "config",
        **lists(ROW, COLUMN, kernel="naive", config={"block_q": 1}),
    ),
    Case(
        "config without kernel",
        422,
        "invalid_config",
        "name that kernel",
        "config",
        **lists(ROW, COLUMN, config={"tile": 8}),
    ),
    Case(
        "config of true",
        422,
        "invalid_request",
        "config.tile",
        "config.tile",
        **lists(ROW, COLUMN, kernel="shared_tiled", config={"tile": True}),
    ),
    Case("transpose of 1", 422, "invalid_request", "transpose_a", "transpose_a", **lists(ROW, COLUMN, transpose_a=1)),
    Case("long field", 422, "invalid_request", f"no field '{'k' * 40}';", f"'{'k' * 40}'", **lists(ROW, ROW, **LONG)),
    Case("odd field", 422, "invalid_request", r"no field 'k\n';", r"'k\n'", **lists(ROW, ROW, **{"k\n": 1})),
    Case("long kernel", 422, "unknown_kernel", f"kernel '{'k' * 40}';", "kernel", **lists(ROW, ROW, kernel="k" * 9999)),
    Case("verify", 422, "invalid_request", "freivalds", "verify", **lists(ROW, COLUMN, verify="maybe")),
    Case(
        "no live worker",
        409,
        "no_worker_for_kernel",
        "served now: cpu_blas",
        "kernel",
        **lists(ROW, COLUMN, kernel="naive"),
    ),
    Case("unknown matrix", 404, "matrix_not_found", "upload it again", "a", **lists({"matrix": UNKNOWN_ID}, COLUMN)),
    Case("odd matrix id", 404, "matrix_not_found", "no matrix", "b", **lists(ROW, {"matrix": "../x"})),
    Case(
        "matrix and more",
        422,
        "invalid_request",
        "a.more",
        "a.more",
        **lists({"matrix": UNKNOWN_ID, "more": 1}, COLUMN),
    ),
    Case("missing operand", 422, "invalid_request", "b is missing", "b", json={"a": ROW}),
    Case("operand of a kind", 422, "invalid_request", "a must be", "a", **lists("matrix", COLUMN)),
    Case(
        "random without shape", 422, "invalid_request", "a.random.shape", "a.random.shape", **lists({"random": {}}, ROW)
    ),
    Case("random 1-D", 422, "invalid_matrix", "axes", "a.random.shape", **lists({"random": {"shape": [4]}}, ROW)),
    Case(
        "random negative",
        422,
        "invalid_matrix",
        "negative",
        "a.random.shape",
        **lists({"random": {"shape": [-4, 2]}}, COLUMN),
    ),
    Case(
        "random huge",
        422,
        "invalid_matrix",
        "largest",
        "a.random.shape",
        **lists({"random": {"shape": [1, 10**9]}}, COLUMN),
    ),
    Case(
        "random past 2^64",
        422,
        "invalid_matrix",
        "2^63",
        "a.random.shape",
        **lists({"random": {"shape": [10**15, 10**15]}}, COLUMN),
    ),
    Case(
        "random seed",
        422,
        "invalid_request",
        "seed",
        "a.random.seed",
        **lists({"random": {"shape": [2, 2], "seed": -1}}, COLUMN),
    ),
    Case(
        "random normal integers",
        422,
        "invalid_request",
        "int8",
        "a.random.distribution",
        **lists({"random": {"shape": [2, 2], "dtype": "int8"}}, COLUMN),
    ),
]
JSON_BODIES = [
    Case("empty", 400, "malformed_body", "empty", **bare("")),
    Case("not JSON", 400, "malformed_body", "not JSON", **bare("{a: 1}")),
    Case("cut off", 400, "malformed_body", "not JSON", **bare('{"a": [[1')),
    Case("two documents", 400, "malformed_body", "not JSON", **bare("{} {}")),
    Case("a list", 422, "invalid_request", "object", **bare("[]")),
    Case("too deep", 400, "malformed_body", "not JSON", **bare('{"a":' + "[" * 5000 + "]" * 5000 + "}")),
    Case(
        "not UTF-8",
        400,
        "malformed_body",
        "not JSON",
        content=b'{"a": "\xff"}',
        headers={"content-type": "application/json"},
    ),
    Case(
        "over the limit",
        413,
        "body_too_large",
        f"{in_units(MAX_JSON)} taken here; JSON is for small matrices, so send .npy",
        **bare(" " * (MAX_JSON + 1)),
    ),
]
REQUESTS = [*SHAPES, *NUMBERS, *OPTIONS, *JSON_BODIES]
