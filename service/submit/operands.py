"""Resolves requested operands: their type and shape, and their reference in the job's record. For worker threads."""

from __future__ import annotations

import hashlib

import orjson

from jobs.errors import InvalidMatrix, InvalidRequest, MatmulError, MatrixNotFound, ProductExpired
from jobs.formats.elements import matrix_bytes
from jobs.ledger.chains import ENDS, operand_failed
from jobs.matrices.interface import MatrixInfo
from jobs.matrices.packed import PackedMatrix
from jobs.matrices.random import check_random
from jobs.models import Job, MatmulRequest, product_id
from jobs.requests.operands import INPUTS, OPERANDS, SCALES, OperandRef, RandomSpec
from jobs.states import JobState
from kernels.model.numerics import DTypeName
from kernels.model.scales import SCALE_DTYPE
from service.bodies.options import JobRef, MatrixRef
from service.bodies.reader import NEEDED, MatmulInput, Operand
from service.bodies.sizes import in_units
from service.bodies.uploads import Upload
from service.context import Context
from service.submit.epilogue import check_epilogue
from service.submit.groups import check_alone
from service.submit.matrices import product_in_record
from service.submit.operand_type import OperandType
from service.submit.plan import ProductPlan, make_plan
from service.submit.scales import check_both


class OperandResolver:
    """The operands of one request."""

    def __init__(self, context: Context, owner: str) -> None:
        self._context = context
        self._settings = context.settings
        self._owner = owner
        self._known: dict[str, tuple[MatrixInfo, PackedMatrix | None]] = {}
        self._jobs: dict[str, Job] = {}
        self._assumed: list[str] = []  # ids of matrices planned from the cache, not looked up in the store

    def assume(self, asked: MatmulInput) -> bool:
        """Whether all stored operands are known from earlier requests; they are then planned without asking the
        store.
        """
        refs = [operand.matrix for operand in asked.operands.values() if isinstance(operand, MatrixRef)]
        infos = [self._context.known_matrices.find(self._owner, matrix_id) for matrix_id in refs]
        known = [info for info in infos if info is not None]
        if len(known) < len(infos):
            return False
        self._known |= {info.id: (info, None) for info in known}
        self._assumed = refs
        return True

    @property
    def has_assumed(self) -> bool:
        return bool(self._assumed)

    def assume_nothing(self) -> None:
        """Looks operands up in the store from now on."""
        for matrix_id in self._assumed:
            self._known.pop(matrix_id, None)
            self._context.known_matrices.forget(self._owner, matrix_id)
        self._assumed = []

    def plan(self, asked: MatmulInput) -> ProductPlan:
        """Raises InvalidRequest and its kin, MatrixNotFound, JobNotFound, ProductExpired, OperandFailed."""
        if asked.c is None and asked.options.beta is not None:
            raise InvalidRequest(
                "beta is given without c; send c, which it multiplies, or leave beta out.", field="beta"
            )
        check_both(asked.scale_a is not None, asked.scale_b is not None)
        return self._plan(asked)

    def check(self, asked: MatmulInput) -> None:
        """Validates operands for readers, before the elements, and possibly C, have arrived."""
        self._plan(asked)

    def _plan(self, asked: MatmulInput) -> ProductPlan:
        options = asked.options
        check_alone(options, asked.operands)
        a, b = (self._type_of(getattr(asked, name), name, options.dtype_of(name)) for name in NEEDED)
        if asked.is_plain:
            key = ("plan", a, b, self._settings.max_matrix_bytes)
            return options.derived(key, lambda: self._plan_for(asked, a, b))
        return self._plan_for(asked, a, b)

    def _plan_for(self, asked: MatmulInput, a: OperandType, b: OperandType) -> ProductPlan:
        """The plan of a product of A and B of these types. That of a plain product depends on nothing else."""
        options = asked.options
        scales = {
            name: self._type_in_store(operand, name, SCALE_DTYPE)
            for name in SCALES
            if (operand := getattr(asked, name)) is not None
        }
        limit_bytes = self._settings.max_matrix_bytes
        plan = make_plan(options, a, b, max_product_bytes=limit_bytes, has_c=asked.c is not None, scales=scales)
        usual = plan.problem.product_dtype
        c = None if asked.c is None else self._type_of(asked.c, "c", usual)
        bias = None
        if asked.bias is not None:
            if plan.demand:
                raise InvalidRequest("Nothing is proven of a product with a bias; add it as c instead.", field="bias")
            bias = self._type_in_store(asked.bias, "bias", usual)
        check_epilogue(options, plan.problem, c, bias)
        return plan

    def _type_in_store(self, operand: Operand, name: str, usual: DTypeName) -> OperandType:
        """The type of an operand that is, or will be, in the store, because job records cannot hold it."""
        kind = self._type_of(operand, name, usual)
        is_of_record = isinstance(operand, MatrixRef) and self._find(operand.matrix)[1] is not None
        if isinstance(operand, JobRef) or is_of_record:
            raise InvalidRequest(f"{name} cannot be the product of a job; fetch that, and send it.", field=name)
        return kind

    def _type_of(self, operand: Operand, name: str, usual: DTypeName) -> OperandType:
        """The type of an operand; `usual` is the element type if it has none of its own."""
        try:
            match operand:
                case Upload():
                    return OperandType(operand.dtype, operand.shape)
                case RandomSpec():
                    return self._random_type(operand, usual)
                case MatrixRef():
                    info, _ = self._find(operand.matrix)
                    return OperandType(info.dtype, info.shape)
                case JobRef():
                    delivered = self._request_of(self._job(operand.job)).delivered
                    return OperandType(delivered.dtype, delivered.shape)
        except MatmulError as error:
            error.field = name if error.field is None else f"{name}.{error.field}"
            raise

    def _random_type(self, spec: RandomSpec, usual: DTypeName) -> OperandType:
        dtype = spec.dtype or usual
        check_random(spec, dtype)
        if (size := matrix_bytes(dtype, spec.shape)) > self._settings.max_matrix_bytes:
            raise InvalidMatrix(
                f"The random matrix would have {in_units(size)}; the largest made here has "
                f"{in_units(self._settings.max_matrix_bytes)}.",
                field="random.shape",
            )
        return OperandType(dtype, spec.shape, adopts_dtype=True)

    def _find(self, matrix_id: str) -> tuple[MatrixInfo, PackedMatrix | None]:
        """A stored matrix, whose expiry is renewed, or the small product of another job. Raises MatrixNotFound."""
        if matrix_id not in self._known:
            store, owner = self._context.store, self._owner
            try:
                info = store.touch(matrix_id, owner=owner, ttl_s=self._settings.matrix_ttl_s)
                self._known[matrix_id] = info, None
                self._context.known_matrices.keep(owner, info)
            except MatrixNotFound:
                self._known[matrix_id] = product_in_record(self._context, matrix_id, owner=owner)
        return self._known[matrix_id]

    def _job(self, job_id: str) -> Job:
        """A job whose product exists or may still come. The expiry of a stored product is renewed."""
        if job_id not in self._jobs:
            job = self._context.ledger.get(job_id, owner=self._owner)
            self._request_of(job)
            state = job.record.state
            if state in ENDS:
                raise operand_failed(job_id, ENDS[state])
            if state is JobState.SUCCEEDED:
                self._check_product(job)
            self._jobs[job_id] = job
        return self._jobs[job_id]

    def _request_of(self, job: Job) -> MatmulRequest:
        if not isinstance(job.record.request, MatmulRequest):
            raise InvalidRequest(f"{job.id} is a benchmark, which has no product; name the job of a product.")
        return job.record.request

    def _check_product(self, job: Job) -> None:
        """Raises ProductExpired."""
        try:
            if not job.product_in_record:
                self._find(product_id(job.id, job.record.attempt))
            elif not job.matrices_kept:
                raise MatrixNotFound
        except MatrixNotFound:
            raise ProductExpired from None

    def pack(self, operand: Operand | None) -> bytes | None:
        """A small operand packed for the job's record; None for one that is stored elsewhere."""
        if isinstance(operand, Upload) and operand.bytes <= self._settings.record_matrix_bytes:
            return operand.pack()
        packed = self._find(operand.matrix)[1] if isinstance(operand, MatrixRef) else None
        return None if packed is None else packed.packed

    def comes_in_record(self, operand: Operand) -> bool:
        """Whether the ledger copies it into the record: the small product of another job."""
        return isinstance(operand, JobRef) and self._job(operand.job).product_in_record

    def refer(self, operand: Operand, name: str, usual: DTypeName, *, in_record: bool) -> OperandRef:
        """The operand's reference in the job's record. `usual` as in the plan; `in_record`: it is kept in the
        record.
        """
        kind = self._type_of(operand, name, usual)
        match operand:
            case Upload():
                matrix = None if in_record else operand.name
                return OperandRef(source="inline", matrix=matrix, dtype=kind.dtype, shape=kind.shape)
            case RandomSpec():
                spec = operand.model_copy(update={"dtype": kind.dtype})
                return OperandRef(source="random", random=spec, dtype=kind.dtype, shape=kind.shape)
            case MatrixRef():
                return OperandRef(source="matrix", matrix=operand.matrix, dtype=kind.dtype, shape=kind.shape)
            case JobRef():
                return OperandRef(source="job", job=operand.job, dtype=kind.dtype, shape=kind.shape)


def fingerprint(what: str, asked: MatmulInput) -> str:
    """A fingerprint of the request that does not depend on its formatting; `what` is its method and path."""
    parts = [what, asked.options.model_dump(), *(map(_described, asked.operands.values()))]
    parts += [name for name in INPUTS[len(OPERANDS) :] if name in asked.operands]  # which might be c
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _described(operand: Operand) -> object:
    return operand.digest if isinstance(operand, Upload) else operand.model_dump()
