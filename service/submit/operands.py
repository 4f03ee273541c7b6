"""From an operand as asked for to what it is, and to how the job record names it. For worker threads."""

from __future__ import annotations

import hashlib

import orjson

from jobs.errors import InvalidMatrix, MatmulError
from jobs.formats.elements import matrix_bytes
from jobs.matrices.interface import MatrixInfo, MatrixStore
from jobs.matrices.random import check_random
from jobs.models import OperandRef, RandomSpec
from jobs.settings import Settings
from service.bodies.options import MatmulOptions, MatrixRef
from service.bodies.reader import MatmulInput, Operand
from service.bodies.uploads import Upload
from service.submit.plan import OperandType, ProductPlan, make_plan


class OperandResolver:
    """The operands of one request."""

    def __init__(self, store: MatrixStore, settings: Settings, owner: str) -> None:
        self._store = store
        self._settings = settings
        self._owner = owner
        self._known: dict[str, MatrixInfo] = {}

    def plan(self, options: MatmulOptions, a: Operand, b: Operand) -> ProductPlan:
        """Raises InvalidRequest and its kin, MatrixNotFound."""
        types = [self._type_of(operand, name, options) for operand, name in ((a, "a"), (b, "b"))]
        return make_plan(options, *types, max_product_bytes=self._settings.max_matrix_bytes)

    def check(self, options: MatmulOptions, a: Operand, b: Operand) -> None:
        """For readers, which ask before the elements have come."""
        self.plan(options, a, b)

    def _type_of(self, operand: Operand, name: str, options: MatmulOptions) -> OperandType:
        try:
            match operand:
                case Upload():
                    return OperandType(operand.dtype, operand.shape)
                case RandomSpec():
                    return self._random_type(operand, options)
                case MatrixRef():
                    info = self._stored(operand.matrix)
                    return OperandType(info.dtype, info.shape)
        except MatmulError as error:
            error.field = error.field or name
            raise

    def _random_type(self, spec: RandomSpec, options: MatmulOptions) -> OperandType:
        dtype = spec.dtype or options.dtype or "float32"
        check_random(spec, dtype)
        if (size := matrix_bytes(dtype, spec.shape)) > self._settings.max_matrix_bytes:
            raise InvalidMatrix(
                f"The random matrix would have {size} bytes; the largest made here has "
                f"{self._settings.max_matrix_bytes}."
            )
        return OperandType(dtype, spec.shape, adopts_dtype=True)

    def _stored(self, matrix_id: str) -> MatrixInfo:
        """A stored matrix, which from now on is kept for its full time again. Raises MatrixNotFound."""
        if matrix_id not in self._known:
            self._store.touch(matrix_id, owner=self._owner, ttl_s=self._settings.matrix_ttl_s)
            self._known[matrix_id] = self._store.info(matrix_id, owner=self._owner)
        return self._known[matrix_id]

    def refer(self, operand: Operand, name: str, options: MatmulOptions) -> OperandRef:
        """How the job record names it."""
        kind = self._type_of(operand, name, options)
        match operand:
            case Upload():
                return OperandRef(source="inline", matrix=operand.name, dtype=kind.dtype, shape=kind.shape)
            case RandomSpec():
                spec = operand.model_copy(update={"dtype": kind.dtype})
                return OperandRef(source="random", random=spec, dtype=kind.dtype, shape=kind.shape)
            case MatrixRef():
                return OperandRef(source="matrix", matrix=operand.matrix, dtype=kind.dtype, shape=kind.shape)


def fingerprint(what: str, asked: MatmulInput) -> str:
    """The same for the same request, however it was written down; `what` is its method and path."""
    parts = [what, asked.options.model_dump(), *(_described(operand) for operand in (asked.a, asked.b))]
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _described(operand: Operand) -> object:
    return operand.digest if isinstance(operand, Upload) else operand.model_dump()
