"""A cache of types and shapes of stored matrices. A content address determines type and shape for ever, so a product of
known matrices is planned without asking the store. The ledger checks that they exist and belong to the caller in the
step that records the job.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from jobs.matrices.indexed_store import is_address
from jobs.matrices.interface import MatrixInfo

MAX_KNOWN = 4096


class KnownMatrices:
    """An LRU cache of one process. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._infos: OrderedDict[tuple[str, str], MatrixInfo] = OrderedDict()

    def find(self, owner: str, matrix_id: str) -> MatrixInfo | None:
        with self._lock:
            info = self._infos.get((owner, matrix_id))
            if info is not None:
                self._infos.move_to_end((owner, matrix_id))
            return info

    def keep(self, owner: str, info: MatrixInfo) -> None:
        if not is_address(info.id):
            return
        with self._lock:
            self._infos[owner, info.id] = info
            self._infos.move_to_end((owner, info.id))
            while len(self._infos) > MAX_KNOWN:
                self._infos.popitem(last=False)

    def forget(self, owner: str, matrix_id: str) -> None:
        with self._lock:
            self._infos.pop((owner, matrix_id), None)
