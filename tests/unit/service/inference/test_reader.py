"""The framing of inference requests: whatever comes is read right, or refused with a sentence."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.errors import Forbidden, MatmulError
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.formats.parser import MatrixHeader
from jobs.matrices.packed import PackedMatrix
from kernels.model.numerics import DTypeName
from service.bodies.reader import Reader
from service.bodies.uploads import Upload, UploadOwner
from service.inference.body import InRegion
from service.inference.datatypes import datatype_of
from service.inference.models import find_model
from service.inference.reader import (
    MAX_HEADER_BYTES,
    BinaryInferReader,
    InferParser,
    InferRequest,
    JsonInferReader,
    header_length,
)
from service.inference.regions import OFF, Window

KINDS: tuple[DTypeName, ...] = ("float32", "float64", "float16", "bfloat16", "int8", "int32")
NUMBERS = ("float32", "float64", "int8", "int32")  # whose elements JSON carries as they are here


def open_upload(header: MatrixHeader) -> Upload:
    """One that stays in memory."""
    return Upload(cast(Any, None), header, UploadOwner("anyone", 60.0, name="op"), max_bytes=1 << 20)


def no_shared_memory(where: InRegion, *, writes: bool) -> AbstractContextManager[Window]:
    raise Forbidden(OFF)


def reader_of(body: bytes, header_bytes: int | None, *, declared: bool = True) -> Reader[InferRequest]:
    def parser(length: int) -> InferParser:
        return InferParser(
            length,
            find_model("matmul"),
            open_upload,
            lambda asked: None,
            body_bytes=len(body) if declared else None,
            is_alone=header_bytes is None,
            open_window=no_shared_memory,
        )

    return JsonInferReader(parser) if header_bytes is None else BinaryInferReader(parser(header_bytes))


def read(
    body: bytes, header_bytes: int | None, cuts: list[int] | None = None, *, declared: bool = True
) -> InferRequest:
    """What is read of it where it comes in pieces."""
    reader = reader_of(body, header_bytes, declared=declared)
    places = [0, *sorted(cut % (len(body) + 1) for cut in cuts or ()), len(body)]
    for begin, end in pairwise(places):
        reader.feed(body[begin:end])
    return reader.finish()


def framed(arrays: dict[str, Array], dtype: DTypeName, binary: set[str], **more: Any) -> tuple[bytes, int]:
    """A body, and the length of its JSON."""
    inputs, raw = [], b""
    for name, array in arrays.items():
        tensor: dict[str, Any] = {"name": name, "shape": array.shape, "datatype": datatype_of(dtype)}
        if name in binary:
            tensor["parameters"] = {"binary_data_size": array.nbytes}
            raw += array.tobytes()
        else:
            tensor["data"] = array.reshape(-1).tolist() if name == "A" else array.tolist()
        inputs.append(tensor)
    head = json.dumps({"inputs": inputs, **more}).encode()
    return head + raw, len(head)


@st.composite
def requests(draw: st.DrawFn) -> tuple[dict[str, Array], DTypeName, set[str]]:
    dtype = draw(st.sampled_from(KINDS))
    sizes = draw(st.tuples(*[st.integers(1, 5)] * 3))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    shapes = {"A": sizes[:2], "B": sizes[1:], "C": sizes[::2]}
    names = draw(st.permutations(["A", "B", *draw(st.sampled_from([(), ("C",)]))]))
    arrays = {name: rng.integers(-9, 9, shapes[name]).astype(STORAGE_DTYPES[dtype]) for name in names}
    binary = {name for name in names if dtype not in NUMBERS or draw(st.booleans())}
    return arrays, dtype, binary


@settings(max_examples=60)
@given(requests(), st.lists(st.integers(0, 2000), max_size=6), st.booleans())
def test_tensors_arrive_as_they_were_sent(
    sent: tuple[dict[str, Array], DTypeName, set[str]], cuts: list[int], declared: bool
) -> None:
    arrays, dtype, binary = sent
    body, length = framed(arrays, dtype, binary, id="x")
    found = read(body, length if binary else None, cuts, declared=declared)
    assert found.body.id == "x" and found.product.operands.keys() == {name.lower() for name in arrays}
    for name, operand in found.product.operands.items():
        assert isinstance(operand, Upload)
        elements = PackedMatrix(operand.pack()).elements(operand.dtype, operand.shape)
        assert operand.dtype == dtype and np.array_equal(elements, arrays[name.upper()])


@settings(max_examples=40)
@given(requests(), st.integers(-40, 40).filter(bool), st.booleans())
def test_a_body_of_another_length_is_refused(
    sent: tuple[dict[str, Array], DTypeName, set[str]], difference: int, declared: bool
) -> None:
    arrays, dtype, binary = sent
    body, length = framed(arrays, dtype, binary | {"A"})
    wrong = body[:difference] if difference < 0 else body + bytes(difference)
    with pytest.raises(MatmulError):
        read(wrong, length, declared=declared)
    with pytest.raises(MatmulError):
        read(body, length + difference)


FIELDS = st.sampled_from(
    ["name", "shape", "datatype", "data", "parameters", "inputs", "outputs", "id", "binary_data_size"]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["A", "B", "C", "FP32", "INT8", "\ud800"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS | st.text(max_size=5), inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=80)
@given(st.dictionaries(FIELDS, VALUES, max_size=5), st.booleans())
@example({"inputs": [{"name": "A", "shape": [1, 2**63], "datatype": "FP32", "data": []}]}, True)
def test_whatever_the_json_says_it_is_no_surprise(document: dict[str, Any], is_binary: bool) -> None:
    whole = {"name": "A", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}
    mixed = {"inputs": [whole, whole | {"name": "B"} | document], **({} if is_binary else document)}
    for each in (document, mixed):
        body = json.dumps(each).encode()
        try:
            read(body, len(body) if is_binary else None)
        except MatmulError as error:
            assert error.detail.endswith(".")


@given(st.binary(max_size=80), st.integers(0, 90))
def test_noise_is_refused(noise: bytes, length: int) -> None:
    for header_bytes in (None, length):
        with pytest.raises(MatmulError):
            read(noise, header_bytes)


@pytest.mark.parametrize("text", ["-1", "1.5", "", "ten", "²", "9" * 400, " 7", str(MAX_HEADER_BYTES + 1)])
def test_a_length_is_a_small_whole_number(text: str) -> None:
    with pytest.raises(MatmulError):
        header_length(text)


def test_one_that_says_nothing_of_its_json_has_no_raw_tensors() -> None:
    body, length = framed({"A": np.ones((1, 1)), "B": np.ones((1, 1))}, "float64", {"A"})
    with pytest.raises(MatmulError, match="Inference-Header-Content-Length"):
        read(body[:length], None)
