"""Operands of a claimed product, wherever they are."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Literal, NamedTuple

from jobs.errors import MatrixDamaged, MatrixNotFound, OperandDamaged, OperandMissing
from jobs.formats.elements import matrix_bytes
from jobs.formats.factors import as_number
from jobs.ledger.interface import Claimed
from jobs.matrices.digest import digest_of
from jobs.matrices.indexed_store import is_address
from jobs.matrices.interface import MatrixStore, StoredMatrix
from jobs.matrices.packed import PackedMatrix
from jobs.matrices.random import generate
from jobs.models import MatmulRequest, job_of_product
from jobs.requests.operands import OperandRef
from kernels.model.scales import block_of, width_of
from kernels.selection.demands import demand_of
from worker.cpu.free_memory import check_free_memory
from worker.device.operands import HostOperand, StoredOperand, WidenedOperand
from worker.device.runner import Epilogue
from worker.device.scaled import ScaledOperand, check_values


class ProductOperands(NamedTuple):
    """All operands of a claimed product; `epilogue` is None where the product is A·B."""

    a: HostOperand
    b: HostOperand
    epilogue: Epilogue | None


def open_operands(claimed: Claimed, request: MatmulRequest, store: MatrixStore, opened: ExitStack) -> ProductOperands:
    """The operands, which are open as long as `opened` is. Raises OperandMissing, OperandOutOfRange, DoesNotFit."""
    return ProductOperands(
        factor("a", claimed, request, store, opened),
        factor("b", claimed, request, store, opened),
        epilogue_of(request, claimed.c, store, opened),
    )


def factor(
    name: Literal["a", "b"], claimed: Claimed, request: MatmulRequest, store: MatrixStore, opened: ExitStack
) -> HostOperand:
    """A or B: widened, or with its block scales, where the product takes it so. Raises as `open_operands`."""
    ref, dtype = getattr(request, name), request.problem.dtype
    stored = operand(ref, getattr(claimed, name), store, opened)
    if (scales := request.scale_a if name == "a" else request.scale_b) is not None:
        return _scaled(name, request, stored, operand(scales, None, store, opened))
    if dtype == ref.dtype:
        return stored
    twice = 2 * matrix_bytes(dtype, ref.shape)  # it is widened once more for its digest
    check_free_memory(twice, "An operand that is widened needs")
    is_free = request.kernel == "auto" and not demand_of(request)
    return WidenedOperand(stored, ref.dtype, is_free=is_free)


def _scaled(name: Literal["a", "b"], request: MatmulRequest, stored: HostOperand, scales: HostOperand) -> ScaledOperand:
    """Raises OperandOutOfRange."""
    transposed: bool = getattr(request, f"transpose_{name}")
    width = width_of(name, stored.shape, scales.shape, transposed=transposed)
    assert width is not None, "shapes were compared before the job was recorded"
    check_values(name, scales.elements)
    return ScaledOperand(stored, scales, block_of(name, width, transposed=transposed))


def operand(ref: OperandRef, packed: PackedMatrix | None, store: MatrixStore, opened: ExitStack) -> HostOperand:
    """The matrix that `ref` names; `packed` is the matrix itself, where it is in the job's record. A stored one is open
    as long as `opened` is, and opened when it is needed: then OperandMissing and OperandDamaged are raised, too. Raises
    OperandMissing, DoesNotFit."""
    if packed is not None:
        return HostOperand(packed.elements(ref.dtype, ref.shape), digest=packed.digest)
    if ref.random is not None:
        check_free_memory(matrix_bytes(ref.dtype, ref.shape), "A random operand needs")  # before it is made
        elements = generate(ref.random, ref.dtype)
        return HostOperand(elements, digest=digest_of(elements))
    if ref.matrix is None:  # it was in the record, and its time ran out
        raise OperandMissing
    matrix = ref.matrix

    def found() -> StoredMatrix:
        try:
            return opened.enter_context(store.open(matrix, ref.dtype, ref.shape))
        except MatrixNotFound as error:
            raise OperandMissing from error
        except MatrixDamaged as error:
            raise OperandDamaged from error

    return StoredOperand(ref.shape, found, matrix if _names_contents(matrix) else None)


def forget_copies(request: MatmulRequest, store: MatrixStore) -> None:
    """Has the next attempt fetch the operands again, if the store has them elsewhere than on this host."""
    for ref in (request.a, request.b, request.c, request.bias, request.scale_a, request.scale_b):
        if ref is not None and ref.matrix is not None:
            store.forget_copy(ref.matrix)


def epilogue_of(
    request: MatmulRequest, packed: PackedMatrix | None, store: MatrixStore, opened: ExitStack
) -> Epilogue | None:
    """None where the product is A·B. C is not opened where its factor is 0."""
    if not request.has_epilogue:
        return None
    alpha, beta = as_number(request.alpha), as_number(request.beta)
    output = request.delivered.dtype
    has_c = request.c is not None and beta != 0.0
    return Epilogue(
        alpha,
        beta if has_c else 0.0,
        operand(request.c, packed, store, opened) if request.c is not None and has_c else None,
        None if request.bias is None else operand(request.bias, None, store, opened),
        request.activation,
        None if output == request.problem.product_dtype else output,
        may_fuse=not demand_of(request),
    )


def _names_contents(matrix_id: str) -> bool:
    """A content address does; and a product's id, for no attempt that succeeded stores another."""
    return is_address(matrix_id) or job_of_product(matrix_id) is not None
