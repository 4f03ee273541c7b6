"""Arrays of every kind on their way to the service and back."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from matmul_client import InvalidOperand, NotFound, ServiceFailed
from matmul_client.core import matrices, products, ranges
from matmul_client.core.bodies import Reference, body_of
from matmul_client.core.elements import BodyReader, array_of, dtype_name, elements, to_array
from matmul_client.core.operands import Operand
from matmul_client.core.wire import Compute, Reply, Request
from tests.unit.client.play import CUT, ONE, Played, problem

NUMPY = [np.float16, np.float32, np.float64, np.int8, np.int32, np.complex64, np.complex128]
TYPES = [*NUMPY, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]


class Foreign:
    """Another library's array on the host, as DLPack shows it; `detach` is what torch has for one with gradients."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __dlpack__(self, **asked: Any) -> Any:
        return self._array.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def detach(self) -> Foreign:
        return self


class OnGpu(Foreign):
    """Its memory cannot be read here."""

    def __dlpack__(self, **asked: Any) -> Any:
        raise BufferError("on a GPU")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


class OfCupy(OnGpu):
    def get(self) -> np.ndarray[Any, Any]:
        return self._array


class OfTorch(OnGpu):
    def cpu(self) -> Foreign:
        return Foreign(self._array)


@pytest.mark.parametrize("wrap", [Foreign, OfCupy, OfTorch])
def test_dlpack(wrap: type[Foreign]) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(to_array(wrap(array), "a"), array)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_there_and_back(dtype: Any) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype)
    reply = Reply(
        200,
        {"x-matmul-dtype": dtype_name(to_array(array, "a")), "x-matmul-shape": "3,4"},
        bytes(elements(to_array(array, "a"))),
    )
    back = array_of(reply)
    assert back.dtype == array.dtype and np.array_equal(back, array)
    back[0, 0] = 1  # the caller's own


def test_strides_and_byte_order_are_made_plain_and_plain_arrays_are_not_copied() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.shares_memory(to_array(array, "a"), array)
    for odd in (array.T, array[:, ::2], array.astype(">f4")):
        plain = to_array(odd, "a")
        assert plain.flags.c_contiguous and plain.dtype.byteorder in "<=" and np.array_equal(plain, odd)


@pytest.mark.parametrize(
    "wrong",
    [
        np.ones((2, 2), np.longdouble),
        np.ma.masked_array(np.ones((2, 2))),
        np.ones(3),
        np.ones((2, 2), np.clongdouble),
        "text",
        None,
    ],
)
def test_what_is_no_operand_is_told(wrong: Any) -> None:
    with pytest.raises(InvalidOperand, match=r"^b is .+\.$"):
        to_array(wrong, "b")


def test_a_reply_of_another_size_is_refused() -> None:
    with pytest.raises(ServiceFailed, match="4 bytes"):
        array_of(Reply(200, {"x-matmul-dtype": "float32", "x-matmul-shape": "2,2"}, b"abcd"))


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_body_comes_in_pieces(size: int) -> None:
    sent = bytes(range(256)) * (size // 256 + 1)
    reader = BodyReader({"content-length": str(len(sent))})
    for start in range(0, len(sent), 999):
        reader.feed(sent[start : start + 999])
    assert bytes(reader.body()) == sent


def test_a_form_is_npy_as_numpy_reads_it() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    media_type, pieces = body_of({"a": Reference("job", "job_1"), "b": array}, {"kernel": "auto"})
    parts = b"".join(map(bytes, pieces)).split(b"\r\n\r\n")
    assert media_type.startswith("multipart/form-data; boundary=")
    assert np.array_equal(np.load(io.BytesIO(parts[2])), array)


STORED = Reply(201, {}, b'{"id": ""}')


def test_an_upload_asks_first_and_sends_what_is_missing() -> None:
    array = np.zeros((200, 200), np.float32)
    name = hashlib.sha256(b"float32:200x200\n" + array.tobytes()).hexdigest()
    there = Played([Reply(200, ONE, b"")])
    assert there.run(matrices.upload(there.call, array)).id == name
    assert [request.method for request in there.requests] == ["HEAD"]

    missing = Played([problem(404, "matrix_not_found"), STORED])
    missing.run(matrices.upload(missing.call, array))
    put = missing.requests[1]
    assert (put.method, put.target) == ("PUT", f"/v1/matrices/{name}")
    assert isinstance(put.body[0], memoryview)  # the array's own memory
    assert np.shares_memory(np.frombuffer(put.body[0], np.float32), array)


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices, "RANGED_BYTES", 1 << 20)
    monkeypatch.setattr(ranges, "RANGE_BYTES", 1 << 20)


