"""What is known of a product in tiles beyond the attempt that computes it: in the ledger, tile by tile, fenced."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping

import structlog
from pydantic import ValidationError

from jobs.base import Strict
from jobs.errors import JobFailed, StaleAttempt, StoreFull
from jobs.ledger.interface import Claimed, Ledger
from jobs.models import Progress
from worker.device.retry import retry_until
from worker.device.tiles import CheckedTile, TileRecord, Tiling

KEEP_TIMEOUT_S = 60.0  # for a Redis that is away or full: what is done would be lost with the attempt
NO_ROOM = "The job store has no room for what is known of the product's tiles; delete finished jobs and retry this one."
UNREADABLE = "what is known of a product's tiles cannot be read; all are computed again"
HEADER = "tiling"

log = structlog.get_logger(__name__)


class Header(Strict):
    """What all tiles of a product have in common."""

    key: str  # `TilePlan.key`
    kernel: str
    config: dict[str, int]
    seed: int  # of fingerprints
    is_spoilt: bool = False  # something was wrong, so no tile of this kernel counts


class TileJournal:
    """The tiles of one attempt, and of earlier ones. `check_ownership` raises StaleAttempt once the job is lost, as
    does every method that stores something."""

    def __init__(self, claimed: Claimed, ledger: Ledger, check_ownership: Callable[[], None]) -> None:
        self._claimed, self._ledger, self._check_ownership = claimed, ledger, check_ownership
        self._kept = retry_until(
            lambda: ledger.findings(claimed.job.id), timeout_s=KEEP_TIMEOUT_S, check_cancelled=check_ownership
        )
        self.header = _header(self._kept.get(HEADER))
        self.records: dict[int, TileRecord] = {}
        self._total = 1
        self._estimate_s = 0.0
        self._began = time.monotonic()
        self._found = 0  # tiles of earlier attempts
        self._after_s = 0.0

    def begin(self, tiling: Tiling, kernel: str, config: dict[str, int], *, found: int | None) -> int:
        """Records how the product is computed; returns the seed of its fingerprints. `found`: the seed of the tiles
        that are in the product's memory. If they are those recorded last, and of the same plan, they count. Others may
        be there: an attempt on another host, or beside a stuck one, begins in memory of its own."""
        known, plan = self.header, tiling.plan
        records: dict[int, TileRecord] | None = None
        if known is not None and known.seed == found and known.key == plan.key and not known.is_spoilt:
            records = _records(self._kept, known)
        if known is None or records is None:
            header = Header(key=plan.key, kernel=kernel, config=config, seed=secrets.randbits(62))
        else:
            header, self.records = known, records
        self.header, self._total, self._found = header, plan.count, len(self.records)
        self._estimate_s = tiling.estimate.total_s * (1 - self._found / plan.count)
        self._keep({HEADER: header.model_dump_json()}, f"{kernel} {tiling.why}")
        return header.seed

    def add(self, checked: CheckedTile, *, after_s: float = 0.0) -> None:
        """Records a tile that is in the product's memory. `after_s`: the time before the first tile began."""
        self._after_s = after_s
        record = checked.record
        self.records[record.tile] = record
        tile = checked.tile
        place = f"rows {tile.rows.start} to {tile.rows.stop}, columns {tile.columns.start} to {tile.columns.stop}"
        self._keep({_name(self.header, record.tile): record.model_dump_json()}, f"done: {place}")

    def spoil(self) -> None:
        """Records that something was wrong: another attempt starts anew, with another kernel."""
        if self.header is not None:
            self.header = self.header.model_copy(update={"is_spoilt": True})
            self._keep({HEADER: self.header.model_dump_json()}, None)

    def _keep(self, findings: dict[str, str], current: str | None) -> None:
        self._check_ownership()
        job, attempt = self._claimed.job, self._claimed.attempt
        done = len(self.records)
        progress = Progress(done=done, total=self._total, current=current, eta_s=self._eta_s())
        kept = {name: text.encode() for name, text in findings.items()}
        try:
            owned = retry_until(
                lambda: self._ledger.keep_findings(job.id, attempt, kept, progress, {"tiles": done}),
                timeout_s=KEEP_TIMEOUT_S,
                check_cancelled=self._check_ownership,
            )
        except StoreFull as error:
            raise JobFailed(NO_ROOM) from error
        if not owned:
            raise StaleAttempt

    def _eta_s(self) -> float:
        """The remaining time at this attempt's pace; as estimated, as long as no tile is done."""
        done = len(self.records) - self._found
        if not done:
            return round(self._estimate_s, 1)
        of_tiles_s = max(time.monotonic() - self._began - self._after_s, 0.0)
        return round(of_tiles_s / done * (self._total - len(self.records)), 1)


def _name(header: Header | None, tile: int | str) -> str:
    assert header is not None, "tiles come after the header"
    return f"tile:{header.seed}:{tile}"


def _records(kept: Mapping[str, bytes], header: Header) -> dict[int, TileRecord] | None:
    """The records of the tiles with this header's seed; the elements of others were overwritten. None if another
    version wrote them.
    """
    own = [text for name, text in kept.items() if name.startswith(_name(header, ""))]
    try:
        return {record.tile: record for record in map(TileRecord.model_validate_json, own)}
    except ValidationError:
        log.warning(UNREADABLE)
        return None


def _header(text: bytes | None) -> Header | None:
    """The header; None also if another version wrote it."""
    try:
        return None if text is None else Header.model_validate_json(text)
    except ValidationError:
        log.warning(UNREADABLE)
        return None
