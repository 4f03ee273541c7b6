"""A product that did not pass its check: whose fault it is, as far as one can tell.

Every kernel adds up in a fixed order. A product that is wrong again in the same way, bit for bit, may be the kernel's
doing: a request could choose it, so that is held against a device once for each kernel. One that comes out otherwise
the second time is the device's doing.
"""

from __future__ import annotations

from collections.abc import Callable

from jobs.errors import MatmulError, VerificationFailed
from kernels.selection.choose import Choice


class Mismatch(VerificationFailed):
    """The product did not pass its check, so it is not returned."""

    def __init__(self, detail: str, digest: int) -> None:
        super().__init__(detail)
        self._digest = digest  # of the wrong product
        self.kernel: str | None = None  # whose doing it may be

    def explain(self, choice: Choice, again: Callable[[], int]) -> None:
        """`again` makes the product once more, by the same kernel, and gives its digest."""
        try:
            is_repeated = again() == self._digest
        except MatmulError:
            is_repeated = True  # not known, so nothing is held against the device
        self.kernel = choice.kernel.name if is_repeated else None
