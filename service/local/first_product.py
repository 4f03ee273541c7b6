"""What `make run` prints once the service answers: one verified product, the URL, the API key, how to stop."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from threading import Event
from typing import Any

from jobs.models import JobRecord
from service.local.supervisor import tell

READY_TIMEOUT_S = 150.0  # a GPU worker's first start compiles its kernels
REQUEST_TIMEOUT_S = 60.0
POLL_S = 0.1
BUSY_TIMEOUT_S = 15.0  # Valkey may answer slowly while the installation of a first start is still being written to disk
SIZE = 512
PRODUCT = {"a": {"random": {"shape": [SIZE, SIZE], "seed": 1}}, "b": {"random": {"shape": [SIZE, SIZE], "seed": 2}}}


class NotReadyError(RuntimeError):
    """The service did not become ready; the message has the last state seen."""


@dataclass(frozen=True, slots=True)
class ServiceClient:
    """A client of the service."""

    url: str
    api_key: str | None

    def request(self, path: str, body: Any = None, *, accept: str = "application/json") -> tuple[bytes, str | None]:
        """The reply's body and its Location. Raises OSError, also for an error status."""
        headers = {"Accept": accept, "Content-Type": "application/json"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S) as reply:
                return reply.read(), reply.headers["Location"]
        except HTTPException as error:  # the API ended within its reply
            raise OSError(f"the API broke off its reply to {path}") from error

    def wait_until_ready(self, workers: int, stop: Event) -> None:
        """Returns when /readyz is 200 and every worker is live; at the deadline one live worker is enough."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        seen = "it does not answer"
        while not stop.wait(POLL_S):
            try:
                self.request("/readyz")
                live = len(json.loads(self.request("/v1/devices")[0])["devices"])
                if live >= workers or time.monotonic() > deadline:
                    return
            except urllib.error.HTTPError as error:
                seen = error.read().decode(errors="replace")
            except OSError:
                pass  # not listening yet
            if time.monotonic() > deadline:
                raise NotReadyError(f"not ready in {READY_TIMEOUT_S:.0f} s: {seen}")

    def multiply(self, stop: Event) -> JobRecord:
        """Computes one product and returns its job record. Retries after a 503. Raises OSError, NotReadyError."""
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            try:
                _, location = self.request("/v1/matmul", PRODUCT, accept="application/x-npy")
                body, _ = self.request(location or "")
                return JobRecord.model_validate_json(body)
            except urllib.error.HTTPError as error:
                with error:
                    seen = error.read().decode(errors="replace")
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > deadline or stop.wait(POLL_S):
                    raise NotReadyError(f"the first product failed: {seen}") from error


def sentence(record: JobRecord) -> str:
    """One line that describes a succeeded job. Raises NotReadyError for any other record."""
    check, timing = record.verification, record.timing
    if check is None or timing is None or check.residual is None or check.threshold is None or not check.passed:
        raise NotReadyError(f"the first product is not right: {record.model_dump_json()}")
    return (
        f"{SIZE}×{SIZE} float32 by {record.kernel} on {record.device}: "
        f"kernel {timing.kernel_ms:.3g} ms, {record.gflops or 0:.4g} GFLOPS; "
        f"verified: residual {check.residual:.1e} ≤ {check.threshold:.1e}"
    )


class Announcer:
    """Runs beside the supervisor, and asks it to stop if the first product fails."""

    def __init__(self, api: ServiceClient, state: Path, *, workers: int, shows_key: bool) -> None:
        self.failed = False
        self._api, self._state, self._workers, self._shows_key = api, state, workers, shows_key

    def run(self, stop: Event) -> None:
        try:
            self._api.wait_until_ready(self._workers, stop)
            if not stop.is_set():
                tell(self._lines(self._api.multiply(stop)))
        except (OSError, NotReadyError) as error:
            if not stop.is_set():
                self.failed = True
                tell(f"matmul-service did not start: {error}")
                stop.set()

    def _lines(self, record: JobRecord) -> str:
        key = f"API key:  {self._api.api_key}\n" if self._shows_key else ""
        return (
            f"\nProduct:  {sentence(record)}\n"
            f"URL:      {self._api.url}   (the API's manual: {self._api.url}/docs)\n"
            f"{key}"
            f"State:    {self._state}, kept for the next start\n"
            f"Stop:     Ctrl-C\n"
        )
