"""Requests that are alike share what was derived for the first of them, and those that are not do not."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from jobs.ledger.submission import BESIDE
from jobs.matrices.packed import DIGEST_BYTES
from jobs.models import MatmulRequest, new_id
from jobs.redis.embedded import EmbeddedServer
from service.submit.product import batch_of
from tests.integration.api.test_matmul import files
from tools.harness.api import running_api

SHAPES = [((3, 4), (4, 5)), ((3, 4), (4, 6)), ((4, 3), (4, 5)), ((5, 4), (5, 4)), ((2, 3, 4), (2, 4, 5))]
OPTIONS: list[dict[str, Any]] = [{}, {"transpose_a": True}, {"transpose_b": True}, {"verify": "off"}, {"alpha": 2}]
ACCURACY = {"float32": "fp32", "float64": "fp64", "int8": "exact"}


def test_each_record_has_what_its_request_asked_for(valkey: EmbeddedServer, tmp_path: Path) -> None:
    prefix = f"{new_id('test')}:"
    own = running_api(valkey, prefix, tmp_path, record_matrix_bytes=1024)
    with own as api, api.client() as client, valkey.client() as redis:
        seen = refused = 0
        for _ in range(2):  # found the second time
            for (a, b), options, dtype in product(SHAPES, OPTIONS, ACCURACY):
                pair = np.ones(a, dtype), np.ones(b, dtype)
                reply = client.post("/v1/matmul", files=files(*pair, **options), headers={"prefer": "respond-async"})
                k = a[-2] if options.get("transpose_a") else a[-1]
                if k != (b[-1] if options.get("transpose_b") else b[-2]):
                    refused += 1
                    assert (reply.status_code, reply.json()["field"]) == (422, "b")
                    continue
                seen += 1
                assert reply.status_code == 202, reply.text
                job = api.ledger.get(reply.json()["job"]["id"])
                request = job.record.request
                assert isinstance(request, MatmulRequest)
                assert [(ref.shape, ref.dtype) for ref in request.operands.values()] == [(a, dtype), (b, dtype)]
                assert request.accuracy == ACCURACY[dtype]
                assert {name: getattr(request, name) for name in options} == options
                room: Any = redis.hget(f"{prefix}job:{job.id}", "product_bytes")
                assert int(room) == request.delivered.bytes + DIGEST_BYTES
                assert job.batch == batch_of(request, api.settings.job_timeout_s) != BESIDE
        assert seen > 40 and refused > 40


def test_each_record_names_the_operands_that_were_stored_for_it(valkey: EmbeddedServer, tmp_path: Path) -> None:
    own = running_api(valkey, f"{new_id('test')}:", tmp_path, record_matrix_bytes=16)
    with own as api, api.client() as client:
        names: list[str | None] = []
        for number, options in product(range(3), [*OPTIONS[:1], *OPTIONS[2:]]):
            pair = np.full((3, 3), number, np.float32), np.full((3, 3), 7, np.float32)
            reply = client.post("/v1/matmul", files=files(*pair, **options), headers={"prefer": "respond-async"})
            request = api.ledger.get(reply.json()["job"]["id"]).record.request
            assert isinstance(request, MatmulRequest)
            assert {name: getattr(request, name) for name in options} == options
            for ref, sent in zip(request.operands.values(), pair, strict=True):
                assert ref.source == "inline" and ref.matrix is not None
                assert np.array_equal(api.store.load(ref.matrix, ref.dtype, ref.shape), sent)
                names.append(ref.matrix)
        assert len({*names}) == len(names)
