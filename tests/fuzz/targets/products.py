"""Bodies that ask for a product: JSON, multipart, safetensors, and the form of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import orjson
from safetensors.numpy import save

from jobs.formats.npy import npy_header
from jobs.requests.operands import RandomSpec
from service.bodies.json import JsonReader
from service.bodies.matmul_multipart import MultipartReader
from service.bodies.options import JobRef, MatmulOptions, MatrixRef
from service.bodies.reader import MatmulInput, OpenUpload, Operand, Reader
from service.bodies.safetensors import SafetensorsReader
from service.bodies.uploads import Upload
from service.dashboard.multiply.body import FormReader
from tests.fuzz.target import Target, same_however_cut
from tests.fuzz.targets.matrices import JSON_WORDS, A, elements_of, uploads

CONTENT_TYPE = "multipart/form-data; boundary=X"
JOB = "job_" + "0" * 32
Told = tuple[MatmulOptions, dict[str, Any]]


def _told(asked: MatmulInput) -> Told:
    return asked.options, {name: _operand(operand) for name, operand in asked.operands.items()}


def _operand(operand: Operand) -> Any:
    if isinstance(operand, Upload):
        return operand.dtype, operand.shape, elements_of(operand)
    return operand


def _read(make: Callable[[OpenUpload], Reader[MatmulInput]], feed: Iterable[bytes]) -> Told:
    reader = make(uploads().open)
    try:
        for piece in feed:
            reader.feed(piece)
        return _told(reader.finish())
    finally:
        reader.close()


def _target(make: Callable[[OpenUpload], Reader[MatmulInput]]) -> Callable[[bytes], object]:
    """Takes what it reads however it is cut; options and references are read again as they are written."""

    def run(data: bytes) -> None:
        options, operands = same_however_cut(lambda feed: _read(make, feed), data)
        assert MatmulOptions.model_validate_json(options.model_dump_json()) == options
        for operand in operands.values():
            if isinstance(operand, MatrixRef | JobRef | RandomSpec):
                assert type(operand).model_validate_json(operand.model_dump_json()) == operand

    return run


def _json(open_upload: OpenUpload) -> Reader[MatmulInput]:
    return JsonReader(open_upload)


def _multipart(open_upload: OpenUpload) -> Reader[MatmulInput]:
    return MultipartReader(CONTENT_TYPE, open_upload, lambda asked: None, None)


def _safetensors(open_upload: OpenUpload) -> Reader[MatmulInput]:
    return SafetensorsReader(open_upload, lambda asked: None, body_bytes=None, staging_dir=None)


def _form(open_upload: OpenUpload) -> Reader[MatmulInput]:
    return FormReader(CONTENT_TYPE, open_upload, None)


def _json_seeds() -> Iterator[bytes]:
    a, b = [[1, 2], [3, 4.5]], [["NaN", 1], [2, 3]]
    yield orjson.dumps({"a": a, "b": b})
    yield orjson.dumps({"a": a, "b": b, "c": a, "alpha": 2, "beta": 0.5, "dtype": "float64", "verify": "off"})
    yield orjson.dumps({"a": {"matrix": "f" * 64}, "b": {"job": JOB}, "kernel": "naive", "config": {"block_m": 16}})
    yield orjson.dumps({"a": {"random": {"shape": [3, 2], "seed": 1}}, "b": {"random": {"shape": [2, 3]}}, "c": None})
    yield orjson.dumps({"a": [a], "b": [b], "transpose_a": True, "accuracy": "fp32"})
    yield orjson.dumps({"a": a, "b": b, "bias": [1, "NaN"], "activation": "gelu", "output_dtype": "float16"})


def _multipart_body(parts: dict[str, bytes]) -> bytes:
    pieces = (
        b'--X\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (k.encode(), v) for k, v in parts.items()
    )
    return b"".join((*pieces, b"--X--\r\n"))


def _npy(array: np.ndarray[Any, Any]) -> bytes:
    return npy_header("float32", array.shape) + array.tobytes()


def _multipart_seeds() -> Iterator[bytes]:
    yield _multipart_body({"a": _npy(A), "b": _npy(A), "options": b'{"transpose_b": true}'})
    options = b'{"b": {"random": {"shape": [3, 2]}}, "beta": 2}'
    yield _multipart_body({"options": options, "a": _npy(A), "c": _npy(A)})
    typed = (
        b'--X\r\ncontent-type: application/x-npy\r\nContent-Disposition: form-data; name=a; filename="x\\"y"\r\n\r\n'
    )
    yield typed + _npy(A) + b"\r\n" + _multipart_body({"b": _npy(A)})


def _safetensors_seeds() -> Iterator[bytes]:
    yield save({"a": A, "b": A}, {"options": '{"kernel": "auto", "transpose_b": true}'})
    yield save({"a": A, "b": A, "c": A})


def _form_seeds() -> Iterator[bytes]:
    yield _multipart_body({"source": b"pasted", "a": b"1 2\n3, 4", "b": b"NaN 1e3\n-.5 +7", "config": b"block_m 64"})
    yield _multipart_body({"source": b"random", "m": b"3", "n": b"4", "k": b"5", "seed_c": b"7", "alpha": b"2"})
    yield _multipart_body({"source": b"stored", "matrix_a": b"f" * 64, "matrix_b": b"c_" + b"0" * 32 + b"_1"})
    yield _multipart_body({"source": b"files", "file_a": _npy(A), "file_b": _npy(A), "token": b"t"})
    yield _multipart_body({"file_a": save({"a": A, "b": A}), "source": b"files", "transpose_a": b"on"})


OPTION_WORDS = tuple(f'"{name}"'.encode() for name in MatmulOptions.model_fields)
PART_WORDS = (b"\r\n--X\r\n", b"--X--", b"Content-Disposition: form-data; name=", b'"a"', b'"options"', b"\r\n\r\n")
TARGETS = (
    Target("json_product", _target(_json), _json_seeds, (*JSON_WORDS, *OPTION_WORDS, b'"matrix"', b'"job"')),
    Target("multipart", _target(_multipart), _multipart_seeds, PART_WORDS),
    Target("safetensors_product", _target(_safetensors), _safetensors_seeds, OPTION_WORDS),
    Target("multiply_form", _target(_form), _form_seeds, (*PART_WORDS, b'"source"', b"pasted", b'"file_a"')),
)
