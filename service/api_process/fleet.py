"""The live workers that this API process can use, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from jobs.errors import MatmulError
from jobs.fleet.places import ServicePlace, disagreement
from jobs.fleet.registry import WorkerRegistry
from jobs.fleet.workers import WorkerInfo
from jobs.settings import Settings

OTHER_STORE = "It keeps matrices in another store than this service."

log = structlog.get_logger(__name__)


class Fleet:
    """For worker threads. Its statements about unusable workers are as of the last reading."""

    def __init__(self, registry: WorkerRegistry, place: ServicePlace, settings: Settings) -> None:
        self._registry, self._place, self._settings = registry, place, settings
        self._useless: tuple[str, ...] = ()  # a sentence for each worker that takes no jobs
        self._differing: tuple[str, ...] = ()  # and for each whose settings differ
        self._lacking: tuple[str, ...] = ()  # and for each that serves without some kernels
        self._logged: set[str] = set()

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._useless + self._differing + self._lacking

    @property
    def has_useless(self) -> bool:
        """Whether there are workers that take no jobs."""
        return bool(self._useless)

    def read(self) -> Sequence[WorkerInfo]:
        """The workers that take jobs. Raises StoreUnavailable, also if another API process has a different store."""
        self._place.tell()
        found = self.all()
        differing = ((info, disagreement(info.settings, self._settings)) for info in found)
        self._useless = tuple(f"{info.id} takes no jobs. {info.reason}" for info in found if not info.serves)
        self._differing = tuple(f"{info.id} has other settings: {what}." for info, what in differing if what)
        self._lacking = tuple(_lacking(info) for info in found if info.serves and info.device.left_out)
        self._log()
        return [info for info in found if info.serves]

    def all(self) -> Sequence[WorkerInfo]:
        """All workers, including those that take no jobs, each with the reason. Raises StoreUnavailable."""
        mine = self._place.mine
        return [
            info.model_copy(update={"state": "misplaced", "reason": OTHER_STORE})
            if info.serves and mine and info.store not in ("", mine)
            else info
            for info in self._registry.known()
        ]

    def explained(self, refusal: MatmulError) -> MatmulError:
        """The refusal, extended by the workers that are live but take no jobs."""
        if not self._useless:
            return refusal
        return type(refusal)(" ".join([refusal.detail, *self._useless]), field=refusal.field)

    def _log(self) -> None:
        now = set(self.warnings)
        for warning in sorted(now - self._logged):
            log.warning("a worker is not as this service needs it", reason=warning)
        self._logged = now


def _lacking(info: WorkerInfo) -> str:
    left_out = info.device.left_out
    names = ", ".join(dict.fromkeys(each.kernel for each in left_out))
    return f"{info.id} serves without all of {names}. {left_out[0].reason}"
