"""The models of a job: its request, its public record as HTTP shows it, and the outcome that a worker reports."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from jobs.base import Strict, UnknownRequest
from jobs.benchmarks.records import BenchmarkSummary
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.formats.elements import matrix_bytes
from jobs.formats.factors import Factor, as_number
from jobs.kernel_choice import KernelChoice
from jobs.random_hex import random_hex
from jobs.requests.bounds import ErrorBound, Tolerance
from jobs.requests.job_matrices import JobMatrices
from jobs.requests.operands import INPUTS, OperandRef
from jobs.requests.problem import problem_of
from jobs.states import JobState
from jobs.timing import Timing
from jobs.tracing.request_trace import trace_of_new_job
from kernels.model.activations import ActivationName
from kernels.model.numerics import OPERAND_FLAGS, AccuracyName, DTypeName, Problem
from kernels.model.outputs import Delivered, delivered_of
from kernels.selection.demands import ToleranceKind

ANONYMOUS = "anonymous"  # the owner of everything where keys are off
JobKind = Literal["matmul", "benchmark"]
VerifyName = Literal["freivalds", "off"]

_PRODUCT = re.compile(r"c_([0-9a-f]{32})_([0-9]{1,9})", re.ASCII)


def new_id(prefix: str, cell: str = "") -> str:
    """A new random id of 128 bits, such as `job_3f…`; it begins with the cell's digits, if cells are numbered."""
    return f"{prefix}_{cell}{random_hex(16)[len(cell) :]}"


def product_id(job_id: str, attempt: int) -> str:
    """An attempt's product: `job_3f…`, 2 gives `c_3f…_2`. So a late attempt cannot overwrite another's product."""
    return f"c_{job_id.partition('_')[2]}_{attempt}"


def job_of_product(matrix_id: str) -> tuple[str, int] | None:
    """The job and attempt in a product's id; None for any other id."""
    return (f"job_{found[1]}", int(found[2])) if (found := _PRODUCT.fullmatch(matrix_id)) else None


class MatmulRequest(Strict):
    """A validated product request: what the worker needs, and what the record shows."""

    __slots__ = ("_kept",)  # no field, so that no copy takes it along

    a: OperandRef = Field(description="Operand A: m×k, or k×m with `transpose_a`; a batch axis may lead.")
    b: OperandRef = Field(description="Operand B: k×n, or n×k with `transpose_b`; a batch axis may lead.")
    kernel: KernelChoice = Field("auto", description="Kernel asked for; `auto` lets measurements decide.")
    config: dict[str, int] = Field(default_factory=dict, description="Tile config; what is left out is the default.")
    accuracy: AccuracyName = Field(description="Error class the product must meet; with a tolerance, that may serve.")
    transpose_a: bool = Field(False, description="Multiply with A transposed.")
    transpose_b: bool = Field(False, description="Multiply with B transposed.")
    conjugate_a: bool = Field(False, description="Multiply with the complex conjugate of A.")
    conjugate_b: bool = Field(False, description="Multiply with the complex conjugate of B.")
    verify: VerifyName = Field("freivalds", description="How the product is checked.")
    alpha: Factor = Field(1.0, description="Factor of A·B: a number, for complex products also [re, im].")
    beta: Factor = Field(0.0, description="Factor of C, as alpha; with 0, C is not read.")
    c: OperandRef | None = Field(None, description="Operand C, which is added: m×n, a batch axis may lead; else null.")
    tolerance: Tolerance | None = Field(None, description="Bound that each element's error meets; else null.")
    tolerance_kind: ToleranceKind = Field("componentwise", description="What the tolerance is relative to.")
    reproducible: bool = Field(False, description="Whether the product has the same bits on every device and run.")
    bias: OperandRef | None = Field(None, description="Added to every row (1×n) or column (m×1); else null.")
    activation: ActivationName | None = Field(None, description="Function of every element of the sum; else null.")
    output_dtype: DTypeName | None = Field(None, description="Element type asked for; null: the usual one.")
    scale_a: OperandRef | None = Field(None, description="Block scales of A, stored as A is; else null.")
    scale_b: OperandRef | None = Field(None, description="Block scales of B, stored as B is; else null.")
    group_sizes: tuple[int, ...] | None = Field(None, description="Rows of A for each matrix of B in turn; else null.")

    @property
    def operands(self) -> dict[str, OperandRef]:
        """The operands by name."""
        return {name: ref for name in INPUTS if (ref := getattr(self, name)) is not None}

    @property
    def has_epilogue(self) -> bool:
        """Whether the request asks for more than A·B."""
        return self._derived[2]

    @property
    def goes_whole(self) -> bool:
        """Whether the product must not be computed in tiles."""
        ends_otherwise = self._ends_otherwise(self.problem, self.delivered)
        return self.scale_a is not None or self.group_sizes is not None or ends_otherwise

    def _ends_otherwise(self, problem: Problem, delivered: Delivered) -> bool:
        return self.bias is not None or self.activation is not None or delivered.dtype != problem.product_dtype

    @property
    def matrix_bytes(self) -> int:
        """The bytes of operands and product, and with an epilogue also of A·B and of widened operands."""
        problem, delivered, has_epilogue = self._derived
        operands = sum([matrix_bytes(ref.dtype, ref.shape) for ref in self.operands.values()])
        widened = problem.operand_bytes if problem.dtype != self.a.dtype else 0
        return operands + widened + delivered.bytes + (problem.product_bytes if has_epilogue else 0)

    @property
    def problem(self) -> Problem:
        """The product A·B as a Problem."""
        return self._derived[0]

    @property
    def delivered(self) -> Delivered:
        """The shape and type of the delivered product."""
        return self._derived[1]

    @property
    def _derived(self) -> tuple[Problem, Delivered, bool]:
        """Asked for some twenty times in a product's life, so it is kept. A copy derives its own."""
        try:  # not by way of pydantic, which looks for names that are not there for long
            return object.__getattribute__(self, "_kept")  # type: ignore[no-any-return]
        except AttributeError:
            flags, output = tuple(getattr(self, name) for name in OPERAND_FLAGS), self.output_dtype
            is_all = (self.alpha, self.beta, self.bias, self.activation, output) == (1.0, 0.0, None, None, None)
            problem = problem_of(self.a, self.b, flags, output, self.scale_b, self.group_sizes, is_all=is_all)
            delivered = delivered_of(problem, output)
            has_factor = as_number(self.alpha) != 1.0 or as_number(self.beta) != 0.0
            kept = problem, delivered, has_factor or self._ends_otherwise(problem, delivered)
            object.__setattr__(self, "_kept", kept)
            return kept


