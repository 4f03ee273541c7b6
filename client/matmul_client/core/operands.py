"""Matrices that are, or will be, on the service; `@` between them makes a product that is computed there. `(A @ B @
x).result()` sends one request per product and fetches only the last product: an operand may be the product of a job
that is still queued.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from matmul_client.core.bodies import Reference

if TYPE_CHECKING:
    from matmul_client.core.elements import Array

Self_ = TypeVar("Self_", bound="Operand")


@dataclass(slots=True)
class ChainedProduct:
    """A product that was written with `@`. `job_id` is set once its job exists, so that it is computed once."""

    left: Any
    right: Any
    job_id: str | None = None

    def forget(self) -> None:
        """Its job is cancelled: if the product is asked for again, it is computed again."""
        self.job_id = None


class Operand:
    """A matrix on the service. `A @ B` multiplies there, `A.T` is its transpose, `A.H` its conjugate transpose; none of
    them sends anything yet."""

    __array_ufunc__ = None  # so that `ndarray @ operand` comes here

    def __init__(self, source: Reference | ChainedProduct) -> None:
        self._source = source
        self._transposed = self._conjugated = False

    @property
    def T(self: Self_) -> Self_:
        """The transpose; nothing is computed for it."""
        view = copy.copy(self)
        view._transposed = not self._transposed
        return view

    @property
    def H(self: Self_) -> Self_:
        """The conjugate transpose, of complex matrices; of real ones the transpose."""
        view = self.T
        view._conjugated = not self._conjugated
        return view

    def _seen_as(self, other: Operand) -> None:
        self._transposed, self._conjugated = other._transposed, other._conjugated

    if not TYPE_CHECKING:  # a type checker would take `ndarray @ operand` for numpy's product

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            """For `np.asarray`, which would make an array of this one object."""
            array = self._fetched()
            return array if dtype is None else array.astype(dtype, copy=False)

    def _fetched(self) -> Array:
        raise TypeError("this is on the service; fetch it, by numpy() or result()")

    def __matmul__(self, other: Any) -> Any:
        return self._product(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._product(other, self)

    def _product(self, left: Any, right: Any) -> Operand:
        raise TypeError("an operand belongs to a client")
