"""Contexts of a product's steps, as classes: a generator's context takes several times as long to enter and leave."""

from __future__ import annotations

from types import TracebackType

from jobs.errors import BodyTooLarge, NoRoomForProduct, OperandDamaged, OperandOutOfRange, StoreFull, VerificationFailed
from worker.device.runner import Product


class CopiesDroppedOnDamage:
    """No other job uses copies of operands that took part in a product that is not right."""

    def __init__(self, product: Product) -> None:
        self._product = product

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if isinstance(error, OperandDamaged | OperandOutOfRange | VerificationFailed):
            self._product.drop_operands()


class _NoRoom:
    """Raises NoRoomForProduct where the store has none. Holds nothing, so one serves all."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if isinstance(error, StoreFull | BodyTooLarge):
            raise NoRoomForProduct(error.detail) from error


no_room = _NoRoom()