class Progress(Strict):
    """A job's progress."""

    done: int = Field(description="Steps done.", examples=[1])
    total: int = Field(description="Steps in all.", examples=[1])
    current: str | None = Field(None, description="The current step, or the job whose product this one waits for.")
    eta_s: float | None = Field(None, description="Estimated seconds remaining; null if unknown.")


class ProductInfo(Strict):
    """The product's type and size."""

    shape: tuple[int, ...] = Field(description="m×n, or batch×m×n.", examples=[[256, 256]])
    dtype: DTypeName = Field(description="Element type; int8 operands give int32.")
    bytes: int = Field(description="Size in bytes.", examples=[262144])


class Verification(Strict):
    """How the product was checked. Residual and threshold are relative to the size of the rows compared."""

    method: VerifyName = Field(
        description="`freivalds`: C·x is compared with A·(B·x) for eight random vectors x; rows in which "
        "these differ are computed again, element by element. `off`: not checked."
    )
    residual: float | None = Field(description="Largest difference found; null if not checked.", examples=[2.1e-8])
    threshold: float | None = Field(
        description="Largest difference that rounding explains; 0 for integers.", examples=[7e-7]
    )
    passed: bool | None = Field(description="residual ≤ threshold; null if not checked.")


class JobError(Strict):
    """Why a job failed."""

    type: str = Field(description="Stable name of the failure.", examples=["worker_lost"])
    detail: str = Field(description="One sentence that says what happened and what to do.")


