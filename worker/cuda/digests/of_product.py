"""The digests of a product and of the copies of its operands, each computed where that is cheapest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobs.formats.elements import Array
from jobs.matrices.digest import PART, Digest, digest_of_parts
from worker.cuda.compile import Compiler
from worker.cuda.digests.launch import PendingDigests, launch_digests
from worker.cuda.digests.plan import MIN_DIGESTED_BYTES, stored_bytes
from worker.cuda.memory import DeviceMatrix, Staging, StopWatch


class ProductDigests:
    """Of A, B and the product on the device, and of what was added, C and a bias. A sketch that reads every byte can
    take those of `left` from what it reads, so these wait for it; all others are taken on the current stream as soon as
    the product is there (`begin_others`). Whatever else reads the matrices calls `begin` before. So no digest is of
    bytes that came after those which the check saw."""

    def __init__(
        self,
        compiler: Compiler,
        matrices: Sequence[DeviceMatrix],
        staging: Staging,
        left: tuple[bool, bool, bool],
        *,
        items: int = 1,
    ) -> None:
        """`items`: into how many equal matrices each is divided, which have digests of their own. A sketch digests only
        what `divides_parts`."""
        self._compiler, self._staging, self._left, self._items = compiler, staging, left, items
        self._matrices = [_pieces(each, items) for each in matrices]
        self._others = [i for i in range(len(matrices)) if i >= len(left) or not left[i]]
        self._begun: set[int] = set()
        self._pending: list[tuple[list[int], PendingDigests]] = []
        self._known: dict[int, list[int]] = {}

    def restart(self) -> None:
        """The product is computed once more."""
        self._begun, self._pending, self._known = set(), [], {}

    @property
    def may_wait(self) -> bool:
        """Whether `begin_others` copies small matrices, and so waits for the device."""
        return not all(self._is_large(i) for i in self._others)

    def begin_others(self) -> None:
        """Starts the digests that no sketch can compute. Small matrices are copied to the host."""
        self._begin(self._others)

    def begin(self) -> None:
        """Starts all remaining digests."""
        self._begin([*range(len(self._matrices))])

    def _begin(self, indices: list[int]) -> None:
        indices = [i for i in indices if i not in self._begun]
        large = [i for i in indices if self._is_large(i)]
        if large:
            pieces = [piece for i in large for piece in self._matrices[i]]
            self._pending.append((large, launch_digests(self._compiler, pieces)))
        for i in indices:
            if i not in large:
                self._known[i] = [_digest_of_copy(each, self._staging) for each in self._matrices[i]]
        self._begun |= set(indices)

    def _is_large(self, index: int) -> bool:
        return stored_bytes(self._matrices[index][0].layout) >= MIN_DIGESTED_BYTES

    @property
    def waiting(self) -> tuple[bool, bool, bool]:
        """Which of A, B and the product the next sketch must digest."""
        of_a, of_b, of_c = self._left
        return of_a and 0 not in self._begun, of_b and 1 not in self._begun, of_c and 2 not in self._begun

    def taken(self, pending: PendingDigests) -> None:
        """By a sketch, of all that were waiting."""
        indices = [i for i, is_waiting in enumerate(self.waiting) if is_waiting]
        self._pending.append((indices, pending))
        self._begun |= set(indices)

    def of(self, index: int) -> list[int]:
        """Of each of the items. Waits for the device the first time."""
        if not self._pending and len(self._begun) == len(self._matrices):
            return self._known[index]
        self.begin()
        for indices, pending in self._pending:
            parts = iter(pending.result())
            for i in indices:
                self._known[i] = self._digests([next(parts) for _ in self._matrices[i]])
        self._pending = []
        return self._known[index]

    def _digests(self, parts: Sequence[Array]) -> list[int]:
        """Of items whose parts these are, or of whose whole batch."""
        items = parts if len(parts) == self._items else np.split(parts[0], self._items)
        return [digest_of_parts(each) for each in items]


def divides_parts(matrix: DeviceMatrix) -> bool:
    """Whether the parts of one item after the other are those of the whole batch."""
    return stored_bytes(matrix.layout.item) % PART == 0


def _pieces(matrix: DeviceMatrix, items: int) -> list[DeviceMatrix]:
    """What is digested: the whole matrix, if its items are whole parts of it."""
    if items == 1 or divides_parts(matrix):
        return [matrix]
    return [matrix.item(index) for index in range(items)]


def _digest_of_copy(matrix: DeviceMatrix, staging: Staging) -> int:
    """The digest of a matrix on the device, taken here, of a copy that is brought back in pieces."""
    digest = Digest(matrix.layout.batch * matrix.layout.rows * matrix.layout.row_bytes)
    for piece in staging.download(matrix, StopWatch()):
        digest.update(piece)
    return digest.value()
