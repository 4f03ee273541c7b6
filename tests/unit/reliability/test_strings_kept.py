"""Parsed records keep nothing of texts that came once: ids and digests are never the same again."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from jobs.models import MatmulRequest, new_id
from jobs.requests.operands import OperandRef
from jobs.stored import read, read_known

RECORDS = 2000
FRAMES = 8  # from an allocation up to this file
KEPT_BYTES = 20_000  # far less than the ids of so many


def request(matrix_id: str) -> str:
    operand = OperandRef(source="inline", matrix=matrix_id, dtype="float32", shape=(2, 2))
    return MatmulRequest(a=operand, b=operand, accuracy="fp32").model_dump_json()


@pytest.mark.parametrize("parse", [read, read_known])
def test_nothing_is_kept_of_what_was_parsed(parse: Callable[[type[MatmulRequest], str], MatmulRequest]) -> None:
    texts = [request(new_id("m")) for _ in range(RECORDS)]
    first = parse(MatmulRequest, texts[0]).a.matrix
    assert first and first in texts[0]
    tracemalloc.start(FRAMES)
    try:
        for text in texts:
            parse(MatmulRequest, text)
        # Other threads allocate too: pytest-xdist's receives the next tests meanwhile.
        own = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, __file__, all_frames=True)])
    finally:
        tracemalloc.stop()
    assert sum(trace.size for trace in own.traces) < KEPT_BYTES