class JobRecord(Strict):
    """A job, as the ledger knows it."""

    id: str = Field(description="The job's id.", examples=["job_0123456789abcdef0123456789abcdef"])
    kind: JobKind = Field(description="A product or a benchmark.")
    state: JobState = Field(description="queued → running → succeeded | failed | cancelled.")
    attempt: int = Field(description="Which run this is; rises with each retry.", examples=[1])
    created_at: datetime = Field(description="When it was accepted (UTC).")
    started_at: datetime | None = Field(None, description="When a worker last claimed it; null before.")
    finished_at: datetime | None = Field(None, description="When it reached its end; null before.")
    queue_position: int | None = Field(
        None, description="1 for the next to run; null once it runs, and while it waits for an operand.", examples=[1]
    )
    progress: Progress = Field(description="How far the job is.")
    request: MatmulRequest | BenchmarkSpec | UnknownRequest = Field(description="The request.")
    kernel: str | None = Field(None, description="Kernel that ran; null before.", examples=["shared_tiled"])
    config: dict[str, int] | None = Field(None, description="Full tile config that ran; null before.")
    why: str | None = Field(None, description="Why this kernel, in one sentence.")
    device: str | None = Field(None, description="Device that ran it; null before.", examples=["NVIDIA H200"])
    product: ProductInfo | None = Field(None, description="The product's type and size, once it succeeded.")
    timing: Timing | None = Field(None, description="Where the time went, once it succeeded.")
    error_bound: ErrorBound | None = Field(None, description="Bound proven for every element, if one was requested.")
    gflops: float | None = Field(
        None,
        description="2·m·n·k·batch / `kernel_ms` / 10⁶, of complex products 8·m·n·k·batch; n·(n+1)·k, as BLAS counts, "
        "where `why` says that one triangle of a symmetric product was computed.",
        examples=[36000.0],
    )
    verification: Verification | None = Field(None, description="How the product was checked, once it succeeded.")
    batch: int | None = Field(
        None,
        description="Jobs computed by the same launch, this one among them, once it succeeded. `timing`, `gflops` and "
        "`verification` are then those of the launch.",
        examples=[1],
    )
    benchmark: BenchmarkSummary | None = Field(None, description="Summary of a benchmark, once it succeeded.")
    error: JobError | None = Field(None, description="Why it failed; null otherwise.")
    request_id: str | None = Field(None, description="Id of the request that made it.", examples=["4d106fd6e1644a9d"])
    trace_id: str | None = Field(
        None, description="Trace of that request.", examples=["0af7651916cd43dd8448eb211c80319c"]
    )

    @property
    def operands(self) -> tuple[OperandRef, ...]:
        """The operands of a product; empty for a benchmark."""
        return (*self.request.operands.values(),) if isinstance(self.request, MatmulRequest) else ()


class Job(Strict):
    """A record with its internal fields."""

    record: JobRecord
    owner: str  # API key id, or ANONYMOUS
    queue: str  # Celery queue it waits on
    version: int  # rises with every change; the ETag
    timeout_s: float  # time limit of one attempt
    operands_in_record: str = ""  # the operands kept in the job's record, such as `a` or `abc`
    matrices_kept: bool = False  # whether the record still has its operands
    product_in_record: bool = False  # whether the product is, or will be, in the record rather than the store
    packed_product: bytes | None = None  # that product (jobs/matrices/packed.py), if it was requested
    trace: str = ""  # the trace of the submitting request (`RequestTrace.read`)
    queued_us: int = 0  # when this attempt was queued, in microseconds since the epoch
    worker: str = ""  # that claimed it last
    batch: str = ""  # as `NewJob.batch`

    @property
    def id(self) -> str:
        return self.record.id


class NewJob(Strict):
    """What the service asks the ledger to record."""

    id: str = Field(default_factory=lambda: new_id("job"))
    kind: JobKind = "matmul"
    owner: str
    queue: str
    timeout_s: float
    request: MatmulRequest | BenchmarkSpec
    matrices: JobMatrices = JobMatrices()
    reply_to: str = ""  # the service process whose caller waits; a small product is sent to it directly
    batch: str = ""  # jobs with the same one may be computed in one launch, or beside each other; empty: alone
    trace: str = Field(default_factory=trace_of_new_job)  # the request being answered: whose job it is

    @property
    def label(self) -> str:
        return label_of(self.request)


def label_of(request: MatmulRequest | BenchmarkSpec) -> str:
    """Finds a job in listings before it has run: the requested kernel, or a benchmark's title or preset."""
    return request.kernel if isinstance(request, MatmulRequest) else request.title or request.preset or ""


class Measured(Strict):
    """A worker's measurements of one product."""

    h2d_ms: float
    kernel_ms: float
    d2h_ms: float


class Outcome(Strict):
    """The outcome that a worker reports for a computed, checked and stored product."""

    kernel: str
    config: dict[str, int]
    why: str
    device: str
    product: ProductInfo
    measured: Measured
    gflops: float | None
    verification: Verification
    batch: int = 1  # products of the same launch, this one among them
    error_bound: ErrorBound | None = None


class BenchmarkOutcome(Strict):
    """The outcome that a worker reports for a finished benchmark; its measurements are among the job's findings."""

    device: str
    summary: BenchmarkSummary


class JobEvent(Strict):
    """One change of a job, as its event stream carries it."""

    id: str  # Redis stream id: rises, and is what Last-Event-ID resumes from
    event: str  # queued, running, progress, succeeded, failed, cancelled
    data: dict[str, Any]
