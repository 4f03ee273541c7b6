"""What reads a body is gone with it: nothing is left for the search for garbage, which a long-lived process makes
seldom."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from benchmarks.measure.http.client import multipart, npy_bytes
from jobs.errors import MatmulError
from jobs.formats.npy import NpyParser
from service.bodies.matmul_multipart import MultipartReader
from service.bodies.matrix import FileReader
from service.bodies.reader import OpenUpload, Reader
from service.bodies.safetensors import SafetensorsReader
from service.dashboard.multiply.body import FormReader
from tests.fuzz.targets.matrices import uploads
from tests.unit.service.inference.test_reader import framed, reader_of

A = np.arange(4, dtype=np.float32).reshape(2, 2)
NPY = npy_bytes(A)
TYPE, PARTS = multipart({"a": NPY, "b": NPY}, "application/x-npy")
FORM_TYPE, FORM = multipart({"source": b"files", "file_a": NPY, "file_b": NPY}, "application/x-npy")
INFER, INFER_HEAD_BYTES = framed({"A": A, "B": A}, "float32", {"A", "B"})


def file_reader(open_upload: OpenUpload) -> FileReader:
    reader = FileReader(open_upload)
    reader.parser = NpyParser(reader.take)
    return reader


Make = Callable[[OpenUpload], Reader[Any]]
READERS: dict[str, tuple[Make, bytes]] = {
    "multipart": (lambda opened: MultipartReader(TYPE, opened, lambda asked: None, None), PARTS),
    "safetensors": (
        lambda opened: SafetensorsReader(opened, lambda asked: None, body_bytes=None, staging_dir=None),
        save({"a": A, "b": A}),
    ),
    "form": (lambda opened: FormReader(FORM_TYPE, opened, None), FORM),
    "matrix": (file_reader, NPY),
    "binary inference": (lambda opened: reader_of(INFER, INFER_HEAD_BYTES), INFER),
    "JSON inference": (
        lambda opened: reader_of(b"", None, declared=False),
        framed({"A": A, "B": A}, "float32", set())[0],
    ),
}


def read(make: Make, body: bytes) -> None:
    reader = make(uploads().open)
    try:
        reader.feed(body)
        reader.finish()
    finally:
        reader.close()


@contextmanager
def garbage() -> Iterator[list[str]]:
    """The types of the service's objects that only a search for garbage found to be of no use."""
    found: list[str] = []
    gc.collect()
    gc.freeze()  # what there was before need not be searched, now or later: searching all of it takes 0.3 s
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        types = [type(each) for each in gc.garbage]
        found += [each.__qualname__ for each in types if each.__module__.startswith(("jobs.", "service."))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("name", READERS)
def test_nothing_is_left_of_a_body_that_was_read(name: str) -> None:
    with garbage() as left:
        read(*READERS[name])
    assert left == []


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("part", [slice(20), slice(-20)])
def test_nothing_is_left_of_a_body_that_ends_early(name: str, part: slice) -> None:
    make, body = READERS[name]
    with garbage() as left, pytest.raises(MatmulError):
        read(make, body[part])
    assert left == []