LARGE = np.zeros((768, 1024), np.float32)
OPENED = Reply(201, {}, b'{"upload": "up_1", "url": "/v1/uploads/up_1"}')
NOT_THERE = problem(404, "matrix_not_found")
DONE = Reply(204, {}, b"")


@pytest.mark.usefixtures("small_ranges")
def test_a_large_upload_goes_in_ranges_and_only_the_one_that_was_cut_goes_again() -> None:
    played = Played([NOT_THERE, OPENED, DONE, CUT, DONE, DONE, Reply(201, {}, b"{}")])
    played.run(matrices.upload(played.call, LARGE))
    sent = [request.headers["content-range"] for request in played.requests if request.method == "PUT"]
    assert [each.removeprefix("bytes ") for each in sent] == [
        "0-1048575/3145728",
        "1048576-2097151/3145728",
        "1048576-2097151/3145728",
        "2097152-3145727/3145728",
    ]
    assert played.requests[-1].target == "/v1/uploads/up_1/complete"


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize(
    "answers",
    [
        [problem(501, "no_object_store")],
        [problem(405, "method_not_allowed")],
        [Reply(201, {}, b'{"upload": "up_1", "url": "https://bucket/x"}'), DONE],
    ],
)
def test_a_service_without_ranges_gets_it_in_one_request(answers: list[Reply]) -> None:
    played = Played([NOT_THERE, *answers, STORED])
    played.run(matrices.upload(played.call, LARGE))
    assert played.requests[-1].method == "PUT" and played.requests[-1].body_bytes == LARGE.nbytes


@pytest.mark.usefixtures("small_ranges")
def test_a_range_that_is_refused_ends_the_upload() -> None:
    played = Played([NOT_THERE, OPENED, DONE, problem(404, "matrix_not_found")])
    with pytest.raises(NotFound):
        played.run(matrices.upload(played.call, LARGE))
    assert len(played.requests) == 4


@pytest.mark.usefixtures("small_ranges")
def test_a_lost_answer_to_the_end_is_made_up_for() -> None:
    played = Played([NOT_THERE, OPENED, DONE, DONE, DONE, CUT, problem(404, "matrix_not_found"), Reply(200, {}, b"")])
    assert played.run(matrices.upload(played.call, LARGE)).shape == LARGE.shape
    assert played.requests[-1].method == "HEAD"


def test_complex_operands_travel_as_far_as_a_format_has_them() -> None:
    """safetensors has no complex128, and .npy has."""
    one, other = np.ones((2, 2), np.complex64), np.ones((2, 2), np.complex128)
    media_type, body = body_of({"a": one, "b": one}, {})
    assert media_type == "application/x-safetensors" and b'"C64"' in b"".join(map(bytes, body))
    media_type, body = body_of({"a": other, "b": other}, {"alpha": [0, 1]})
    assert media_type.startswith("multipart/form-data") and b"'<c16'" in b"".join(map(bytes, body))


def test_a_conjugate_transpose_is_two_options_and_a_complex_factor_a_pair() -> None:
    options: dict[str, Any] = {"transpose_b": True}
    operand = Operand(Reference("matrix", "1")).H
    products._add_view(options, "a", operand)
    products._add_view(options, "b", operand)
    assert options == {"transpose_a": True, "conjugate_a": True, "transpose_b": False, "conjugate_b": True}
    products._add_view(options, "a", operand.H)
    assert options["transpose_a"] and options["conjugate_a"]
    with pytest.raises(ValueError, match="c cannot be a transpose or a conjugate"):
        products._add_view(options, "c", operand)
    matrix = np.array([[1 + 2j, 3]])
    np.testing.assert_array_equal(matrices.resolve_view(matrix, operand), matrix.conj().T)
    assert matrices.resolve_view(matrix, operand.H) is matrix


def test_large_operands_are_converted_where_no_event_loop_waits() -> None:
    """Small ones at once: a thread would take longer."""
    for large in (np.asfortranarray(np.ones((600, 300))), np.ones((600, 600), np.int64)):
        for flow in (products.multiply, products.submit):
            assert isinstance(next(flow(Played([]).call, large, large.T, {})), Compute)
        assert isinstance(next(matrices.upload(Played([]).call, large)), Compute)
    small = np.asfortranarray(np.ones((20, 30)))
    assert isinstance(next(products.multiply(Played([]).call, small, small.T, {})), Request)
