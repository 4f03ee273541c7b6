"""Element types and shapes of stored matrices that were asked for before.

An id that is a content address names one type and shape for ever, so a product of such matrices is planned without
asking the store. Whether they are there, and its caller's, the ledger finds in the step that records the job.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from jobs.matrices.indexed_store import is_address
from jobs.matrices.interface import MatrixInfo

MAX_KNOWN = 4096


class KnownMatrices:
    """Of one process; for any threads. The one used last goes last."""

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
