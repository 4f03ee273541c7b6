"""One tree of errors. A class's `type` is the stable name a caller can match; its message is a plain sentence that
says what to do. HTTP statuses are not here: one table at the service's edge (`service/problems.py`) gives them.
"""

from __future__ import annotations

from typing import ClassVar, Literal


class MatmulError(Exception):
    """Something went wrong in the matmul service."""

    type: ClassVar[str] = "internal_error"
    retry_after_s: int | None = None  # how long a caller should wait before trying again

    def __init__(self, detail: str | None = None, *, field: str | None = None) -> None:
        self.detail = detail or (self.__doc__ or "").strip()
        self.field = field  # the offending part of the request, as a dotted path
        super().__init__(self.detail)


# ---- what a caller sent ----
class InvalidRequest(MatmulError):
    """The request is not valid."""

    type = "invalid_request"


class MalformedBody(InvalidRequest):
    """The body could not be read."""

    type = "malformed_body"


class InvalidMatrix(InvalidRequest):
    """The matrix could not be read."""

    type = "invalid_matrix"


class ShapeMismatch(InvalidRequest):
    """The operands' shapes do not fit together."""

    type = "shape_mismatch"


class UnsupportedDType(InvalidRequest):
    """No kernel multiplies these element types."""

    type = "unsupported_dtype"


class UnknownKernel(InvalidRequest):
    """There is no kernel of that name; GET /v1/kernels lists them."""

    type = "unknown_kernel"


class InvalidConfig(InvalidRequest):
    """The kernel does not take this tile config."""

    type = "invalid_config"


class BodyTooLarge(MatmulError):
    """The body is larger than this server takes."""

    type = "body_too_large"


class DigestMismatch(MatmulError):
    """The contents do not have the id they were sent under."""

    type = "digest_mismatch"


# ---- what is not there, or not in that state ----
class NotFound(MatmulError):
    """There is nothing here under that id."""

    type = "not_found"


class JobNotFound(NotFound):
    """There is no job with that id; it may have expired."""

    type = "job_not_found"


class MatrixNotFound(NotFound):
    """There is no matrix with that id, perhaps because it has expired; upload it again."""

    type = "matrix_not_found"


class MatrixDamaged(MatmulError):
    """The stored bytes are no longer those that came in, so they are not sent; upload the matrix again."""

    type = "matrix_damaged"


class ProductExpired(MatmulError):
    """The product was kept for its time and is gone; submit the job again."""

    type = "product_expired"


class WrongState(MatmulError):
    """The job's state does not allow this."""

    type = "wrong_state"


class NoWorkerForKernel(MatmulError):
    """No live worker serves this kernel."""

    type = "no_worker_for_kernel"


class NoWorkerForDevice(MatmulError):
    """No live worker runs on such a device; GET /v1/devices lists those there are."""

    type = "no_worker_for_device"


class UnknownPreset(InvalidRequest):
    """There is no preset of that name; GET /v1/benchmarks lists them."""

    type = "unknown_preset"


class BenchmarkTooLarge(InvalidRequest):
    """The benchmark is larger than this server takes."""

    type = "benchmark_too_large"


class ExtraMissing(MatmulError):
    """This server was installed without the extra that makes this."""

    type = "extra_missing"


class IdempotencyKeyReused(MatmulError):
    """This Idempotency-Key was used with another request; use a new key."""

    type = "idempotency_key_reused"


class IdempotencyKeyInUse(MatmulError):
    """The first request with this Idempotency-Key is still running; wait for its answer and try again."""

    type = "idempotency_key_in_use"
    retry_after_s = 1


# ---- no room, no one to do it ----
class QueueFull(MatmulError):
    """The queue is full; try again later."""

    type = "queue_full"
    retry_after_s = 5


class QuotaExceeded(MatmulError):
    """This API key has too many jobs waiting; try again when some have finished."""

    type = "quota_exceeded"
    retry_after_s = 5


class StoreFull(MatmulError):
    """There is no room for more matrices; delete some or try again later."""

    type = "store_full"
    retry_after_s = 30


class StoreUnavailable(MatmulError):
    """The job store does not answer; try again in a moment."""

    type = "store_unavailable"
    retry_after_s = 1

    def __init__(self, detail: str | None = None, *, resource: Literal["redis", "disk", "objects"] = "redis") -> None:
        super().__init__(detail)
        self.resource = resource  # which part of the store: the other may serve


class NoWorkers(MatmulError):
    """No worker is running; try again in a moment."""

    type = "no_workers"
    retry_after_s = 5


# ---- how a job fails (the `error` of a job record) ----
class JobFailed(MatmulError):
    """The job failed."""

    type = "job_failed"
    retryable: ClassVar[bool] = False  # whether another attempt may go better


class WorkerLost(JobFailed):
    """The worker running the job died, on every attempt."""

    type = "worker_lost"
    retryable = True


class TimeLimitExceeded(JobFailed):
    """The job ran longer than its time limit."""

    type = "time_limit_exceeded"


class OperandMissing(JobFailed):
    """An operand was deleted or expired before the job ran; upload it again and submit a new job."""

    type = "operand_missing"


class OperandDamaged(JobFailed):
    """An operand's bytes are not those that were sent; upload it again and submit a new job."""

    type = "operand_damaged"
    retryable = True


class OperandFailed(JobFailed):
    """An operand is the product of a job that did not succeed; retry that job, then this one."""

    type = "operand_failed"


class OutOfDeviceMemory(JobFailed):
    """The product does not fit in the device's free memory; make it smaller or try again later."""

    type = "out_of_device_memory"


class NoRoomForProduct(JobFailed):
    """The store had no room for the product; delete some matrices and retry the job."""

    type = "no_room_for_product"
    retryable = True


class DeviceFault(JobFailed):
    """The device reported an error; the worker restarts."""

    type = "device_fault"
    retryable = True


class VerificationFailed(JobFailed):
    """The product did not pass its check, so it is not returned."""

    type = "verification_failed"
    retryable = True


class OperandOutOfRange(JobFailed):
    """An operand has elements too large for the kernel, or a block scale too large or small; `detail` says which."""

    type = "operand_out_of_range"


class KernelUnavailable(JobFailed):
    """The worker cannot run this kernel on its device."""

    type = "kernel_unavailable"


class StaleAttempt(MatmulError):
    """This attempt no longer owns the job: it was cancelled, or taken back and given to another worker."""

    type = "stale_attempt"


# ---- keys ----
class Unauthenticated(MatmulError):
    """Send an API key: `Authorization: Bearer <key>`."""

    type = "unauthenticated"


class Forbidden(MatmulError):
    """This server does not answer requests that come this way."""

    type = "forbidden"


# ---- settings ----
class InvalidSettings(MatmulError):
    """The settings are not safe or not complete."""

    type = "invalid_settings"
