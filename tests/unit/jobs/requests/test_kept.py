"""What is derived or parsed once, and packed by hiredis alone, is what it was."""

from __future__ import annotations

import hiredis
import pytest
from redis.connection import Connection

from jobs.fleet.workers import DeviceInfo, LeftOutKernel
from jobs.ledger.fields import KEPT_TEXT_BYTES, request_to_run
from jobs.models import MatmulRequest
from jobs.redis.connections import packed
from jobs.requests.operands import OperandRef
from jobs.stored import NotUnderstood


def text_of(matrix: str, *, config: int = 0) -> bytes:
    """A request as it is recorded. `config`: how many parameters it has."""
    refs = (OperandRef(source="matrix", matrix=each, dtype="float32", shape=(8, 8)) for each in (matrix, "b"))
    named = {f"parameter_{number:04}": number for number in range(config)}
    return MatmulRequest(a=next(refs), b=next(refs), accuracy="fp32", config=named).model_dump_json().encode()


def test_requests_of_the_same_text_are_one_and_others_are_not() -> None:
    first, again, other = (request_to_run("matmul", text_of(name)) for name in ("a", "a", "c"))
    assert first is again and first != other
    assert isinstance(other, MatmulRequest) and other.a.matrix == "c"


def test_long_requests_are_not_kept() -> None:
    long = text_of("a", config=200)
    assert len(long) > KEPT_TEXT_BYTES
    assert request_to_run("matmul", long) is not request_to_run("matmul", long)


def test_a_request_that_is_not_understood_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(NotUnderstood):
            request_to_run("matmul", text_of("a").replace(b'"verify"', b'"verity"'))
        with pytest.raises(NotUnderstood):
            request_to_run("matrix", text_of("a"))


def test_a_device_that_is_changed_has_traits_of_its_own() -> None:
    device = DeviceInfo(name="A GPU", device_class="gpu", multiprocessors=132)
    assert device.traits is device.traits and not device.traits.left_out
    left_out = LeftOutKernel(kernel="cublas", dtype="float32", reason="It could not run.")
    changed = device.model_copy(update={"left_out": (left_out,), "multiprocessors": 114})
    assert changed.traits.multiprocessors == 114 and [each.kernel for each in changed.traits.left_out] == ["cublas"]
    assert device.model_copy() == device and "_kept" not in device.model_dump()


def test_commands_are_packed_as_by_redis_py() -> None:
    command = ("FCALL", "matmul:claim", 0, "ü", "", b"\x00\xff", -1, 0.2, "with a space")
    assert hiredis.pack_command(command) == packed(command) == packed([*command])  # type: ignore[arg-type]
    assert packed(command) == b"".join(Connection().pack_command(*command))  # type: ignore[no-untyped-call]
