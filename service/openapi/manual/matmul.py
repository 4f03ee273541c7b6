"""POST /v1/matmul."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from jobs import errors
from jobs.base import Strict
from jobs.models import JobRecord
from jobs.requests.operands import INPUTS, SCALES
from service import problems as edge
from service.bodies.matmul_multipart import MULTIPART
from service.bodies.options import NUMBER, JobRef, MatmulOptions, MatrixRef, Nested, RandomOperand
from service.http.negotiation import JSON, NPY, PRODUCT_OFFERS, SAFETENSORS
from service.openapi.manual.parts import (
    IDEMPOTENCY_KEY,
    JOB_ID,
    MATRIX_ID,
    PREFER,
    Piece,
    accept,
    binary,
    headers_out,
    json_answer,
    problems,
    ref,
)
from service.submit.dry_run import ProductDryRun

Numbers = Annotated[list[Any], WithJsonSchema({"title": "Numbers", "type": "array", "items": NUMBER})]


class MatmulBody(MatmulOptions):
    """A product in JSON: the operands and how to multiply them."""

    a: Nested | MatrixRef | JobRef | RandomOperand = Field(
        description="Operand A, m×k: rows of numbers (or a batch of such matrices), a stored matrix, the product of "
        "another job, or a random one.",
        examples=[[[1.0, 2.0], [3.0, 4.0]]],
    )
    b: Nested | MatrixRef | JobRef | RandomOperand = Field(
        description="Operand B, k×n: as A.", examples=[[[5.0, 6.0], [7.0, 8.0]]]
    )
    c: Nested | MatrixRef | JobRef | RandomOperand | None = Field(
        None,
        description="Operand C, m×n, of the product's element type: as A. Where it is given, the product is "
        "alpha·A·B + beta·C. One matrix may serve a whole batch.",
    )
    bias: Numbers | Nested | MatrixRef | RandomOperand | None = Field(
        None,
        description="A row of n numbers (a list, or 1×n), added to every row of the product, or a column (m×1), added "
        "to every column; of the product's element type, before it is rounded to `output_dtype`. Of real products.",
        examples=[[0.5, -0.5]],
    )
    scale_a: Nested | MatrixRef | RandomOperand | None = Field(
        None,
        description="Block scales of a float8_e4m3 A, float32: one for each 128 steps of k of a row, or of 128 rows. "
        "An element stands for its value times its block's scale. Their shape is A's as that is stored, with k's axis "
        "divided by 128 and rounded up, or both axes. Only with `scale_b`.",
        examples=[[[0.5], [2.0]]],
    )
    scale_b: Nested | MatrixRef | RandomOperand | None = Field(
        None, description="The same of B: of a column, or of 128 columns.", examples=[[[0.25, 1.0]]]
    )


class MatmulReply(Strict):
    """A finished product in JSON."""

    job: JobRecord = Field(description="The job: kernel, device, timing, verification.")
    c: Nested | None = Field(
        description="The product, not operand C: m×n (a batch: batch×m×n). `null` where it has more elements than the "
        "server's MATMUL_MAX_JSON_ELEMENTS: then take it from /v1/jobs/{id}/product.",
        examples=[[[19.0, 22.0], [43.0, 50.0]]],
    )


class JobReply(Strict):
    """A job that has not ended."""

    job: JobRecord = Field(description="The job as it was recorded.")


OPTIONS_PART = {
    "allOf": [ref(MatmulOptions)],
    "description": "How to multiply, as JSON. May hold an operand, such as `a`, in place of the file, as a reference "
    "or random.",
}
BODY: Piece = {
    "required": True,
    "description": "Two operands, a third that is added, if any, and options. JSON suits small matrices; files are "
    "streamed. In JSON an integer is never changed: numbers without a `dtype` are float32, or float64 where integers "
    "need it.",
    "content": {
        JSON: {
            "schema": ref(MatmulBody),
            "examples": {
                "lists": {"value": {"a": [[1, 2], [3, 4]], "b": [[5, 6], [7, 8]]}},
                "stored": {"value": {"a": {"matrix": MATRIX_ID}, "b": {"matrix": MATRIX_ID}, "transpose_b": True}},
                "chain": {"value": {"a": {"job": JOB_ID}, "b": {"matrix": MATRIX_ID}}},
                "within": {"value": {"a": {"matrix": MATRIX_ID}, "b": {"matrix": MATRIX_ID}, "tolerance": 1e-6}},
                "sum": {"value": {"a": [[1, 2]], "b": [[3], [4]], "c": [[5]], "alpha": 0.5, "beta": -1}},
                "layer": {"value": {"a": [[1, 2]], "b": [[3], [4]], "bias": [-20], "activation": "relu"}},
                "scaled": {
                    "value": {
                        "a": [[1, 2], [3, 4]],
                        "b": [[1, 0], [0, 1]],
                        "scale_a": [[0.5], [2]],
                        "scale_b": [[0.25]],
                        "dtype": "float8_e4m3",
                    }
                },
                "grouped": {
                    "value": {"a": [[1, 2], [3, 4], [5, 6]], "b": [[[1], [1]], [[10], [0]]], "group_sizes": [1, 2]}
                },
                "random": {
                    "value": {
                        "a": {"random": {"shape": [256, 512], "seed": 1}},
                        "b": {"random": {"shape": [512, 128], "seed": 2}},
                        "dtype": "float64",
                    }
                },
            },
        },
        MULTIPART: {
            "schema": {
                "type": "object",
                "properties": {
                    "a": {"type": "string", "format": "binary", "description": "Operand A as an .npy file."},
                    "b": {"type": "string", "format": "binary", "description": "Operand B as an .npy file."},
                    "c": {"type": "string", "format": "binary", "description": "Operand C as an .npy file, if any."},
                    "bias": {"type": "string", "format": "binary", "description": "A bias, 1×n or m×1, likewise."},
                    **{
                        name: {"type": "string", "format": "binary", "description": "Block scales, likewise."}
                        for name in SCALES
                    },
                    "options": OPTIONS_PART,
                },
            },
            "encoding": {**{name: {"contentType": NPY} for name in INPUTS}, "options": {"contentType": JSON}},
        },
        SAFETENSORS: {
            "schema": {
                "type": "string",
                "format": "binary",
                "description": "A safetensors file with tensors `a` and `b`, `c` and `bias` if they are added, and "
                "`scale_a` and `scale_b`; the options may be JSON text in its metadata, under `options`.",
            }
        },
    },
}
BINARY_HEADERS = ("Location", "Server-Timing", "Preference-Applied", "Idempotent-Replayed")
PRODUCT: Piece = {
    "description": "The product, as Accept asks.",
    "content": {
        JSON: {"schema": {"anyOf": [ref(MatmulReply), ref(ProductDryRun)]}},
        **binary(offer for offer in PRODUCT_OFFERS if offer != JSON),
    },
    "headers": headers_out(*BINARY_HEADERS, "X-Matmul-Dtype", "X-Matmul-Shape", "ETag"),
}
SUBMIT_ERRORS = (
    errors.MalformedBody,
    errors.MatrixNotFound,
    errors.JobNotFound,
    errors.ProductExpired,
    edge.NotAcceptable,
    errors.NoWorkerForKernel,
    errors.IdempotencyKeyInUse,
    errors.BodyTooLarge,
    edge.UnsupportedMediaType,
    errors.InvalidRequest,
    errors.InvalidMatrix,
    errors.ShapeMismatch,
    errors.UnsupportedDType,
    errors.UnknownKernel,
    errors.InvalidConfig,
    errors.IdempotencyKeyReused,
    errors.QuotaExceeded,
    errors.QueueFull,
    errors.StoreFull,
    edge.TooManyBodies,
    errors.NoWorkers,
)
JOB_ERRORS = (
    errors.OperandMissing,
    errors.OperandFailed,
    errors.OperandOutOfRange,
    errors.KernelUnavailable,
    edge.JobCancelled,
    errors.JobFailed,
    errors.WorkerLost,
    errors.DeviceFault,
    errors.VerificationFailed,
    errors.OperandDamaged,
    errors.MatrixDamaged,
    errors.TimeLimitExceeded,
    errors.OutOfDeviceMemory,
    errors.NoRoomForProduct,
)
PENDING_HEADERS = ("Location", "Retry-After", "Preference-Applied", "Idempotent-Replayed")
DRY_RUN = (
    "Say which kernel would compute the product, and with which proven bound, without creating a job. Operands are "
    "read but not kept, and the Idempotency-Key stays unused."
)
MULTIPLY: Piece = {
    "tags": ["matmul"],
    "operation_id": "multiply",
    "summary": "Multiply two matrices",
    "description": "A·B, or activation(alpha·A·B + beta·C + bias), or a batch of such products. If the product is "
    "ready within the time that Prefer allows (30 s by default), the reply is the checked product in the media type "
    "that Accept asks for. Otherwise it is 202 with the job, which you can poll. While no worker is live, a request "
    "with `respond-async` is queued until one starts, and others are refused (503), unless the server's "
    "MATMUL_QUEUE_WITHOUT_WORKERS says otherwise. NaN and infinities multiply by IEEE rules; JSON carries them as "
    "strings. `tolerance` selects the fastest kernel that is proven to be within it, `reproducible` one whose "
    "products have the same bits everywhere. With `group_sizes`, each group of rows of A is multiplied by its own "
    "matrix.",
    "responses": {
        200: PRODUCT,
        202: json_answer(JobReply, "Not ready yet: poll the job.", *PENDING_HEADERS),
        **problems(*SUBMIT_ERRORS, *JOB_ERRORS),
    },
    "openapi_extra": {"requestBody": BODY, "parameters": [PREFER, accept(PRODUCT_OFFERS), IDEMPOTENCY_KEY]},
}
