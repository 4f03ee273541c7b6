"""Measures each case in a separate process: slower, but independent of what earlier cases left in memory, library
caches and handles. The other end is `worker/process/isolated_case.py`.
"""

from __future__ import annotations

import select
import subprocess
import sys
import time
from contextlib import suppress

import structlog
from pydantic import TypeAdapter

from jobs.benchmarks.records import CaseRecord, Samples
from worker.benchmark.case_run import CaseRun, Check, Result

START_S = 120.0  # longest start of a process, including the device and compilation
TIMES_OVER = 6.0  # time limit of a case, as a multiple of its sampling limit: warm-up, checks and copies
LOOK_EVERY_S = 0.05
END_S = 30.0  # for a process to exit after its answer
PIECE_BYTES = 1 << 16

CASE_RUN: TypeAdapter[CaseRun] = TypeAdapter(CaseRun)
RESULT: TypeAdapter[tuple[CaseRecord, Samples]] = TypeAdapter(tuple[CaseRecord, Samples])

log = structlog.get_logger(__name__)


class Isolated:
    """`command` is the command line of the process; it reads a case run, and writes its result."""

    def __init__(self, command: tuple[str, ...] = (sys.executable, "-m", "worker.process.isolated_case")) -> None:
        self._command = command

    def measure(self, case_run: CaseRun, check: Check) -> Result:
        """Measures a case. Raises what `check` raises. If the process ends without a result, the record has its exit
        code.
        """
        timeout_s = START_S + TIMES_OVER * case_run.timing.timeout_s + case_run.spec.energy.window_s
        pipe = subprocess.PIPE
        with subprocess.Popen(self._command, stdin=pipe, stdout=pipe, bufsize=0) as process:
            try:
                answer = _conversation(process, CASE_RUN.dump_json(case_run) + b"\n", timeout_s, check)
            finally:
                process.kill()
        if answer is None:
            return case_run.without_figures("timeout", f"Its process did not end in {timeout_s:g} s.")
        if process.returncode != 0:
            log.warning("a measuring process broke off", case=case_run.case.id, code=process.returncode)
            reason = f"Its process ended with exit code {process.returncode}; the worker's log may say more."
            return case_run.without_figures("launch_error", reason)
        return RESULT.validate_json(answer)


def _conversation(process: subprocess.Popen[bytes], question: bytes, timeout_s: float, check: Check) -> bytes | None:
    """The process's output until it ends; None if that takes too long. Its input is kept open, because the process
    takes the end of input for the death of its parent.
    """
    assert process.stdin is not None and process.stdout is not None
    with suppress(BrokenPipeError):  # it has already died; its exit code says so
        process.stdin.write(question)
    answer, until = bytearray(), time.monotonic() + timeout_s
    while time.monotonic() < until:
        check()
        if select.select([process.stdout], [], [], LOOK_EVERY_S)[0]:
            piece = process.stdout.read(PIECE_BYTES)
            if not piece:
                process.wait(END_S)
                return bytes(answer)
            answer += piece
    return None
