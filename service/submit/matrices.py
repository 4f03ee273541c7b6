"""Finds matrices by id, in the store or, for small products, in the records of their jobs. For worker threads."""

from __future__ import annotations

from jobs.errors import JobNotFound, MatrixNotFound
from jobs.matrices.interface import MatrixInfo
from jobs.matrices.packed import PackedMatrix
from jobs.models import Job, job_of_product
from jobs.states import JobState
from service.context import Context


def find_matrix(context: Context, matrix_id: str, *, owner: str) -> tuple[MatrixInfo, PackedMatrix | None]:
    """The matrix, with its elements if it is in a job's record. Raises MatrixNotFound."""
    try:
        return context.store.info(matrix_id, owner=owner), None
    except MatrixNotFound:
        return product_in_record(context, matrix_id, owner=owner)


def product_in_record(context: Context, matrix_id: str, *, owner: str) -> tuple[MatrixInfo, PackedMatrix]:
    """The product in a job's record. Raises MatrixNotFound if the id is not that of a small product, or it has
    expired.
    """
    if (named := job_of_product(matrix_id)) is None:
        raise MatrixNotFound
    job_id, attempt = named
    try:
        job = context.ledger.get(job_id, owner=owner, with_product=True)
    except JobNotFound:
        raise MatrixNotFound from None
    if job.packed_product is None or (job.record.state, job.record.attempt) != (JobState.SUCCEEDED, attempt):
        raise MatrixNotFound
    return _info(context, matrix_id, job), PackedMatrix(job.packed_product)


def _info(context: Context, matrix_id: str, job: Job) -> MatrixInfo:
    product, ended = job.record.product, job.record.finished_at
    assert product is not None and ended is not None
    created_at = ended.timestamp()
    return MatrixInfo(matrix_id, product.dtype, product.shape, created_at, created_at + context.settings.product_ttl_s)


def delete_matrix(context: Context, matrix_id: str, *, owner: str) -> None:
    """Raises MatrixNotFound."""
    context.known_matrices.forget(owner, matrix_id)  # otherwise deleted matrices displace used ones
    try:
        context.store.delete(matrix_id, owner=owner)
    except MatrixNotFound:
        named = job_of_product(matrix_id)
        if named is None or not context.ledger.drop_product(*named, owner=owner):
            raise
