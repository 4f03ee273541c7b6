"""Types and shapes of matrices that an API process was asked for before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from jobs.matrices.interface import MatrixInfo
from service.api_process import known_matrices
from service.api_process.known_matrices import KnownMatrices
from service.submit.matrices import delete_matrix


def info(matrix_id: str) -> MatrixInfo:
    return MatrixInfo(matrix_id, "float32", (2, 3), 0.0, 1.0)


def test_they_are_their_owners() -> None:
    known, matrix = KnownMatrices(), info("a" * 64)
    known.keep("one", matrix)
    assert known.find("one", matrix.id) == matrix
    assert known.find("another", matrix.id) is None
    known.forget("one", matrix.id)
    assert known.find("one", matrix.id) is None


def test_a_name_says_nothing_of_what_is_under_it() -> None:
    known, product = KnownMatrices(), info(f"c_{'0' * 32}_1")
    known.keep("one", product)
    assert known.find("one", product.id) is None


def test_the_one_not_used_for_longest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_matrices, "MAX_KNOWN", 2)
    known, ids = KnownMatrices(), [letter * 64 for letter in "abc"]
    for matrix_id in ids[:2]:
        known.keep("one", info(matrix_id))
    assert known.find("one", ids[0])
    known.keep("one", info(ids[2]))
    assert [known.find("one", matrix_id) is not None for matrix_id in ids] == [True, False, True]


def test_one_that_is_deleted_is_forgotten() -> None:
    known, deleted = KnownMatrices(), info("a" * 64)
    known.keep("one", deleted)
    known.keep("another", deleted)
    context = SimpleNamespace(known_matrices=known, store=SimpleNamespace(delete=lambda matrix_id, owner: None))
    delete_matrix(cast(Any, context), deleted.id, owner="one")
    assert known.find("one", deleted.id) is None
    assert known.find("another", deleted.id) == deleted
